/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * weft.net: messages between hosts. A net plugin listens, connects, accepts, sends and receives
 * messages, and knows nothing of collectives or kernels: the host's progress engine drives it.
 * One-sided operations are a second interface, weft.net.rma, at the end.
 *
 * Life: open -> devices -> listen on the receiver -> its handle travels to the sender by the host
 * -> connect there, accept here, each until done -> isend, irecv, poll -> close. A connection has
 * one direction.
 *
 * Matching: messages of one connection and one tag arrive in the order they were sent, and meet
 * the receives of that tag in the order these were posted.
 *
 * All calls on one weft_net and its objects are [one-thread] [non-blocking] unless a line says
 * otherwise: the host calls from one thread at a time. A host may open several weft_nets for one
 * communicator, with the same info, and use them from as many threads at once: no call on one waits
 * for a call on another. A connection may join any weft_net of one rank to any of the other's, who
 * may have opened another number of them.
 *
 * This is a DRAFT of revision 1; see plugin.h for the words and rules used here.
 */
#ifndef WEFT_PLUGIN_API_NET_H
#define WEFT_PLUGIN_API_NET_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_NET_INTERFACE "weft.net/1-draft.8"
#define WEFT_NET_RMA_INTERFACE "weft.net.rma/1-draft.8"

/** Reserved: reductions offered by the network. */
#define WEFT_COLLNET_INTERFACE "weft.collnet/1-draft.8"
/** Reserved: kernels that post to a NIC themselves. */
#define WEFT_NET_DEVICE_INTERFACE "weft.net.device/1-draft.8"

/** A net opened for one communicator (or for one engine that serves several). */
typedef struct weft_net weft_net;
/** Waits for one sender. */
typedef struct weft_net_listener weft_net_listener;
/** One end of one direction. */
typedef struct weft_net_connection weft_net_connection;
/** Memory that the NIC may touch. */
typedef struct weft_net_registration weft_net_registration;
/** A send, receive or flush under way; gone once poll has reported it. */
typedef struct weft_net_request weft_net_request;

/** What the host tells. Valid during open. */
typedef struct weft_net_open_info {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t ranks;
  int32_t traffic_class; /**< What the user asked for, -1: nothing. */
  uint64_t job;          /**< Names the job on all of its ranks. */
  uint64_t communicator; /**< Names the communicator on all of its ranks. */
  const uint8_t* key;    /**< Secret of this communicator and net: authenticates peers. */
  uint64_t key_size;     /**< Bytes, at least 32. */
} weft_net_open_info;

/** What a device can do; bits. */
typedef uint32_t weft_net_capabilities;
enum {
  WEFT_NET_HOST_MEMORY = 1,
  WEFT_NET_CUDA_MEMORY = 2,
  WEFT_NET_DMABUF = 4,
  WEFT_NET_NEEDS_PROGRESS = 8, /**< Nothing moves unless progress or poll is called. */
  WEFT_NET_CAN_SLEEP = 16,     /**< arm works: the host may sleep on a descriptor. */
  WEFT_NET_ORDERED = 32,       /**< Payload of one message becomes visible in address order. */
  WEFT_NET_GLOBAL_REGISTRATION = 64, /**< A registration serves every connection of the device. */
  WEFT_NET_NEEDS_FLUSH = 128,        /**< Received CUDA memory must be flushed before use. */
  WEFT_NET_THREAD_SAFE = 256, /**< Different connections may be used from different threads. */
  /** isend and irecv take host memory that was not registered, with a NULL registration, and read
   * and write it within calls of this interface alone, in none that begins after abort. */
  WEFT_NET_UNREGISTERED = 512
};

/** One device (port, interface), physical or made of several. Lives as long as the weft_net. */
typedef struct weft_net_device {
  uint32_t struct_size;
  uint32_t capabilities;
  const char* name;     /**< "eth0" */
  const char* pci_path; /**< "/sys/devices/..." or "" when unknown. */
  uint64_t guid;        /**< 0: none. */
  uint64_t speed_mbps;  /**< Megabits (10^6) a second, 0: unknown. */
  uint64_t latency_ns;  /**< 0: unknown. */
  uint64_t fabric_id;   /**< Devices with different ids (not 0) cannot reach each other. */
  int32_t port;
  int32_t rail;             /**< -1: unknown. */
  int32_t plane;            /**< -1: unknown. */
  int32_t numa_node;        /**< -1: unknown. */
  uint32_t max_receives;    /**< Buffers of one grouped irecv, at least 1. */
  uint32_t max_requests;    /**< Requests of one connection under way at once. */
  uint64_t max_message;     /**< Bytes. */
  uint64_t max_connections; /**< 0: no limit known. */
  const uint32_t* members; /**< Indices of the devices this one is made of; NULL for a plain one. */
  uint32_t member_count;
  uint32_t reserved;
} weft_net_device;

