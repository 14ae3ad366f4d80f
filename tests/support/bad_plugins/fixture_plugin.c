/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A plugin for the tests of the loader, compiled many times: each FIXTURE_ macro makes it wrong in
 * one way. Without any it is sound: a transport and a net that reach nobody, and that answer
 * nonsense where the parameter `misbehave` says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin_api/net.h"
#include "plugin_api/transport.h"

#ifndef FIXTURE_MAGIC
#define FIXTURE_MAGIC WEFT_PLUGIN_MAGIC
#endif
#ifndef FIXTURE_SIZE
#define FIXTURE_SIZE sizeof(weft_plugin_descriptor)
#endif
#ifndef FIXTURE_ABI
#define FIXTURE_ABI WEFT_PLUGIN_ABI_VERSION
#endif
#ifndef FIXTURE_ABI_OLDEST
#define FIXTURE_ABI_OLDEST FIXTURE_ABI
#endif
#ifndef FIXTURE_DRAFT
#define FIXTURE_DRAFT WEFT_PLUGIN_DRAFT
#endif
#ifndef FIXTURE_INTERFACE
#define FIXTURE_INTERFACE WEFT_NET_INTERFACE
#endif
#ifndef FIXTURE_TRANSPORT_SIZE
#define FIXTURE_TRANSPORT_SIZE sizeof(weft_transport_interface)
#endif
#ifndef FIXTURE_NET_SIZE
#define FIXTURE_NET_SIZE sizeof(weft_net_interface)
#endif
#ifndef FIXTURE_POLL
#define FIXTURE_POLL net_poll
#endif
#ifndef FIXTURE_DEINIT
#define FIXTURE_DEINIT plugin_deinit
#endif
#ifndef FIXTURE_PARAMETER_NAME
#define FIXTURE_PARAMETER_NAME "streams"
#endif
#ifndef FIXTURE_PARAMETER_TYPE
#define FIXTURE_PARAMETER_TYPE WEFT_PARAMETER_INTEGER
#endif
#ifndef FIXTURE_PARAMETER_DEFAULT
#define FIXTURE_PARAMETER_DEFAULT "4"
#endif
#ifndef FIXTURE_PARAMETER_COUNT
#define FIXTURE_PARAMETER_COUNT 6
#endif
#ifdef FIXTURE_COLOURED_VENDOR
#define FIXTURE_VENDOR "\033[31mred"
#else
#define FIXTURE_VENDOR "The Weft tests"
#endif

struct weft_plugin {
  const weft_host* host;
  char misbehave[64];
  unsigned asked_to_rest;
};

/* An object of any kind: the plugin that made it comes first. */
struct weft_transport {
  weft_plugin* plugin;
};
struct weft_net {
  weft_plugin* plugin;
  weft_net_device device;
};
struct weft_net_listener {
  weft_plugin* plugin;
};
struct weft_net_connection {
  weft_plugin* plugin;
};
struct weft_connection {
  weft_plugin* plugin;
  uint64_t counters[2];
  weft_slot_meta slots[8];
  uint8_t buffer[8 * 128];
};

/* Shows that the library's code ran at all: a file that is refused must not get this far. */
__attribute__((constructor)) static void mark_run(void) {
  setenv("FIXTURE_RAN_" FIXTURE_ID, "1", 1);
}

static int misbehaves(const weft_plugin* plugin, const char* how) {
  return strcmp(plugin->misbehave, how) == 0;
}

static weft_result refuse(const weft_plugin* plugin, weft_result code, const char* what) {
  plugin->host->set_error(plugin->host->instance, code, WEFT_SOURCE_ERRNO, 111, what,
                          "start the other end");
  return code;
}

/* ---- transport ------------------------------------------------------------------------------- */

static weft_result transport_open(weft_plugin* plugin, const weft_transport_open_info* info,
                                  weft_transport** out) {
  (void)info;
  if (misbehaves(plugin, "open-null")) return WEFT_OK;
  if (misbehaves(plugin, "open-positive")) return WEFT_AGAIN;
  if (misbehaves(plugin, "open-unknown")) return -99;
  if (misbehaves(plugin, "open-silent")) return WEFT_ERROR_SYSTEM;
  if (misbehaves(plugin, "open-fails")) {
    return refuse(plugin, WEFT_ERROR_NETWORK, "cannot reach\nthe fabric");
  }
  *out = (weft_transport*)malloc(sizeof(**out));
  (*out)->plugin = plugin;
  return WEFT_OK;
}

