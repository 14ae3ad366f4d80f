/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The door of every Weft plugin: the one symbol it exports, and the services that the host hands
 * it. What the plugin can do stands in the other headers (transport.h, net.h, tuner.h,
 * observer.h); this one is needed by all of them.
 *
 * This is a DRAFT of revision 1. Until its owner declares revision 1, host and plugin must carry
 * the same draft number, and every change of what a header declares or asks for raises it.
 *
 * Words used on every function:
 *   [any-thread]     may be called from any thread, several at once on one object.
 *   [one-thread]     calls on one object come one at a time, from changing threads; the host sees
 *                    to that. Calls on different objects may come at once.
 *   [non-blocking]   returns without waiting for a peer or a device. Long work answers
 *                    WEFT_IN_PROGRESS and is called again with the same arguments.
 *   [may-block]      may wait for the operating system (open a file, join a thread), never for a
 *                    peer.
 *
 * Rules for all structs:
 *   - A struct that may grow begins with struct_size: what sizeof() gave when its writer was
 *     compiled. Fields are only ever appended. A reader checks the size before a field (WEFT_HAS).
 *   - Such a struct is never embedded by value in another and never stands in a plain array:
 *     lists are pointer, count and stride.
 *   - Whoever fills an output struct writes at most the struct_size that the caller put in, and
 *     leaves struct_size alone.
 *   - Strings are UTF-8 and end with a zero byte.
 *
 * Errors: a function that fails calls host->set_error first, then answers a negative weft_result,
 * and leaves its outputs untouched. Any function may answer
 *   WEFT_ERROR_OUT_OF_MEMORY, WEFT_ERROR_OUT_OF_RESOURCES   memory, or descriptors, threads and
 *                                  objects of a device, are used up;
 *   WEFT_ERROR_SYSTEM, WEFT_ERROR_DEVICE                    the operating system, or a driver,
 *                                  refused: set_error has its code;
 *   WEFT_ERROR_INVALID_ARGUMENT    an argument that no caller may pass;
 * and what takes bytes of a peer, or waits for one,
 *   WEFT_ERROR_PEER                what the peer said is malformed, or it is gone;
 *   WEFT_ERROR_NETWORK             the path to it failed;
 *   WEFT_ERROR_TIMEOUT             it did not answer in time.
 * WEFT_ERROR_UNSUPPORTED has a meaning where a function says so. The host treats all others alike:
 * the call that led there fails with that code and the text that was set.
 *
 * Abort: a transport and a net have a function for it, an instance has none. It may be called at
 * any time, from any thread, while another call on that object runs. What is under way there ends,
 * and nothing new may be started; other objects of the instance go on.
 *
 * Fork: a process that forks without exec may not use any object in the child. Plugins open every
 * descriptor close-on-exec, and need do nothing else: the host refuses calls in a child.
 */
#ifndef WEFT_PLUGIN_API_PLUGIN_H
#define WEFT_PLUGIN_API_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include <weft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** First eight bytes of the entry: "WEFTPLUG" read as a little-endian number. */
#define WEFT_PLUGIN_MAGIC UINT64_C(0x47554C5054464557)

/** The draft of revision 1 that these headers describe. */
#define WEFT_PLUGIN_DRAFT 8

/** Version of the entry and of the host services: 0 while revision 1 is a draft. */
#define WEFT_PLUGIN_ABI_VERSION 0

/** True when the struct at `p` was written by someone who knows `field` of `type`. */
#define WEFT_HAS(p, type, field) \
  ((p) != NULL && (p)->struct_size >= offsetof(type, field) + sizeof(((type*)0)->field))

/** Bytes owned by whoever hands them out, for as long as the function that does so says. */
typedef struct weft_blob {
  const void* data; /**< NULL only if size is 0. */
  uint64_t size;    /**< Bytes. */
} weft_blob;

/* ---- parameters ------------------------------------------------------------------------------ */

typedef int32_t weft_parameter_type;
enum {
  WEFT_PARAMETER_FLAG = 0,     /**< true or false */
  WEFT_PARAMETER_INTEGER = 1,  /**< signed 64-bit */
  WEFT_PARAMETER_BYTES = 2,    /**< a size: `64KiB` */
  WEFT_PARAMETER_DURATION = 3, /**< a time span: `250ms`, or `off` */
  WEFT_PARAMETER_TEXT = 4,     /**< any text */
  WEFT_PARAMETER_LIST = 5      /**< a list of texts */
};