/** How memory is to be registered. Valid during the call. */
typedef struct weft_net_register_info {
  uint32_t struct_size;
  weft_memory_kind kind;
  void* address;          /**< Where the process sees it; also for DMABUF. */
  uint64_t size;          /**< Bytes. */
  int32_t dmabuf;         /**< DMABUF: the descriptor (stays the caller's), else -1. */
  uint32_t flags;         /**< WEFT_NET_REGISTER_* */
  uint64_t dmabuf_offset; /**< Where `address` lies in the dma-buf, bytes. */
} weft_net_register_info;

enum {
  WEFT_NET_REGISTER_RELAXED_ORDER = 1, /**< The NIC may write out of order. */
  WEFT_NET_REGISTER_STRONG_SIGNAL = 2  /**< Signals here follow all earlier data. */
};

/** One message to send. Read during isend; data stays untouched until poll reports it. */
typedef struct weft_net_send {
  uint32_t struct_size;
  uint32_t tag;
  const void* data;
  uint64_t size;                       /**< Bytes; 0 is a message too. */
  uint64_t value;                      /**< Delivered to the receiver with the message. */
  weft_net_registration* registration; /**< That data lies in; see WEFT_NET_UNREGISTERED. */
  uint64_t user;                       /**< Given back by poll. */
  uint32_t flags;                      /**< WEFT_NET_SEND_* */
  uint32_t reserved;
} weft_net_send;

enum {
  /** More messages of this connection most likely follow before the next poll: a net for which few
   * large writes are cheaper may wait until then, and sends all it has in that poll at the latest.
   */
  WEFT_NET_SEND_MORE = 1
};

/** One buffer to receive into. Read during irecv; data is valid once poll has reported it. */
typedef struct weft_net_recv {
  uint32_t struct_size;
  uint32_t tag;
  void* data;
  uint64_t size; /**< Room, bytes; a longer message is an error of the connection. */
  weft_net_registration* registration;
  uint64_t user;  /**< Given back by poll, one completion for each buffer. */
  uint32_t flags; /**< WEFT_NET_RECV_* */
  uint32_t reserved;
} weft_net_recv;

enum {
  /** The receiver sees by the data itself that it came: the completion may be reported early. */
  WEFT_NET_RECV_OPTIONAL_COMPLETION = 1
};

/** One thing that ended. */
typedef struct weft_net_completion {
  uint32_t struct_size;
  weft_result status; /**< WEFT_OK, or why it failed (text by get_error). */
  uint64_t user;      /**< Of the send, receive or flush. */
  uint64_t size;      /**< Bytes moved. */
  uint64_t value;     /**< Receives: what the sender gave. */
  weft_net_connection* connection;
} weft_net_completion;

/** Something that happened to a device by itself. */
typedef struct weft_net_event {
  uint32_t struct_size;
  int32_t kind; /**< WEFT_NET_EVENT_* */
  uint32_t device;
  uint32_t reserved;
  char text[256];
} weft_net_event;

enum { WEFT_NET_EVENT_PORT_DOWN = 1, WEFT_NET_EVENT_PORT_UP = 2, WEFT_NET_EVENT_DEVICE_LOST = 3 };

