// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The plugin's door: its entry, and the C functions of weft.net over the classes beside. No
// exception passes them.
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include <plugin_api/net.h>
#include <plugin_api/plugin.h>

#include "listener.h"
#include "net.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"

namespace weft::net_socket {
namespace {

/// What init makes for one context.
struct Plugin {
  Host host;
  Options options;
};

Plugin* from(weft_plugin* plugin) {
  return reinterpret_cast<Plugin*>(plugin);
}
Net* from(weft_net* net) {
  return reinterpret_cast<Net*>(net);
}
Listener* from(weft_net_listener* listener) {
  return reinterpret_cast<Listener*>(listener);
}
Connection* from(weft_net_connection* connection) {
  return reinterpret_cast<Connection*>(connection);
}
Request* from(weft_net_request* request) {
  return reinterpret_cast<Request*>(request);
}
Registration* from(weft_net_registration* registration) {
  return reinterpret_cast<Registration*>(registration);
}
weft_net_connection* to_abi(Connection* connection) {
  return reinterpret_cast<weft_net_connection*>(connection);
}
weft_net_request* to_abi(Request* request) {
  return reinterpret_cast<weft_net_request*>(request);
}

/// Runs `body`, a function that answers Result<weft_result>, and turns all that goes wrong into an
/// error of the ABI.
template <class Body>
weft_result guarded(const Host& host, Body&& body) noexcept {
  try {
    Result<weft_result> result = body();
    if (result) return *result;
    host.set_error(result.error());
    return result.error().code;
  } catch (const std::bad_alloc&) {
    const weft_host* raw = host.raw();
    raw->set_error(raw->instance, WEFT_ERROR_OUT_OF_MEMORY, WEFT_SOURCE_PLUGIN, 0,
                   "net-socket: memory is exhausted", nullptr);
    return WEFT_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    const weft_host* raw = host.raw();
    raw->set_error(raw->instance, WEFT_ERROR_INTERNAL, WEFT_SOURCE_PLUGIN, 0, error.what(),
                   nullptr);
    return WEFT_ERROR_INTERNAL;
  }
}

std::unexpected<Failure> invalid(const char* what) {
  return std::unexpected(Failure{.code = WEFT_ERROR_INVALID_ARGUMENT, .what = what, .hint = {}});
}

/// A buffer must lie within the registration it is given with.
bool covers(const weft_net_registration* registration, const void* data, uint64_t size) {
  if (registration == nullptr || size == 0) return true;
  const auto* known = reinterpret_cast<const Registration*>(registration);
  const auto* first = static_cast<const uint8_t*>(data);
  return first >= known->address && size <= known->size &&
         static_cast<uint64_t>(first - known->address) <= known->size - size;
}

weft_result net_open(weft_plugin* plugin, const weft_net_open_info* info, weft_net** out) {
  return guarded(from(plugin)->host, [&]() -> Result<weft_result> {
    if (!WEFT_HAS(info, weft_net_open_info, key_size) || info->key == nullptr ||
        info->key_size < 32) {
      return invalid("net-socket needs a key of at least 32 bytes to open a net");
    }
    auto net =
        Net::open(from(plugin)->host, from(plugin)->options, std::span(info->key, info->key_size));
    if (!net) return std::unexpected(net.error());
    *out = reinterpret_cast<weft_net*>(net->release());
    return WEFT_OK;
  });
}

void net_close(weft_net* net) {
  delete from(net);
}

weft_result net_devices(weft_net* net, const weft_net_device** devices, uint64_t* stride,
                        uint64_t* count) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    const auto found = from(net)->devices();
    if (!found) return std::unexpected(found.error());
    *devices = (*found)->data();
    *stride = sizeof(weft_net_device);
    *count = (*found)->size();
    return WEFT_OK;
  });
}

