/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * weft.tuner: what an operation would cost. The host lists the ways in which it could carry out an
 * operation; the tuner answers a time for each, and how many channels, which chunk and how many
 * threads it would use; the host takes the cheapest. It feeds the tuner with measured times.
 *
 * Life: open on every rank -> agree, once, on a table -> evaluate for each new kind of operation ->
 * report as results come in -> propose and adopt when something was learned -> close.
 *
 * The law of this interface: ALL RANKS MUST DECIDE ALIKE. With the same table version and the same
 * input, evaluate gives the same answer in every process, bit for bit: no clock, no random number,
 * no state of this rank alone may enter it. What a rank has learned by itself enters no answer
 * before the host has made it the same everywhere (see adopt).
 *
 * This is a DRAFT of revision 1; see plugin.h for the words and rules used here.
 */
#ifndef WEFT_PLUGIN_API_TUNER_H
#define WEFT_PLUGIN_API_TUNER_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_TUNER_INTERFACE "weft.tuner/1-draft.8"

/** A tuner opened for one communicator. */
typedef struct weft_tuner weft_tuner;

/** What is asked for; the numbers never change meaning. */
typedef int32_t weft_tuner_operation;
enum {
  WEFT_TUNER_ALL_REDUCE = 0,
  WEFT_TUNER_ALL_GATHER = 1,
  WEFT_TUNER_ALL_GATHER_V = 2,
  WEFT_TUNER_REDUCE_SCATTER = 3,
  WEFT_TUNER_REDUCE_SCATTER_V = 4,
  WEFT_TUNER_BROADCAST = 5,
  WEFT_TUNER_REDUCE = 6,
  WEFT_TUNER_ALL_TO_ALL = 7,
  WEFT_TUNER_ALL_TO_ALL_V = 8,
  WEFT_TUNER_GATHER = 9,
  WEFT_TUNER_SCATTER = 10,
  WEFT_TUNER_SEND_RECV = 11
};

typedef int32_t weft_tuner_algorithm;
enum {
  WEFT_TUNER_RING = 0,
  WEFT_TUNER_TREE = 1,
  WEFT_TUNER_PAT = 2,
  WEFT_TUNER_ONE_SHOT = 3,
  WEFT_TUNER_TWO_SHOT = 4,
  WEFT_TUNER_DIRECT = 5, /**< Each pair by itself: send/recv, all-to-all and their family. */
  WEFT_TUNER_IN_NETWORK = 6
};

typedef int32_t weft_tuner_protocol;
enum {
  WEFT_TUNER_SIMPLE = 0,
  WEFT_TUNER_LL = 1,
  WEFT_TUNER_LL128 = 2,
  WEFT_TUNER_NO_PROTOCOL = 3 /**< A copy engine moves the data: no flags, no slots. */
};

/** What moves the bytes. */
typedef int32_t weft_tuner_path;
enum {
  WEFT_TUNER_PATH_SM = 0,          /**< Kernels (host workers on a CPU) through slots. */
  WEFT_TUNER_PATH_COPY_ENGINE = 1, /**< The device's copy engines. */
  WEFT_TUNER_PATH_DIRECT = 2       /**< Kernels on the peers' mapped user buffers. */
};

/** What a wire can do, seen from the slowest pair that it carries. */
typedef struct weft_tuner_link {
  uint32_t struct_size;
  int32_t locality;        /**< weft_locality of transport.h */
  uint64_t bandwidth_mbps; /**< Megabytes (10^6) a second one way, 0: unknown. */
  uint64_t latency_ns;     /**< 0: unknown. */
  const char* plugin;      /**< Id of the plugin that carries it: "shm", "net-socket". */
} weft_tuner_link;

/** The communicator, the same on all of its ranks. Valid during open. */
typedef struct weft_tuner_open_info {
  uint32_t struct_size;
  uint32_t ranks;
  uint32_t hosts;
  uint32_t ranks_per_host; /**< Largest number on one host. */
  uint32_t max_channels;
  int32_t traffic_class; /**< What the user asked for, -1: nothing. */
  uint64_t communicator; /**< Names the communicator on all of its ranks. */
  const char* device;    /**< Kind of device: "host", "cuda sm_90". */
  uint64_t topology_hash;
  const weft_tuner_link* links; /**< The wires in use. */
  uint32_t link_count;
  uint32_t link_stride;
} weft_tuner_open_info;

/** A table of costs, by what it is and what is in it. */
typedef struct weft_tuner_table {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t version; /**< Raised by every change; 0: the tuner needs no table. */
  uint64_t hash;    /**< Of all that evaluate depends on; equal hashes answer alike. */
  char name[128];   /**< For the operator: a file, "built-in". */
} weft_tuner_table;

/** Circumstances of an operation; bits. Alike on all ranks. */
typedef uint32_t weft_tuner_flags;
enum {
  WEFT_TUNER_REGISTERED = 1, /**< The caller's buffers are registered on all ranks. */
  WEFT_TUNER_CAPTURED = 2,   /**< It will be part of a graph that is launched many times. */
  WEFT_TUNER_IN_PLACE = 4,
  WEFT_TUNER_DETERMINISTIC = 8 /**< The result must not depend on timing. */
};

/** One operation to be planned. Valid during the call; the same on every rank. */
typedef struct weft_tuner_question {
  uint32_t struct_size;
  weft_tuner_operation operation;
  weft_data_type type;
  weft_reduction reduction; /**< -1 where nothing is reduced. */
  uint64_t bytes;           /**< Payload of one rank; of the longest block for the v kinds. */
  uint64_t total_bytes;     /**< Of all ranks together. */
  uint32_t root;            /**< 0 where there is none. */
  uint32_t flags;           /**< WEFT_TUNER_* above. */
  uint32_t cta_budget;      /**< Most CTAs (host workers) that it may use. */
  uint32_t group_size;      /**< Operations of the same group that run beside it. */
  uint64_t sequence;        /**< Number of the operation in its communicator. */
} weft_tuner_question;