/** The function table. (optional) as in transport.h. */
typedef struct weft_net_interface {
  uint32_t struct_size;
  uint32_t reserved;

  /** Opens the net. [any-thread] [may-block] */
  weft_result (*open)(weft_plugin* plugin, const weft_net_open_info* info, weft_net** out);
  /** Closes it; all its objects are closed before. [may-block] */
  void (*close)(weft_net* net);

  /**
   * Lists the devices: `*devices` points to `*count` structs, `*stride` bytes apart. None is an
   * error that says why (an interface selection that matches nothing lists what there is).
   */
  weft_result (*devices)(weft_net* net, const weft_net_device** devices, uint64_t* stride,
                         uint64_t* count);

  /**
   * Begins to wait for one sender on a device. `handle` (at most 4 KiB) is all that the sender
   * needs; it lives until close_listener.
   */
  weft_result (*listen)(weft_net* net, uint32_t device, weft_blob* handle, weft_net_listener** out);
  /** Ends it. A connection that it accepted lives on. */
  void (*close_listener)(weft_net_listener* listener);

  /**
   * Begins to connect to the listener that `handle` (not trusted; read during the call) names, and
   * answers the connection at once: OK or WEFT_IN_PROGRESS, both with `*out` set. PEER for bytes
   * that are no handle: another rank gave them.
   */
  weft_result (*connect)(weft_net* net, uint32_t device, weft_blob handle,
                         weft_net_connection** out);
  /** WEFT_IN_PROGRESS until the sender has come; then OK with the connection. Strangers that come
   * to the listener are turned away and do not count. */
  weft_result (*accept)(weft_net_listener* listener, weft_net_connection** out);
  /** WEFT_IN_PROGRESS until both ends can move data, or why they never will. That they can it says
   * once, though the other end has closed since: a rank whose part is done may leave before this
   * one has looked. */
  weft_result (*ready)(weft_net_connection* connection);
  /** Closes an end, at any time. Its requests are gone, unreported. [may-block] */
  void (*close_connection)(weft_net_connection* connection);

  /** Makes memory known to the device of `connection`. The registration may outlive the
   * connection. [may-block] */
  weft_result (*register_memory)(weft_net_connection* connection,
                                 const weft_net_register_info* info, weft_net_registration** out);
  /** Ends a registration that no request uses any more. [may-block] */
  void (*deregister_memory)(weft_net_registration* registration);

  /** Starts to send one message. WEFT_AGAIN: no room now, nothing was started. */
  weft_result (*isend)(weft_net_connection* connection, const weft_net_send* message,
                       weft_net_request** out);
  /** Starts to receive `count` messages (at most max_receives) as one request; the buffers lie
   * `stride` bytes apart. WEFT_AGAIN: no room now, nothing was started. */
  weft_result (*irecv)(weft_net_connection* connection, const weft_net_recv* buffers,
                       uint64_t stride, uint64_t count, weft_net_request** out);
  /** (optional) Makes received CUDA memory visible to kernels; reported by poll with `user`. */
  weft_result (*flush)(weft_net_connection* connection, void* data, uint64_t size,
                       weft_net_registration* registration, uint64_t user, weft_net_request** out);

  /**
   * Moves what can be moved and reports what ended: writes at most `capacity` completions, `stride`
   * bytes apart, and their number to `count`. A failed connection reports each of its requests
   * once with the error, and answers it itself from then on; poll stays OK for the others.
   */
  weft_result (*poll)(weft_net* net, weft_net_completion* out, uint64_t stride, uint64_t capacity,
                      uint64_t* count);
  /** (optional) Moves without reporting; for nets with WEFT_NET_NEEDS_PROGRESS. */
  weft_result (*progress)(weft_net* net);
  /**
   * (optional, for WEFT_NET_CAN_SLEEP) Prepares to sleep: gives a descriptor, alike in every call,
   * that becomes readable when poll would achieve something. WEFT_AGAIN when it would right now.
   */
  weft_result (*arm)(weft_net* net, int32_t* descriptor);

  /** (optional) Takes a request back. OK: it is gone, unreported; WEFT_AGAIN: too late, poll
   * reports it. */
  weft_result (*cancel)(weft_net_request* request);
  /** Gives up: every request ends with WEFT_ERROR_ABORTED, connections are unusable.
   * [any-thread] */
  void (*abort)(weft_net* net);
  /** (optional) WEFT_IN_PROGRESS until all that isend accepted has left this host. */
  weft_result (*drain)(weft_net* net);

  /** (optional) The next asynchronous event: OK with one, WEFT_AGAIN when there is none. */
  weft_result (*next_event)(weft_net* net, weft_net_event* out);
  /**
   * (optional) Why `connection` failed: writes at most `size` bytes, zero included. What poll
   * reports has no set_error of its own, since it may speak of several connections. The text may
   * end with "; try: " and what to try.
   */
  weft_result (*get_error)(weft_net_connection* connection, char* text, uint64_t size);
} weft_net_interface;

/* ---- one-sided ------------------------------------------------------------------------------- */

/** Memory of this rank that peers may reach, or a peer's. */
typedef struct weft_net_window weft_net_window;

typedef int32_t weft_net_signal_order;
enum {
  WEFT_NET_SIGNAL_WEAK = 0,  /**< Follows the data of its own put. */
  WEFT_NET_SIGNAL_STRONG = 1 /**< Follows all earlier puts of this connection. */
};

/** One put, with an optional signal: adds `signal_value` to the 64-bit word at `signal_offset`. */
typedef struct weft_net_put {
  uint32_t struct_size;
  weft_net_signal_order order;
  const void* data; /**< NULL with size 0: a signal alone. */
  uint64_t size;
  weft_net_registration* registration;
  weft_net_window* destination;
  uint64_t destination_offset;
  weft_net_window* signal; /**< NULL: no signal. */
  uint64_t signal_offset;
  uint64_t signal_value;
  uint64_t user;
} weft_net_put;

/** One-sided operations over connections of the same plugin. (optional) as in transport.h. */
typedef struct weft_net_rma_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /** The key under which peers reach a registration; the bytes live as long as it does. */
  weft_result (*export_key)(weft_net_registration* registration, weft_blob* key);
  /** Reaches the peer's memory that `key` (not trusted) names, `size` bytes. */
  weft_result (*open_window)(weft_net_connection* connection, weft_blob key, uint64_t size,
                             weft_net_window** out);
  /** Ends what open_window gave; nothing through it is under way any more. */
  void (*close_window)(weft_net_window* window);
  /** Starts a put; poll of the net reports it when `data` may be used again. */
  weft_result (*put)(weft_net_connection* connection, const weft_net_put* operation,
                     weft_net_request** out);
  /** Starts to fetch `size` bytes from the window into `data`. */
  weft_result (*get)(weft_net_connection* connection, void* data, uint64_t size,
                     weft_net_registration* registration, weft_net_window* source,
                     uint64_t source_offset, uint64_t user, weft_net_request** out);
  /** Reported by poll once all earlier puts are visible at the peer. */
  weft_result (*flush)(weft_net_connection* connection, uint64_t user, weft_net_request** out);
  /** WEFT_IN_PROGRESS until nothing is under way on the connection. */
  weft_result (*quiet)(weft_net_connection* connection);
} weft_net_rma_interface;

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_API_NET_H */