weft_result net_listen(weft_net* net, uint32_t device, weft_blob* handle, weft_net_listener** out) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    const auto interface = from(net)->interface(device);
    if (!interface) return std::unexpected(interface.error());
    auto listener = Listener::listen(*from(net), **interface);
    if (!listener) return std::unexpected(listener.error());
    *handle = {.data = (*listener)->handle().data(), .size = (*listener)->handle().size()};
    *out = reinterpret_cast<weft_net_listener*>(listener->release());
    return WEFT_OK;
  });
}

void net_close_listener(weft_net_listener* listener) {
  delete from(listener);
}

weft_result net_connect(weft_net* net, uint32_t device, weft_blob handle,
                        weft_net_connection** out) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    const auto interface = from(net)->interface(device);
    if (!interface) return std::unexpected(interface.error());
    auto sender = Sender::connect(*from(net), **interface,
                                  std::span(static_cast<const uint8_t*>(handle.data), handle.size));
    if (!sender) return std::unexpected(sender.error());
    *out = to_abi(sender->release());
    return WEFT_IN_PROGRESS;
  });
}

weft_result net_accept(weft_net_listener* listener, weft_net_connection** out) {
  return guarded(from(listener)->net().host(), [&]() -> Result<weft_result> {
    auto receiver = from(listener)->accept();
    if (!receiver) return std::unexpected(receiver.error());
    if (*receiver == nullptr) return WEFT_IN_PROGRESS;
    *out = to_abi(receiver->release());
    return WEFT_OK;
  });
}

weft_result net_ready(weft_net_connection* connection) {
  return guarded(from(connection)->net().host(), [&] { return from(connection)->ready(); });
}

void net_close_connection(weft_net_connection* connection) {
  delete from(connection);
}

weft_result net_register_memory(weft_net_connection* connection, const weft_net_register_info* info,
                                weft_net_registration** out) {
  return guarded(from(connection)->net().host(), [&]() -> Result<weft_result> {
    if (!WEFT_HAS(info, weft_net_register_info, size)) {
      return invalid("register_memory without a description of the memory");
    }
    if (info->kind != WEFT_MEMORY_HOST) {
      return std::unexpected(Failure{
          .code = WEFT_ERROR_UNSUPPORTED, .what = "net-socket moves host memory only", .hint = {}});
    }
    auto registration = std::make_unique<Registration>(
        Registration{.address = static_cast<const uint8_t*>(info->address), .size = info->size});
    *out = reinterpret_cast<weft_net_registration*>(registration.release());
    return WEFT_OK;
  });
}

void net_deregister_memory(weft_net_registration* registration) {
  delete from(registration);
}

weft_result net_isend(weft_net_connection* connection, const weft_net_send* message,
                      weft_net_request** out) {
  return guarded(from(connection)->net().host(), [&]() -> Result<weft_result> {
    if (!WEFT_HAS(message, weft_net_send, user)) return invalid("isend without a message");
    if (!covers(message->registration, message->data, message->size)) {
      return invalid("isend of bytes outside the registration they were given with");
    }
    Request* request = nullptr;
    Result<weft_result> result = from(connection)->isend(*message, &request);
    if (result && *result == WEFT_OK) *out = to_abi(request);
    return result;
  });
}

weft_result net_irecv(weft_net_connection* connection, const weft_net_recv* buffers,
                      uint64_t stride, uint64_t count, weft_net_request** out) {
  return guarded(from(connection)->net().host(), [&]() -> Result<weft_result> {
    if (!WEFT_HAS(buffers, weft_net_recv, flags)) return invalid("irecv without a buffer");
    for (uint64_t i = 0; i < count; ++i) {
      const auto* buffer = reinterpret_cast<const weft_net_recv*>(
          reinterpret_cast<const uint8_t*>(buffers) + i * stride);
      if (!covers(buffer->registration, buffer->data, buffer->size)) {
        return invalid("irecv into bytes outside the registration they were given with");
      }
    }
    Request* request = nullptr;
    Result<weft_result> result = from(connection)->irecv(buffers, stride, count, &request);
    if (result && *result == WEFT_OK) *out = to_abi(request);
    return result;
  });
}