static void transport_close(weft_transport* transport) {
  free(transport);
}

static weft_result transport_peer_info(weft_transport* transport, weft_blob* out) {
  out->data = "peer";
  out->size = 4;
  if (misbehaves(transport->plugin, "peer-info-null")) out->data = NULL;
  if (misbehaves(transport->plugin, "peer-info-huge")) out->size = UINT64_MAX;
  return WEFT_OK;
}

static weft_result transport_can_connect(weft_transport* transport, const weft_peer* peer,
                                         weft_can_connect* out) {
  (void)peer;
  out->locality = WEFT_LOCALITY_HOST;
  out->capabilities = 0;
  strcpy(out->reason, "reaches nobody");
  if (misbehaves(transport->plugin, "reason-endless")) {
    memset(out->reason, 'x', sizeof(out->reason));
  }
  if (misbehaves(transport->plugin, "reason-none")) out->reason[0] = 0;
  if (misbehaves(transport->plugin, "locality-unknown")) out->locality = 17;
  return WEFT_OK;
}

static weft_result transport_prepare(weft_transport* transport,
                                     const weft_connection_request* requests, uint64_t stride,
                                     uint64_t count, weft_connection** out) {
  (void)requests;
  (void)stride;
  for (uint64_t i = 0; i < count; ++i) {
    if (i == 1 && misbehaves(transport->plugin, "prepare-half")) return WEFT_OK;
    out[i] = (weft_connection*)calloc(1, sizeof(*out[i]));
    out[i]->plugin = transport->plugin;
  }
  return WEFT_OK;
}

static weft_result transport_connection_blob(weft_connection* connection, weft_blob* out) {
  out->data = connection;
  out->size = misbehaves(connection->plugin, "blob-huge") ? 24 * 1024 + 1 : 8;
  return WEFT_OK;
}

static weft_result transport_connect(weft_transport* transport, weft_connection* const* connections,
                                     const weft_blob* peer_blobs, uint64_t count) {
  (void)connections;
  (void)peer_blobs;
  (void)count;
  if (misbehaves(transport->plugin, "connect-again")) return WEFT_AGAIN;
  if (misbehaves(transport->plugin, "connect-slow")) return WEFT_IN_PROGRESS;
  return WEFT_OK;
}

static weft_result transport_describe(weft_connection* connection, weft_protocol protocol,
                                      weft_protocol_view* out) {
  const weft_plugin* plugin = connection->plugin;
  out->protocol = protocol;
  out->memory = WEFT_MEMORY_HOST;
  out->device = -1;
  out->buffer = misbehaves(plugin, "view-no-buffer") ? NULL : connection->buffer;
  out->steps = misbehaves(plugin, "view-steps") ? 4 : 8;
  out->step_bytes = 128;
  out->order_bytes = misbehaves(plugin, "view-order") ? 64 : 128;
  out->head = &connection->counters[0];
  out->tail = misbehaves(plugin, "view-no-tail") ? NULL : &connection->counters[1];
  out->slots = connection->slots;
  if (misbehaves(plugin, "view-writer")) out->tail_writer = 9;
  return WEFT_OK;
}

static void transport_close_connection(weft_connection* connection) {
  free(connection);
}

static void transport_abort(weft_transport* transport, uint32_t reason) {
  (void)transport;
  (void)reason;
}

static weft_result transport_progress(weft_transport* transport, uint32_t budget, uint32_t* done) {
  (void)transport;
  *done = budget;
  return WEFT_OK;
}

static weft_result transport_drain(weft_transport* transport) {
  return misbehaves(transport->plugin, "drain-slow") ? WEFT_IN_PROGRESS : WEFT_OK;
}

#ifdef FIXTURE_EXPORTS
static weft_result transport_export(weft_transport* transport, void* address, uint64_t size,
                                    weft_buffer_export* out, weft_shared_buffer** buffer) {
  (void)transport;
  (void)address;
  (void)size;
  (void)out;
  (void)buffer;
  return WEFT_ERROR_UNSUPPORTED;
}
#endif

