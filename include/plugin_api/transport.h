/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * weft.transport: memory that two ranks share. A transport finds out whether two ranks can reach
 * each other, sets up buffers and counters between them, and describes them; the host's kernels
 * move the data. A wire that carries messages is a net (net.h) instead.
 *
 * Life of a connection: open -> can_connect on both ends -> prepare -> blobs exchanged by the host
 * -> connect until done -> describe -> used by kernels -> close. A connection has one direction.
 *
 * This is a DRAFT of revision 1; see plugin.h for the words and rules used here.
 */
#ifndef WEFT_PLUGIN_API_TRANSPORT_H
#define WEFT_PLUGIN_API_TRANSPORT_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_TRANSPORT_INTERFACE "weft.transport/1-draft.8"

/** Reserved: more than two parties (multicast, reduction in the network). */
#define WEFT_TRANSPORT_GROUP_INTERFACE "weft.transport.group/1-draft.8"

/** A transport opened for one communicator. */
typedef struct weft_transport weft_transport;
/** One end of one direction between two ranks on one channel. */
typedef struct weft_connection weft_connection;
/** A caller's buffer made reachable for peers, or a peer's buffer reached from here. */
typedef struct weft_shared_buffer weft_shared_buffer;

/** What the host tells about the communicator. Valid during open. */
typedef struct weft_transport_open_info {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t ranks;
  int32_t device;        /**< Device index of this rank, -1 for a CPU rank. */
  uint64_t communicator; /**< Names the communicator on all of its ranks. */
  const uint8_t* key;    /**< Secret of this communicator and transport: authenticates peers. */
  uint64_t key_size;     /**< Bytes, at least 32. */
  const char* host_id;   /**< Alike for ranks that share a host (and a network namespace). */
} weft_transport_open_info;

/** How far a transport reaches. */
typedef int32_t weft_locality;
enum {
  WEFT_LOCALITY_PROCESS = 0, /**< Ranks of one process. */
  WEFT_LOCALITY_HOST = 1,    /**< Ranks of one host. */
  WEFT_LOCALITY_FABRIC = 2,  /**< Ranks of several hosts that one memory fabric joins. */
  WEFT_LOCALITY_ANY = 3
};

/** What a pair could do over this transport; bits. */
typedef uint32_t weft_transport_capabilities;
enum {
  WEFT_TRANSPORT_CAN_CONNECT = 1,
  WEFT_TRANSPORT_SINGLE_COPY = 2,  /**< read_peer works (host memory only). */
  WEFT_TRANSPORT_MAPS_BUFFERS = 4, /**< export_buffer and import_buffer work. */
  WEFT_TRANSPORT_COPY_ENGINE = 8,  /**< Mapped memory is reachable by the device's copy engines. */
  WEFT_TRANSPORT_REMOTE_ATOMICS = 16,
  /** Connections lie in memory of the ranks' devices, whose kernels reach both ends themselves. */
  WEFT_TRANSPORT_DEVICE_MEMORY = 32
};

/** A rank as this end sees it. Valid during the call. */
typedef struct weft_peer {
  uint32_t struct_size;
  uint32_t rank;
  int32_t same_process; /**< 1 or 0 */
  int32_t same_host;    /**< 1 or 0 */
  weft_blob info;       /**< What the peer's own plugin gave as its peer info. Not trusted. */
} weft_peer;

/** Answer of one end; the host combines both ends. */
typedef struct weft_can_connect {
  uint32_t struct_size;
  uint32_t capabilities; /**< 0: cannot connect. */
  weft_locality locality;
  uint32_t reserved;
  uint64_t bandwidth_mbps; /**< Megabytes (10^6) a second one way, 0: unknown. */
  uint64_t latency_ns;     /**< 0: unknown. */
  char reason[256];        /**< Why, or why not, for the operator: "same process", "other host". */
} weft_can_connect;

typedef int32_t weft_direction;
enum { WEFT_DIRECTION_SEND = 0, WEFT_DIRECTION_RECV = 1 };

typedef int32_t weft_protocol;
enum { WEFT_PROTOCOL_SIMPLE = 0, WEFT_PROTOCOL_LL = 1, WEFT_PROTOCOL_LL128 = 2 };