/** One way in which the host could do it. Ids are the host's and say nothing by themselves. */
typedef struct weft_tuner_offer {
  uint32_t struct_size;
  uint32_t id; /**< Given back in the answer. */
  weft_tuner_algorithm algorithm;
  weft_tuner_protocol protocol;
  weft_tuner_path path;
  uint32_t min_channels;
  uint32_t max_channels;
  uint32_t channel_step; /**< Only multiples of it. */
  uint64_t min_chunk;    /**< Bytes. */
  uint64_t max_chunk;
  uint32_t min_threads; /**< Of a CTA. */
  uint32_t max_threads;
  uint64_t host_estimate_ns; /**< What the host's own model says, 0: nothing. */
} weft_tuner_offer;

/** What the tuner says on the offer in the same place of the list. */
typedef struct weft_tuner_answer {
  uint32_t struct_size;
  uint32_t id;       /**< Of the offer; the host refuses an answer with another one. */
  uint64_t time_ns;  /**< What it would take; UINT64_MAX: never use it; 0: no opinion. */
  uint32_t channels; /**< 0: the host decides; else within the offer. */
  uint32_t threads;  /**< 0: the host decides. */
  uint64_t chunk;    /**< Bytes, 0: the host decides. */
} weft_tuner_answer;

/** One operation that was measured on this rank. */
typedef struct weft_tuner_sample {
  uint32_t struct_size;
  uint32_t offer; /**< Id that was used. */
  const weft_tuner_question* question;
  const weft_tuner_offer* used; /**< The offer itself: ids change from call to call. */
  uint32_t channels;
  uint32_t threads;
  uint64_t chunk;
  uint64_t time_ns;       /**< From the start on this rank to its end. */
  uint64_t wait_ns;       /**< Of these, waiting for a rank that came late, where known. */
  uint64_t table_version; /**< The table it was chosen by. */
} weft_tuner_sample;

/** The function table. (optional) as in transport.h. */
typedef struct weft_tuner_interface {
  uint32_t struct_size;
  uint32_t reserved;

  /**
   * Opens the tuner for one communicator and loads its table. A table that cannot be read, or was
   * made for another machine, is an error that says which (WEFT_ERROR_CONFIG). Errors besides:
   * OUT_OF_MEMORY, SYSTEM. `*out` is the plugin's until close. [any-thread] [may-block]
   */
  weft_result (*open)(weft_plugin* plugin, const weft_tuner_open_info* info, weft_tuner** out);
  /** Closes it. What it learned and wants to keep, it writes now. [one-thread] [may-block] */
  void (*close)(weft_tuner* tuner);

  /**
   * Which table the answers come from. The host compares it over all ranks before the first
   * question: a difference is an error of the communicator that names both. Cannot fail.
   * [one-thread] [non-blocking]
   */
  weft_result (*table)(weft_tuner* tuner, weft_tuner_table* out);

  /**
   * Judges `count` offers, `offer_stride` bytes apart: writes answer i on offer i, `answer_stride`
   * bytes apart. Same question, offers and table: same answers, on every rank. INVALID_ARGUMENT
   * for an operation it does not know: the host then uses its own model. Called once for each new
   * kind of operation, not for each call. [one-thread] [non-blocking]
   */
  weft_result (*evaluate)(weft_tuner* tuner, const weft_tuner_question* question,
                          const weft_tuner_offer* offers, uint64_t offer_stride, uint64_t count,
                          weft_tuner_answer* answers, uint64_t answer_stride);

  /**
   * (optional) Hands over `count` samples of this rank, `stride` bytes apart, valid during the
   * call. They change no answer by themselves. Cannot fail; OUT_OF_RESOURCES: dropped.
   * [one-thread] [non-blocking]
   */
  weft_result (*report)(weft_tuner* tuner, const weft_tuner_sample* samples, uint64_t stride,
                        uint64_t count);

  /**
   * (optional, with adopt) What this rank has learned since the last table, as bytes of at most
   * 64 KiB that live until the next call on the tuner. WEFT_AGAIN: nothing worth telling.
   * [one-thread] [non-blocking]
   */
  weft_result (*propose)(weft_tuner* tuner, weft_blob* out);
  /**
   * (optional, with propose) Makes the next table from what the ranks proposed: blob r comes from
   * rank r, is not trusted, and is empty where that rank had nothing. All ranks are given the same
   * blobs. The table counts from the operation with number `sequence` on, which all ranks have
   * agreed on and none has reached; until then evaluate keeps to the old one for questions with a
   * smaller number. `out` describes the new table; the host compares it over all ranks, and on a
   * difference, or if one rank fails, none uses it. [one-thread] [non-blocking]
   */
  weft_result (*adopt)(weft_tuner* tuner, uint64_t sequence, const weft_blob* blobs, uint64_t count,
                       weft_tuner_table* out);
  /**
   * (optional, with propose) Forgets a table that adopt made and that some rank could not make.
   * [one-thread] [non-blocking]
   */
  void (*discard)(weft_tuner* tuner, uint64_t version);

  /**
   * (optional) Says for the operator, in one line, why `offer` costs what it does; writes at most
   * `size` bytes, the zero included. For `weft explain`. [one-thread] [non-blocking]
   */
  weft_result (*explain)(weft_tuner* tuner, const weft_tuner_question* question,
                         const weft_tuner_offer* offer, char* text, uint64_t size);
} weft_tuner_interface;

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_API_TUNER_H */