/* From drain on a plugin of FIXTURE_TRANSPORT_SIZE may end. */
static const weft_transport_interface kTransport = {
    .struct_size = FIXTURE_TRANSPORT_SIZE,
    .reserved = 0,
    .open = transport_open,
    .close = transport_close,
    .peer_info = transport_peer_info,
    .can_connect = transport_can_connect,
    .prepare = transport_prepare,
    .connection_blob = transport_connection_blob,
    .connect = transport_connect,
    .describe = transport_describe,
    .close_connection = transport_close_connection,
    .progress = transport_progress,
    .arm = NULL,
    .abort = transport_abort,
    .drain = transport_drain,
    .read_peer = NULL,
#ifdef FIXTURE_EXPORTS
    .export_buffer = FIXTURE_EXPORTS,
#else
    .export_buffer = NULL,
#endif
    .import_buffer = NULL,
    .release_buffer = NULL,
    .bytes_held = NULL,
};

/* ---- net ------------------------------------------------------------------------------------- */

static const uint32_t kMembers[] = {0};
static const weft_net_device kDevice = {
    .struct_size = sizeof(weft_net_device),
    .capabilities = WEFT_NET_HOST_MEMORY,
    .name = "none0",
    .pci_path = "",
    .guid = 0,
    .speed_mbps = 100,
    .latency_ns = 0,
    .fabric_id = 0,
    .port = 0,
    .rail = -1,
    .plane = -1,
    .numa_node = -1,
    .max_receives = 1,
    .max_requests = 8,
    .max_message = 4096,
    .max_connections = 0,
    .members = NULL,
    .member_count = 0,
    .reserved = 0,
};

static weft_result net_open(weft_plugin* plugin, const weft_net_open_info* info, weft_net** out) {
  (void)info;
  *out = (weft_net*)malloc(sizeof(**out));
  (*out)->plugin = plugin;
  return WEFT_OK;
}

static void net_close(weft_net* net) {
  free(net);
}

static weft_result net_devices(weft_net* net, const weft_net_device** devices, uint64_t* stride,
                               uint64_t* count) {
  net->device = kDevice;
  if (misbehaves(net->plugin, "device-nameless")) net->device.name = NULL;
  if (misbehaves(net->plugin, "device-small")) net->device.struct_size = 8;
  if (misbehaves(net->plugin, "device-of-itself")) {
    net->device.members = kMembers;
    net->device.member_count = 1;
  }
  *devices = &net->device;
  *stride = misbehaves(net->plugin, "device-stride") ? 8 : sizeof(weft_net_device);
  *count = 1;
  if (misbehaves(net->plugin, "devices-none")) *count = 0;
  if (misbehaves(net->plugin, "devices-many")) *count = UINT64_MAX;
  return WEFT_OK;
}

static weft_result net_listen(weft_net* net, uint32_t device, weft_blob* handle,
                              weft_net_listener** out) {
  (void)device;
  *out = (weft_net_listener*)malloc(sizeof(**out));
  (*out)->plugin = net->plugin;
  handle->data = "here";
  handle->size = 4;
  if (misbehaves(net->plugin, "handle-empty")) handle->size = 0;
  if (misbehaves(net->plugin, "handle-huge")) handle->size = 5000;
  return WEFT_OK;
}

static void net_close_listener(weft_net_listener* listener) {
  free(listener);
}

static weft_result net_connect(weft_net* net, uint32_t device, weft_blob handle,
                               weft_net_connection** out) {
  (void)device;
  (void)handle;
  if (misbehaves(net->plugin, "connect-null")) return WEFT_IN_PROGRESS;
  if (misbehaves(net->plugin, "connect-fails")) {
    return refuse(net->plugin, WEFT_ERROR_NETWORK, "cannot connect to 192.0.2.1");
  }
  *out = (weft_net_connection*)malloc(sizeof(**out));
  (*out)->plugin = net->plugin;
  return WEFT_IN_PROGRESS;
}

static weft_result net_accept(weft_net_listener* listener, weft_net_connection** out) {
  (void)out;
  return misbehaves(listener->plugin, "accept-null") ? WEFT_OK : WEFT_IN_PROGRESS;
}

static weft_result net_ready(weft_net_connection* connection) {
  return misbehaves(connection->plugin, "ready-never") ? WEFT_IN_PROGRESS : WEFT_OK;
}

static void net_close_connection(weft_net_connection* connection) {
  free(connection);
}