/**
 * The buffer that a connection needs for one protocol. Of LL the host uses the buffer alone: steps
 * * step_bytes of it, which kernels of the sender write and kernels of the receiver read in words
 * of 8 bytes, each of which must arrive whole (order_bytes at least 8). A part of it may hold plain
 * payload, behind headers that are posted with release and loaded with acquire. Head, tail and
 * slots of such a view are not looked at and may be NULL. The buffer starts out zeroed. Where a
 * transport refuses a protocol, the first call that needs it fails, and the communicator with it;
 * buffers.direct = 0 keeps the host from asking for LL.
 */
typedef struct weft_protocol_request {
  uint32_t struct_size;
  weft_protocol protocol;
  uint32_t steps;      /**< Slots; a power of two. */
  uint32_t step_bytes; /**< Bytes of a slot; a multiple of 128. */
} weft_protocol_request;

/** One connection wanted. Both ends ask for the same protocols and sizes. Valid during prepare. */
typedef struct weft_connection_request {
  uint32_t struct_size;
  weft_direction direction;
  uint32_t peer; /**< Rank at the other end. */
  uint32_t channel;
  uint64_t number; /**< Names the connection at both ends, unique for the communicator. */
  const weft_protocol_request* protocols;
  uint32_t protocol_count;
  uint32_t protocol_stride;
} weft_connection_request;

/** Who writes a counter, and so how it may be waited for. */
typedef int32_t weft_agent;
enum { WEFT_AGENT_CPU = 0, WEFT_AGENT_GPU = 1, WEFT_AGENT_NIC = 2 };

/** Lies beside the payload of each step; see weft_protocol_view. Fixed layout, 16 bytes. */
typedef struct weft_slot_meta {
  uint32_t size;   /**< Bytes of payload in the slot. */
  uint32_t offset; /**< From the slot's start, bytes. */
  uint64_t tag;    /**< Which call the bytes belong to. */
} weft_slot_meta;

/**
 * What a connected end looks like for one protocol. The sender fills slot (step % steps) and then
 * stores tail = step + 1; the receiver takes it and then stores head = step + 1. Counters start at
 * zero. Pointers are valid for kernels of this rank's device until close.
 *
 * Waiter words: where they are given, whoever stores a counter then looks at its waiter word and,
 * if that is not zero, wakes a futex (not private) on the low 32 bits of the counter.
 */
typedef struct weft_protocol_view {
  uint32_t struct_size;
  weft_protocol protocol;
  weft_memory_kind memory; /**< Of buffer. */
  int32_t device;          /**< Whose memory it is; -1 for host memory. */
  void* buffer; /**< steps * step_bytes. Both ends read and write: a receiver may use what
                 * has come as its own until it gives the slot back, and between GPUs
                 * a sender may leave steps where it receives on this channel. */
  uint32_t steps;
  uint32_t step_bytes;
  uint32_t order_bytes; /**< Bytes that one store keeps together on this path: 8, 16, 128. */
  int32_t needs_flush;  /**< 1: data written by a NIC must be flushed before use. */
  uint64_t* head;
  uint64_t* tail;
  uint32_t* head_waiters; /**< NULL: nobody may sleep on head. */
  uint32_t* tail_waiters; /**< NULL: nobody may sleep on tail. */
  weft_slot_meta* slots;  /**< `steps` entries. */
  uint32_t* error;        /**< Non-zero once the other end gave up; may be NULL. */
  weft_agent head_writer;
  weft_agent tail_writer;
  weft_memory_kind head_memory; /**< Where head lies. */
  weft_memory_kind tail_memory;
  /** Where a kernel that gives up tells the other end; NULL: abort alone tells it. */
  uint32_t* peer_error;
} weft_protocol_view;

/** The form of a caller's buffer that travels to peers. */
typedef struct weft_buffer_export {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t allocation_id;
  uint64_t generation;
  uint64_t offset; /**< Of the buffer in its allocation, bytes. */
  uint64_t size;   /**< Bytes. */
  weft_blob blob;  /**< The transport's own; lives until release_buffer. */
} weft_buffer_export;

/**
 * The function table. Entries marked (optional) may be NULL, or lie beyond struct_size: the host
 * then behaves as if they answered WEFT_ERROR_UNSUPPORTED.
 */