/**
 * One parameter of a plugin: read from the section of the configuration that has the plugin's id,
 * and from the environment variable WEFT_<ID>_<NAME>. The table is static data of the plugin: it
 * is read without running the plugin's code.
 */
typedef struct weft_parameter {
  uint32_t struct_size;
  weft_parameter_type type;
  const char* name;          /**< Lower case, words joined by '_'. */
  const char* unit;          /**< For the reader: "bytes", "streams"; may be "". */
  const char* default_value; /**< As it would be written in the file; lists with commas. */
  const char* help;          /**< One sentence. */
  int64_t minimum;           /**< Of INTEGER, BYTES (bytes) and DURATION (nanoseconds). */
  int64_t maximum;
} weft_parameter;

/** A parameter's final value; strings live as long as the plugin instance. */
typedef struct weft_parameter_value {
  uint32_t struct_size;
  weft_parameter_type type;
  int64_t number;           /**< FLAG 0 or 1, INTEGER, BYTES, DURATION in ns (-1: off). */
  const char* text;         /**< TEXT; NULL for others. */
  const char* const* items; /**< LIST: item_count strings. */
  uint64_t item_count;
} weft_parameter_value;

/* ---- services of the host -------------------------------------------------------------------- */

/** The host's side of one plugin instance; handed back to each of its services. */
typedef struct weft_host_instance weft_host_instance;

/** Where a native error code comes from. */
typedef int32_t weft_error_source;
enum {
  WEFT_SOURCE_PLUGIN = 0, /**< No native code, or the plugin's own. */
  WEFT_SOURCE_ERRNO = 1,
  WEFT_SOURCE_CUDA = 2,
  WEFT_SOURCE_VERBS = 3,
  WEFT_SOURCE_FABRIC = 4, /**< libfabric */
  WEFT_SOURCE_PEER = 5    /**< Sent by, or about, the rank at the other end. */
};

typedef int32_t weft_memory_kind;
enum {
  WEFT_MEMORY_HOST = 0,  /**< Ordinary memory of the process. */
  WEFT_MEMORY_CUDA = 1,  /**< Memory of a CUDA device. */
  WEFT_MEMORY_DMABUF = 2 /**< Reached through a dma-buf descriptor. */
};

/** How memory can be handed to another process; bits. */
typedef uint32_t weft_memory_sharing;
enum {
  WEFT_SHARING_NONE = 0,
  WEFT_SHARING_DESCRIPTOR = 1, /**< A file descriptor, passed over a Unix socket, and bytes. */
  WEFT_SHARING_FABRIC = 2,     /**< Opaque bytes that open across hosts of one fabric. */
  WEFT_SHARING_IPC = 4         /**< Opaque bytes that open in another process of this host. */
};

/** A piece of memory that the host allocated or imported. */
typedef struct weft_memory {
  uint32_t struct_size;
  weft_memory_kind kind;
  int32_t device; /**< Device index of kind CUDA, -1 for host memory. */
  uint32_t sharing;
  void* address;
  uint64_t size;          /**< Bytes, at least what was asked for. */
  uint64_t allocation_id; /**< Names the allocation in this process and is never used again. */
  uint64_t generation;    /**< Raised when what lies behind the address is exchanged. */
  void* handle;           /**< The host's own. */
} weft_memory;

/** One stretch of an allocation that is made of several. */
typedef struct weft_memory_segment {
  uint32_t struct_size;
  uint32_t sharing;
  uint64_t offset; /**< From the start of the allocation, bytes. */
  uint64_t size;   /**< Bytes. */
  uint64_t segment_id;
} weft_memory_segment;

/** How a piece of memory travels: as bytes, with a descriptor where that is the way. */
typedef struct weft_memory_export {
  uint32_t struct_size;
  uint32_t sharing;    /**< The one way that was used. */
  int32_t descriptor;  /**< SHARING_DESCRIPTOR: owned by the receiver of this struct; else -1. */
  uint32_t bytes_used; /**< Of bytes. */
  uint8_t bytes[128];
} weft_memory_export;