weft_result net_poll(weft_net* net, weft_net_completion* out, uint64_t stride, uint64_t capacity,
                     uint64_t* count) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    from(net)->pump();
    *count = from(net)->report(out, stride, capacity);
    return WEFT_OK;
  });
}

weft_result net_progress(weft_net* net) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    from(net)->pump();
    return WEFT_OK;
  });
}

weft_result net_arm(weft_net* net, int32_t* descriptor) {
  if (from(net)->busy()) return WEFT_AGAIN;
  *descriptor = from(net)->arm();
  return WEFT_OK;
}

weft_result net_cancel(weft_net_request* request) {
  Request* known = from(request);
  return known->connection->cancel(known) ? WEFT_OK : WEFT_AGAIN;
}

void net_abort(weft_net* net) {
  from(net)->abort();
}

weft_result net_drain(weft_net* net) {
  return guarded(from(net)->host(), [&]() -> Result<weft_result> {
    return from(net)->drained() ? WEFT_OK : WEFT_IN_PROGRESS;
  });
}

weft_result net_get_error(weft_net_connection* connection, char* text, uint64_t size) {
  return guarded(from(connection)->net().host(), [&]() -> Result<weft_result> {
    if (size > 0) std::snprintf(text, size, "%s", from(connection)->error_text().c_str());
    return WEFT_OK;
  });
}

constexpr weft_net_interface kInterface = {
    .struct_size = sizeof(weft_net_interface),
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
    .register_memory = net_register_memory,
    .deregister_memory = net_deregister_memory,
    .isend = net_isend,
    .irecv = net_irecv,
    .flush = nullptr,
    .poll = net_poll,
    .progress = net_progress,
    .arm = net_arm,
    .cancel = net_cancel,
    .abort = net_abort,
    .drain = net_drain,
    .next_event = nullptr,
    .get_error = net_get_error,
};

weft_result plugin_init(const weft_host* raw, weft_plugin** out) {
  const Host host(raw);
  return guarded(host, [&]() -> Result<weft_result> {
    auto options = read_options(host);
    if (!options) return std::unexpected(options.error());
    auto plugin = std::make_unique<Plugin>(Plugin{.host = host, .options = std::move(*options)});
    *out = reinterpret_cast<weft_plugin*>(plugin.release());
    return WEFT_OK;
  });
}

void plugin_deinit(weft_plugin* plugin) {
  delete from(plugin);
}

const void* plugin_get_interface(weft_plugin* /*plugin*/, const char* id) {
  return std::strcmp(id, WEFT_NET_INTERFACE) == 0 ? &kInterface : nullptr;
}

constexpr weft_interface kInterfaces[] = {
    {.struct_size = sizeof(weft_interface), .reserved = 0, .id = WEFT_NET_INTERFACE}};

}  // namespace
}  // namespace weft::net_socket

WEFT_PLUGIN_EXPORT constinit const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .abi_version = WEFT_PLUGIN_ABI_VERSION,
    .abi_oldest = WEFT_PLUGIN_ABI_VERSION,
    .draft = WEFT_PLUGIN_DRAFT,
    .id = "net-socket",
    .version = "0.1.0",
    .vendor = "The Weft authors",
    .description = "Messages between hosts over TCP.",
    .interfaces = weft::net_socket::kInterfaces,
    .interface_count = 1,
    .interface_stride = sizeof(weft_interface),
    .parameters = weft::net_socket::kParameters,
    .parameter_count = weft::net_socket::kParameterCount,
    .parameter_stride = sizeof(weft_parameter),
    .init = weft::net_socket::plugin_init,
    .deinit = weft::net_socket::plugin_deinit,
    .get_interface = weft::net_socket::plugin_get_interface,
    .get_extension = nullptr,
    .quiesce = nullptr,
};