typedef struct weft_transport_interface {
  uint32_t struct_size;
  uint32_t reserved;

  /** Opens the transport for one communicator. [any-thread] [may-block] */
  weft_result (*open)(weft_plugin* plugin, const weft_transport_open_info* info,
                      weft_transport** out);
  /** Closes it; connections and buffers are closed before. Leaves no segment, descriptor, thread
   * or file. [one-thread] [may-block] */
  void (*close)(weft_transport* transport);

  /** What peers must know of this rank: any bytes, at most 64 KiB. They live until close.
   * [one-thread] [non-blocking] */
  weft_result (*peer_info)(weft_transport* transport, weft_blob* out);
  /** Whether this end could connect to `peer`. "No" is an answer, not an error: OK with
   * capabilities 0 and a reason. [one-thread] [may-block] */
  weft_result (*can_connect)(weft_transport* transport, const weft_peer* peer,
                             weft_can_connect* out);

  /**
   * Sets up this end of `count` connections: allocates what this end owns. All or none. Requests
   * lie `stride` bytes apart. [one-thread] [may-block]
   */
  weft_result (*prepare)(weft_transport* transport, const weft_connection_request* requests,
                         uint64_t stride, uint64_t count, weft_connection** out);
  /** What the other end must know to connect, at most 24 KiB. Lives until close_connection.
   * [one-thread] [non-blocking] */
  weft_result (*connection_blob)(weft_connection* connection, weft_blob* out);
  /**
   * Joins `count` prepared connections with the blobs of their other ends (not trusted), which
   * stay valid until it answers anything but WEFT_IN_PROGRESS. Both ends are called over and over
   * until each is done: neither may wait inside. [one-thread] [non-blocking]
   */
  weft_result (*connect)(weft_transport* transport, weft_connection* const* connections,
                         const weft_blob* peer_blobs, uint64_t count);
  /** Describes a connected end for one protocol. [one-thread] [non-blocking] */
  weft_result (*describe)(weft_connection* connection, weft_protocol protocol,
                          weft_protocol_view* out);
  /** Closes an end. The other end's memory stays valid for its own rank. [one-thread] [may-block]
   */
  void (*close_connection)(weft_connection* connection);

  /** (optional) Moves along what needs the CPU; at most about `budget` units of work; `done`
   * counts them. [one-thread] [non-blocking] */
  weft_result (*progress)(weft_transport* transport, uint32_t budget, uint32_t* done);
  /** (optional) Gives a descriptor that becomes readable when progress would achieve something;
   * WEFT_AGAIN when it would right now. [one-thread] [non-blocking] */
  weft_result (*arm)(weft_transport* transport, int32_t* descriptor);

  /**
   * Gives up: stores `reason` (not 0) into the error words of all connected peers and wakes
   * sleepers. Memory stays mapped. [any-thread] [non-blocking]
   */
  void (*abort)(weft_transport* transport, uint32_t reason);
  /** (optional) WEFT_IN_PROGRESS until nothing that was handed over is under way any more.
   * [one-thread] [non-blocking] */
  weft_result (*drain)(weft_transport* transport);

  /** (optional) Copies `size` bytes from `address` of the connected peer's process into
   * `destination`; host memory only. [any-thread] [may-block] */
  weft_result (*read_peer)(weft_connection* connection, void* destination, uint64_t address,
                           uint64_t size);

  /** (optional) Makes [address, address + size) reachable for peers: memory of this rank's device,
   * whoever allocated it, which outlives the result. UNSUPPORTED, with a reason, where that memory
   * cannot be shared. [one-thread] [may-block] */
  weft_result (*export_buffer)(weft_transport* transport, void* address, uint64_t size,
                               weft_buffer_export* out, weft_shared_buffer** buffer);
  /**
   * (optional) Reaches a peer's buffer: `address` is where it is seen from here, valid until
   * release_buffer. What the peer said of it is not trusted. Like connect it is called over and
   * over at both ends and may not wait inside: WEFT_IN_PROGRESS until the buffer is reached and the
   * peer has all that it needs to reach `mine`, which this end exported to it in turn; NULL where
   * it exported none. `*buffer` is NULL at first, and passed again as it was left. It is to be
   * released whatever came of it. [one-thread] [non-blocking]
   */
  weft_result (*import_buffer)(weft_transport* transport, uint32_t peer,
                               const weft_shared_buffer* mine, const weft_buffer_export* from,
                               void** address, weft_shared_buffer** buffer);
  /** (optional) Ends either. [one-thread] [may-block] */
  void (*release_buffer)(weft_transport* transport, weft_shared_buffer* buffer);

  /** (optional) Writes how many bytes of memory this end has allocated for its connections and
   * holds; what it reaches of peers does not count. [any-thread] [non-blocking] */
  weft_result (*bytes_held)(weft_transport* transport, uint64_t* out);
} weft_transport_interface;

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_API_TRANSPORT_H */