/** Memory service. Functions are [any-thread] and may block, but never for a running kernel. */
typedef struct weft_host_memory {
  uint32_t struct_size;
  uint32_t reserved;

  /**
   * Zeroed memory, aligned to at least 4096 bytes. `sharing` lists the ways in which it must be
   * possible to hand it out; WEFT_ERROR_UNSUPPORTED where the device cannot.
   */
  weft_result (*allocate)(weft_host_instance* host, weft_memory_kind kind, int32_t device,
                          uint64_t size, uint32_t sharing, weft_memory* out);
  /** Gives back what allocate or import gave. Deferred while a kernel may still touch it. */
  void (*free)(weft_host_instance* host, weft_memory* memory);
  /** Makes the form in which `memory` travels: of allocate, or as query described it. UNSUPPORTED
   * if it cannot travel in the way `sharing`, one of those that it has. */
  weft_result (*export_memory)(weft_host_instance* host, const weft_memory* memory,
                               uint32_t sharing, weft_memory_export* out);
  /**
   * Maps what a rank of this host exported, this process's own included, for `device` (-1: for
   * CPUs); takes the descriptor over in any case. A non-NULL `fixed_address` says where: an
   * occupied range is an error. Bytes of a peer need not be checked before.
   */
  weft_result (*import_memory)(weft_host_instance* host, const weft_memory_export* from,
                               int32_t device, void* fixed_address, weft_memory* out);
  /** Looks up the allocation that `address` lies in, of this instance or, on CUDA devices of this
   * context, of the program's; NOT a copy: `out` must not be freed. UNSUPPORTED for others. Memory
   * of the program's may go at any time, and has no generation. */
  weft_result (*query)(weft_host_instance* host, const void* address, weft_memory* out);
  /**
   * Lists the segments behind `memory`: writes at most `capacity` of them at `out` with `stride`
   * bytes between, and the true number to `count`.
   */
  weft_result (*segments)(weft_host_instance* host, const weft_memory* memory,
                          weft_memory_segment* out, uint64_t stride, uint64_t capacity,
                          uint64_t* count);
  /**
   * Asks to be told, from any thread, before the allocation's memory goes away; everything made
   * from it must be given up within the callback.
   */
  weft_result (*on_revoke)(weft_host_instance* host, uint64_t allocation_id,
                           void (*revoked)(void* user, uint64_t allocation_id), void* user);
} weft_host_memory;

/** Names one watched descriptor. */
typedef uint64_t weft_watch;

/** A counter of the plugin. Nothing shows it yet. */
typedef struct weft_counter weft_counter;

/**
 * What the host does for a plugin instance. Lives as long as the instance. Every function takes
 * `instance` of the same struct first, and is [any-thread] [non-blocking] unless it says otherwise.
 */
typedef struct weft_host {
  uint32_t struct_size;
  uint32_t abi_version; /**< WEFT_PLUGIN_ABI_VERSION of the host. */
  uint32_t draft;       /**< WEFT_PLUGIN_DRAFT of the host. */
  uint32_t reserved;
  const char* host_version;     /**< "0.1.0" */
  weft_host_instance* instance; /**< First argument of every service. */
  const weft_host_memory* memory;

  /** 1 if lines of this level are written at all: ask before building an expensive one. */
  int32_t (*log_enabled)(weft_host_instance* host, weft_log_level level);
  /** Writes one finished line; `file` and `line` say where it comes from. */
  void (*log)(weft_host_instance* host, weft_log_level level, const char* file, uint32_t line,
              const char* text);
  /**
   * Keeps, for the calling thread, what the error says that the plugin is about to return: what
   * failed and with whom, the native code of `source`, and what to try (may be NULL). Texts are
   * copied.
   */
  void (*set_error)(weft_host_instance* host, weft_result code, weft_error_source source,
                    int64_t native, const char* what, const char* hint);
  /** The value of one of the plugin's own parameters. INVALID_ARGUMENT for a name not in its table.
   */
  weft_result (*get_parameter)(weft_host_instance* host, const char* name,
                               weft_parameter_value* out);

  /**
   * Calls `ready` on a thread of the host whenever `descriptor` has one of `events` (EPOLL* bits);
   * `ready` must not block. The plugin keeps the descriptor open until unwatch has returned.
   */
  weft_result (*watch)(weft_host_instance* host, int32_t descriptor, uint32_t events,
                       void (*ready)(void* user, uint32_t events), void* user, weft_watch* out);
  /** After it, `ready` is not running and will not run again, unless called from `ready` itself. */
  void (*unwatch)(weft_host_instance* host, weft_watch watch);

  /** Makes or finds the counter `name` (`bytes_sent_total`) of this plugin. */
  weft_result (*counter)(weft_host_instance* host, const char* name, const char* help,
                         weft_counter** out);
  /** Adds to a counter: one relaxed addition, fit for a data path. */
  void (*count)(weft_counter* counter, uint64_t amount);

  /** Nanoseconds of a clock that never jumps; the zero is arbitrary. */
  uint64_t (*now_ns)(weft_host_instance* host);

  /** A further service by id, or NULL. Ids carry a revision: "weft.host.example/1". */
  const void* (*get_extension)(weft_host_instance* host, const char* id);
} weft_host;