static weft_result net_register(weft_net_connection* connection, const weft_net_register_info* info,
                                weft_net_registration** out) {
  (void)connection;
  *out = misbehaves(connection->plugin, "register-null") ? NULL
                                                         : (weft_net_registration*)info->address;
  return WEFT_OK;
}

static void net_deregister(weft_net_registration* registration) {
  (void)registration;
}

static weft_result net_isend(weft_net_connection* connection, const weft_net_send* message,
                             weft_net_request** out) {
  (void)connection;
  (void)message;
  (void)out;
  return WEFT_AGAIN;
}

static weft_result net_irecv(weft_net_connection* connection, const weft_net_recv* buffers,
                             uint64_t stride, uint64_t count, weft_net_request** out) {
  (void)connection;
  (void)buffers;
  (void)stride;
  (void)count;
  (void)out;
  return WEFT_AGAIN;
}

static weft_result net_poll(weft_net* net, weft_net_completion* out, uint64_t stride,
                            uint64_t capacity, uint64_t* count) {
  (void)net;
  (void)out;
  (void)stride;
  (void)capacity;
  *count = 0;
  return WEFT_OK;
}

static weft_result net_arm(weft_net* net, int32_t* descriptor) {
  if (misbehaves(net->plugin, "arm-again")) return WEFT_AGAIN;
  *descriptor = misbehaves(net->plugin, "arm-none") ? -1 : 2;
  return WEFT_OK;
}

static void net_abort(weft_net* net) {
  (void)net;
}

static weft_result net_next_event(weft_net* net, weft_net_event* out) {
  if (!misbehaves(net->plugin, "event")) return WEFT_AGAIN;
  out->kind = WEFT_NET_EVENT_PORT_DOWN;
  out->device = 0;
  strcpy(out->text, "none0 is down");
  return WEFT_OK;
}

static weft_result net_get_error(weft_net_connection* connection, char* text, uint64_t size) {
  (void)connection;
  strncpy(text, "the peer went away", size);
  return WEFT_OK;
}

static const weft_net_interface kNet = {
    .struct_size = FIXTURE_NET_SIZE,
    .reserved = 0,
    .open = net_open,
    .close = net_close,
    .devices = net_devices,
    .listen = net_listen,
    .close_listener = net_close_listener,
    .connect = net_connect,
    .accept = net_accept,
    .ready = net_ready,
    .close_connection = net_close_connection,
    .register_memory = net_register,
    .deregister_memory = net_deregister,
    .isend = net_isend,
    .irecv = net_irecv,
    .flush = NULL,
    .poll = FIXTURE_POLL,
    .progress = NULL,
    .arm = net_arm,
    .cancel = NULL,
    .abort = net_abort,
    .drain = NULL,
    .next_event = net_next_event,
    .get_error = net_get_error,
};

/* ---- entry ----------------------------------------------------------------------------------- */

#ifdef FIXTURE_UNDEFINED
extern void FIXTURE_UNDEFINED(void);
#endif

static weft_result plugin_init(const weft_host* host, weft_plugin** out) {
#ifdef FIXTURE_UNDEFINED
  FIXTURE_UNDEFINED();
#endif
#ifdef FIXTURE_INIT_FAILS
  host->set_error(host->instance, WEFT_ERROR_SYSTEM, WEFT_SOURCE_ERRNO, 2,
                  "cannot open /dev/nothing", "load the driver");
  return WEFT_ERROR_SYSTEM;
#endif
#ifdef FIXTURE_INIT_SILENT
  return WEFT_ERROR_OUT_OF_RESOURCES;
#endif
#ifdef FIXTURE_INIT_EMPTY
  return WEFT_OK;
#endif
#ifdef FIXTURE_INIT_THROWS
  FIXTURE_INIT_THROWS;
#endif
  weft_plugin* plugin = (weft_plugin*)calloc(1, sizeof(*plugin));
  plugin->host = host;
  weft_parameter_value value;
  memset(&value, 0, sizeof(value));
  value.struct_size = sizeof(value);
  if (host->get_parameter(host->instance, "misbehave", &value) == WEFT_OK) {
    strncpy(plugin->misbehave, value.text, sizeof(plugin->misbehave) - 1);
  }
  weft_counter* starts = NULL;
  if (host->counter(host->instance, "starts_total", "How often it was started.", &starts) ==
      WEFT_OK) {
    host->count(starts, 1);
  }
  *out = plugin;
  return WEFT_OK;
}

