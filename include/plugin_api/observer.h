/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * weft.observer: told when operations, their steps and their transfers start and stop. For
 * profilers, tracers and monitors. An observer changes nothing: the host ignores what it answers
 * to an event, and never waits for it.
 *
 * Cost: without an observer each place costs the host one predictable branch; with one, only the
 * kinds of events that it asked for are built and delivered. Events come from data paths: a
 * function here takes a timestamp, fills a ring of its own and returns.
 *
 * Order: start and stop of one thing come in this order, on whatever threads; a stop that has no
 * start (the observer came late, or events were lost) carries the same id and must be harmless. An
 * id is never 0 and is not used again within one observer.
 *
 * This is a DRAFT of revision 1; see plugin.h for the words and rules used here.
 */
#ifndef WEFT_PLUGIN_API_OBSERVER_H
#define WEFT_PLUGIN_API_OBSERVER_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_OBSERVER_INTERFACE "weft.observer/1-draft.8"

/** An observer opened for one communicator. */
typedef struct weft_observer weft_observer;

/** Kinds of events; bits. */
typedef uint32_t weft_observer_events;
enum {
  WEFT_OBSERVE_OPERATIONS = 1, /**< One all-reduce, one send... */
  WEFT_OBSERVE_STEPS = 2,      /**< One step of one channel of an operation. */
  WEFT_OBSERVE_TRANSFERS = 4,  /**< One message of a net, or one copy by a copy engine. */
  WEFT_OBSERVE_STATES = 8      /**< A communicator comes, fails, is aborted, goes. */
};

/** The communicator that is observed. Valid during open. */
typedef struct weft_observer_open_info {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t ranks;
  int32_t device;        /**< Device index of this rank, -1 for a CPU rank. */
  uint64_t job;          /**< Names the job on all of its ranks. */
  uint64_t communicator; /**< Names the communicator on all of its ranks. */
  uint64_t parent;       /**< The communicator it was split from, 0: none. */
  const char* host_id;   /**< Alike for ranks that share a host. */
  const char* name;      /**< Given by the user, or "". */
} weft_observer_open_info;

/** An operation of this rank. Valid during the call. */
typedef struct weft_observer_operation {
  uint32_t struct_size;
  int32_t operation; /**< weft_tuner_operation of tuner.h */
  uint64_t id;       /**< Of this event pair. */
  uint64_t sequence; /**< Number of the operation in its communicator, alike on all ranks. */
  uint64_t count;    /**< Elements. */
  uint64_t bytes;    /**< Payload of this rank. */
  weft_data_type type;
  weft_reduction reduction; /**< -1 where nothing is reduced. */
  uint32_t root;            /**< Or the peer of a send or receive. */
  uint32_t channels;
  int32_t algorithm; /**< weft_tuner_algorithm */
  int32_t protocol;  /**< weft_tuner_protocol */
  int32_t path;      /**< weft_tuner_path */
  int32_t captured;  /**< 1: a graph runs it. */
  uint64_t stream;   /**< The caller's stream, as a number to tell streams apart. */
} weft_observer_operation;

/** A step of one channel. Valid during the call. */
typedef struct weft_observer_step {
  uint32_t struct_size;
  uint32_t channel;
  uint64_t id;        /**< Of this event pair. */
  uint64_t operation; /**< Id of its operation. */
  uint64_t step;      /**< Number within the operation and channel, from 0. */
  uint64_t bytes;
  uint32_t send_peer; /**< UINT32_MAX: none. */
  uint32_t recv_peer; /**< UINT32_MAX: none. */
} weft_observer_step;

/** A transfer by a net or a copy engine. Valid during the call. */
typedef struct weft_observer_transfer {
  uint32_t struct_size;
  int32_t direction;  /**< weft_direction of transport.h */
  uint64_t id;        /**< Of this event pair. */
  uint64_t operation; /**< Id of its operation, 0: none (set-up). */
  uint64_t bytes;
  uint32_t peer;
  uint32_t channel;
  const char* plugin; /**< Who carries it: "net-socket". */
  const char* device; /**< "eth0", or "". */
} weft_observer_transfer;

typedef int32_t weft_observer_state;
enum {
  WEFT_OBSERVER_READY = 0,
  WEFT_OBSERVER_FAILED = 1,
  WEFT_OBSERVER_ABORTED = 2,
  WEFT_OBSERVER_CLOSED = 3
};

/**
 * The function table. (optional) as in transport.h. Times are nanoseconds of the host's now_ns,
 * taken where the thing happened: for work of a device they may come later than the event they
 * belong to. `status` of a stop is what it ended with.
 */
typedef struct weft_observer_interface {
  uint32_t struct_size;
  uint32_t reserved;

  /**
   * Begins to observe a communicator; `*events` takes the bits of the kinds that are wanted, which
   * never change afterwards. 0: nothing is delivered. Errors: CONFIG, SYSTEM, OUT_OF_MEMORY: the
   * communicator goes on without observer, with a warning. `*out` is the plugin's until close.
   * [any-thread] [may-block]
   */
  weft_result (*open)(weft_plugin* plugin, const weft_observer_open_info* info,
                      weft_observer_events* events, weft_observer** out);
  /** Ends it; no event is delivered any more. [one-thread] [may-block] */
  void (*close)(weft_observer* observer);

  /** (with WEFT_OBSERVE_OPERATIONS) Handed to the device. [any-thread] [non-blocking] */
  void (*operation_start)(weft_observer* observer, uint64_t time_ns,
                          const weft_observer_operation* operation);
  /** (with WEFT_OBSERVE_OPERATIONS) Ended on this rank. [any-thread] [non-blocking] */
  void (*operation_stop)(weft_observer* observer, uint64_t time_ns, uint64_t id,
                         weft_result status);

  /** (optional, with WEFT_OBSERVE_STEPS) [any-thread] [non-blocking] */
  void (*step_start)(weft_observer* observer, uint64_t time_ns, const weft_observer_step* step);
  /** (optional, with WEFT_OBSERVE_STEPS) [any-thread] [non-blocking] */
  void (*step_stop)(weft_observer* observer, uint64_t time_ns, uint64_t id, weft_result status);

  /** (optional, with WEFT_OBSERVE_TRANSFERS) [any-thread] [non-blocking] */
  void (*transfer_start)(weft_observer* observer, uint64_t time_ns,
                         const weft_observer_transfer* transfer);
  /** (optional, with WEFT_OBSERVE_TRANSFERS) [any-thread] [non-blocking] */
  void (*transfer_stop)(weft_observer* observer, uint64_t time_ns, uint64_t id, uint64_t bytes,
                        weft_result status);

  /**
   * (optional, with WEFT_OBSERVE_STATES) The communicator changed; `text` says why (the error with
   * its chain), valid during the call, "" where there is nothing to say.
   * [any-thread] [non-blocking]
   */
  void (*state)(weft_observer* observer, uint64_t time_ns, weft_observer_state state,
                const char* text);
} weft_observer_interface;

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_API_OBSERVER_H */