/* ---- the entry ------------------------------------------------------------------------------- */

/** A plugin's own state; every call takes it, and two of them share nothing. */
typedef struct weft_plugin weft_plugin;

/** One interface that the plugin offers. */
typedef struct weft_interface {
  uint32_t struct_size;
  uint32_t reserved;
  const char* id; /**< "weft.net/1-draft.8": name, revision, and the draft while there is one. */
} weft_interface;

/**
 * The plugin's only exported symbol, `weft_plugin_entry`, is one object of this type: constant
 * data, readable without running code. Unused bytes of the texts are zero.
 */
typedef struct weft_plugin_descriptor {
  uint64_t magic; /**< WEFT_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_version; /**< WEFT_PLUGIN_ABI_VERSION the plugin was compiled with. */
  uint32_t abi_oldest;  /**< Oldest host ABI version that it can work with. */
  uint32_t draft;       /**< WEFT_PLUGIN_DRAFT the plugin was compiled with. */
  char id[32];          /**< "net-socket": file name weft-<id>.so, section of the configuration. */
  char version[32];     /**< The plugin's own version, "1.2.0". */
  char vendor[64];
  char description[128]; /**< One sentence. */

  const weft_interface* interfaces;
  uint32_t interface_count;
  uint32_t interface_stride;
  const weft_parameter* parameters;
  uint32_t parameter_count;
  uint32_t parameter_stride;

  /**
   * Makes an instance for one context. Counted: it may be called several times in a process, each
   * call answered by an instance of its own. `host` lives until deinit. A failure leaves nothing
   * behind and deinit is not called. [any-thread] [may-block]
   */
  weft_result (*init)(const weft_host* host, weft_plugin** out);
  /** Ends an instance; all its objects are closed before. [any-thread] [may-block] */
  void (*deinit)(weft_plugin* plugin);
  /** The function table of an interface that the entry lists, or NULL; lives as long as the
   * library. [any-thread] [non-blocking] */
  const void* (*get_interface)(weft_plugin* plugin, const char* id);
  /**
   * An extension of `object` (a plugin, context, device, connection or registration that the
   * plugin made) by id, or NULL. May be NULL itself. [any-thread] [non-blocking]
   */
  const void* (*get_extension)(weft_plugin* plugin, void* object, const char* id);
  /**
   * Asks the instance to come to rest: finish what peers still wait for, start nothing new.
   * WEFT_IN_PROGRESS until it has. Called before deinit, when all objects are closed, again and
   * again for two seconds at most. May be NULL. [one-thread] [non-blocking]
   */
  weft_result (*quiesce)(weft_plugin* plugin);
} weft_plugin_descriptor;

/** Put before the definition of weft_plugin_entry. */
#if defined(__cplusplus)
#define WEFT_PLUGIN_EXPORT extern "C" __attribute__((visibility("default"), used))
#else
#define WEFT_PLUGIN_EXPORT __attribute__((visibility("default"), used))
#endif

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_API_PLUGIN_H */