static void plugin_deinit(weft_plugin* plugin) {
  char text[64];
  snprintf(text, sizeof(text), "ended, asked to rest %u times", plugin->asked_to_rest);
  plugin->host->log(plugin->host->instance, WEFT_LOG_INFO, __FILE__, __LINE__, text);
  free(plugin);
}

static const void* plugin_get_interface(weft_plugin* plugin, const char* id) {
  if (misbehaves(plugin, "no-table")) return NULL;
  if (strcmp(id, WEFT_TRANSPORT_INTERFACE) == 0) return &kTransport;
  if (strcmp(id, WEFT_NET_INTERFACE) == 0) return &kNet;
  return NULL;
}

static weft_result plugin_quiesce(weft_plugin* plugin) {
  ++plugin->asked_to_rest;
  if (misbehaves(plugin, "quiesce-slow")) return WEFT_IN_PROGRESS;
  if (misbehaves(plugin, "quiesce-fails")) {
    plugin->host->set_error(plugin->host->instance, WEFT_ERROR_SYSTEM, WEFT_SOURCE_ERRNO, 5,
                            "cannot flush", "look at the device");
    return WEFT_ERROR_SYSTEM;
  }
  if (misbehaves(plugin, "quiesce-thrice") && plugin->asked_to_rest < 3) return WEFT_IN_PROGRESS;
  return WEFT_OK;
}

static const weft_interface kInterfaces[] = {
    {sizeof(weft_interface), 0, FIXTURE_INTERFACE},
#ifdef FIXTURE_SECOND_INTERFACE
    {sizeof(weft_interface), 0, FIXTURE_SECOND_INTERFACE},
#endif
};

static const weft_parameter kParameters[] = {
    {sizeof(weft_parameter), FIXTURE_PARAMETER_TYPE, FIXTURE_PARAMETER_NAME, "streams",
     FIXTURE_PARAMETER_DEFAULT, "Streams of a connection.", 1, 64},
    {sizeof(weft_parameter), WEFT_PARAMETER_FLAG, "eager", "", "true", "Whether to hurry.", 0, 0},
    {sizeof(weft_parameter), WEFT_PARAMETER_BYTES, "buffer", "bytes", "64KiB", "Size of a buffer.",
     4096, 1 << 20},
    {sizeof(weft_parameter), WEFT_PARAMETER_DURATION, "patience", "", "off",
     "How long to wait for a peer.", 0, INT64_C(60000000000)},
    {sizeof(weft_parameter), WEFT_PARAMETER_TEXT, "misbehave", "", "", "What to do wrong.", 0, 0},
    {sizeof(weft_parameter), WEFT_PARAMETER_LIST, "interfaces", "", "eth0,^docker",
     "Interfaces to use.", 0, 0},
};

#ifndef FIXTURE_NO_ENTRY
WEFT_PLUGIN_EXPORT const weft_plugin_descriptor weft_plugin_entry = {
    .magic = FIXTURE_MAGIC,
    .struct_size = FIXTURE_SIZE,
    .abi_version = FIXTURE_ABI,
    .abi_oldest = FIXTURE_ABI_OLDEST,
    .draft = FIXTURE_DRAFT,
    .id = FIXTURE_ID,
    .version = "1.2.3",
    .vendor = FIXTURE_VENDOR,
    .description = "A plugin for tests.",
    .interfaces = kInterfaces,
    .interface_count = sizeof(kInterfaces) / sizeof(kInterfaces[0]),
    .interface_stride = sizeof(weft_interface),
    .parameters = kParameters,
    .parameter_count = FIXTURE_PARAMETER_COUNT,
    .parameter_stride = sizeof(weft_parameter),
    .init = plugin_init,
    .deinit = FIXTURE_DEINIT,
    .get_interface = plugin_get_interface,
    .get_extension = NULL,
    .quiesce = plugin_quiesce,
};
#else
void (*const kUnused[])(void) = {(void (*)(void))plugin_init, (void (*)(void))FIXTURE_DEINIT,
                                 (void (*)(void))plugin_get_interface,
                                 (void (*)(void))plugin_quiesce};
#endif
