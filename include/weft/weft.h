/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Weft's application API: communicators, groups, streams and collectives, in plain C11.
 *
 * A context owns plugins, configuration, log and device; nothing is global. Ranks may be processes,
 * threads, or several in one thread.
 *
 * Threads: a context may be used from any thread at any time. A communicator is used by one thread
 * at a time, and so is a stream; weft_comm_abort, weft_comm_get_async_error, weft_comm_size,
 * weft_comm_rank and weft_comm_get_properties may come from any thread at any time until
 * weft_comm_destroy is called. Functions of a stream and a communicator are uses of both.
 *
 * Blocking: a function waits for other ranks, or for work, only where its text says so.
 *
 * Ownership: what a function makes is the caller's, who gives it to the function of its kind that
 * destroys it. Buffers, texts and structs given to a function stay the caller's; but for the
 * buffers of collectives, sends and receives they are not looked at after it returns.
 *
 * Errors: a call that answers a negative weft_result leaves its outputs untouched;
 * weft_last_error gives the text of the calling thread's last failure. Every function may answer
 * INVALID_ARGUMENT (a NULL where its text allows none, a value out of range), INVALID_USAGE (in a
 * child after fork) and OUT_OF_MEMORY; the texts below name the others.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "types.h"

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Owns everything else; see weft_context_create. */
typedef struct weft_context weft_context;
/** One rank's membership in a communicator. */
typedef struct weft_comm weft_comm;
/** A queue of work: runs in order, apart from the caller. */
typedef struct weft_stream weft_stream;
/** Calls that were captured from a stream, to be made again; see weft_stream_begin_capture. */
typedef struct weft_graph weft_graph;
/** A window, as one of its ranks sees it; used by one thread at a time, as its communicator. */
typedef struct weft_window weft_window;

/** Names a communicator to be: made by one rank, copied to the others by any means. Whoever knows
 * it can join. */
typedef struct weft_unique_id {
  uint8_t bytes[128];
} weft_unique_id;

/* ---- versions and errors --------------------------------------------------------------------- */

/* Texts that live as long as the program; no function here fails. */

/** "0.1.0". */
WEFT_API const char* weft_version(void);

/** "WEFT_ERROR_TIMEOUT"; for values that are none, a text that says so. */
WEFT_API const char* weft_result_name(weft_result result);
/** One sentence. */
WEFT_API const char* weft_result_description(weft_result result);

/**
 * Writes the text of the calling thread's last failure on `context` (what failed, with which peer
 * or file, the native code, what to try, and what was being done): at most `size` bytes, the zero
 * included. Answers the bytes that the whole text needs; 1 if there was no failure. A NULL context
 * asks for failures of weft_context_create.
 */
WEFT_API size_t weft_last_error(weft_context* context, char* text, size_t size);

/* ---- contexts -------------------------------------------------------------------------------- */

/** How to make a context. Fill struct_size with sizeof(weft_context_options), the rest with zero
 * for defaults. */
typedef struct weft_context_options {
  uint32_t struct_size;
  uint32_t reserved;
  /** A configuration file to read instead of the one that would be found; may be NULL. */
  const char* config_file;
} weft_context_options;

/**
 * Reads the configuration and the environment, and looks for plugins; they are loaded when a
 * communicator first needs them. NULL options mean defaults. The context must not be used in a
 * child after fork. Errors: CONFIG, SYSTEM, OUT_OF_RESOURCES.
 */
WEFT_API weft_result weft_context_create(const weft_context_options* options, weft_context** out);

/** What a context has of a CUDA device's memory and, for it, of the host's, in bytes. Set
 * struct_size to sizeof(weft_device_memory); fields that the library does not know stay as they
 * are. */
typedef struct weft_device_memory {
  uint32_t struct_size;
  uint32_t reserved;
  /** By communicators, graphs of their calls and weft_memory_allocate, and what other processes
   * still have mapped of communicators that have ended. */
  uint64_t in_use;
  /** Of communicators that have ended: for the next ones, until the context's end, since to give
   * it back may wait for kernels that wait for other ranks. */
  uint64_t kept;
  /** The same of the host: memory that the device reaches. */
  uint64_t host_in_use;
  uint64_t host_kept;
} weft_device_memory;

/** Writes them, for CUDA device `device`; 0 of one on which the context has no rank, stream or
 * memory yet. Not what the driver takes for itself (its context, kernels' code), nor memory of
 * others that is mapped here. From any thread; waits neither for ranks nor for their work. Errors:
 * INVALID_ARGUMENT. */
WEFT_API weft_result weft_context_get_device_memory(weft_context* context, int32_t device,
                                                    weft_device_memory* out);

/** Ends a context; its communicators, streams and graphs must be destroyed before (else
 * INVALID_USAGE and nothing is done), and no other thread may use it. Waits for its own threads,
 * never for ranks. NULL is allowed. */
WEFT_API weft_result weft_context_destroy(weft_context* context);

/* ---- communicators --------------------------------------------------------------------------- */

/** Whose kernels do a rank's work, and whose memory its buffers are in. */
typedef int32_t weft_device_kind;
enum {
  WEFT_DEVICE_HOST = 0, /**< The CPU. */
  WEFT_DEVICE_CUDA = 1  /**< A CUDA device. */
};

/** How to make a communicator, like weft_context_options. */
typedef struct weft_comm_config {
  uint32_t struct_size;
  uint32_t setting_count;
  /** `setting_count` pairs "section.key", "value", which override the context's configuration for
   * this communicator: {"transports.order", "shm", ...}. May be NULL. */
  const char* const* settings;
  /** Of this rank; all ranks of a communicator have one kind. */
  weft_device_kind device_kind;
  /** Number of the CUDA device, as cudaSetDevice takes it. With weft_comm_init_all that of rank 0;
   * rank i takes the i-th after it. */
  int32_t device;
  /** Not 0: this rank joins, connects for calls, and later finalizes in the background; see
   * weft_comm_init_rank and "collectives". */
  uint32_t nonblocking;
  uint32_t reserved; /**< 0. */
} weft_comm_config;

/**
 * Makes the id of a new communicator, and waits in the background of this process for its ranks
 * to meet here: until they all came, the bootstrap deadline has passed since the first of them did,
 * or the context is destroyed. Until then it takes a thread and a few descriptors.
 * Errors: CONFIG and SYSTEM where no interface can be listened at, NETWORK where none is up,
 * OUT_OF_RESOURCES.
 */
WEFT_API weft_result weft_get_unique_id(weft_context* context, weft_unique_id* out);

/**
 * Joins a communicator as `rank` of `ranks`. Blocks until all ranks have joined, or fails on each
 * of them (deadline: timeouts.bootstrap). Between weft_group_start and weft_group_end it only takes
 * note, and the group's end joins all at once: so one thread can hold several ranks. NULL config
 * means the context's configuration. Ranks are connected with each other by the calls that first
 * need it; see "collectives".
 *
 * With `nonblocking` it answers WEFT_IN_PROGRESS and a handle at once, also inside a group, and a
 * thread of Weft's joins. Until weft_comm_get_async_error no longer tells WEFT_IN_PROGRESS, calls
 * on the handle are INVALID_USAGE; its rank and size can be asked, it can be aborted and destroyed.
 * A handle whose rank could not join answers that failure to every call, and must be destroyed.
 * Only the search for the device (CUDA) and the check of arguments come before the answer.
 *
 * Errors: CONFIG (settings that are wrong, or differ where they must agree; no transport for a
 * pair), MISMATCH (ranks on devices of different kinds), TIMEOUT, PEER, NETWORK, PLUGIN, DEVICE,
 * SYSTEM, OUT_OF_RESOURCES; ABORTED after weft_comm_abort.
 */
WEFT_API weft_result weft_comm_init_rank(weft_context* context, const weft_comm_config* config,
                                         uint32_t ranks, const weft_unique_id* id, uint32_t rank,
                                         weft_comm** out);

/** Makes a communicator whose `ranks` ranks all live in this process: out[i] is rank i. Blocks,
 * and fails, as weft_comm_init_rank. Not inside a group (INVALID_USAGE). */
WEFT_API weft_result weft_comm_init_all(weft_context* context, const weft_comm_config* config,
                                        uint32_t ranks, weft_comm** out);

/**
 * Joins the communicator of this job, as the launcher's environment says: `weft run`, torchrun,
 * Open MPI, Slurm, PMI or PMIx. WEFT_ROOT and WEFT_SECRET are needed where the launcher does not
 * tell where to meet; the error says which, and how to set it. The n-th call of a rank's context
 * meets the n-th calls of the others', failed ones included: every rank must call it equally often.
 * Blocks, and fails, as weft_comm_init_rank; CONFIG if the environment does not tell enough.
 */
WEFT_API weft_result weft_comm_init_env(weft_context* context, const weft_comm_config* config,
                                        weft_comm** out);

/**
 * Waits until the work of this rank has ended; it may do queued work itself. No call may follow
 * (INVALID_USAGE), only destroy. Errors: those of the work, as weft_stream_synchronize tells them;
 * INVALID_USAGE, and nothing is done, where a group of this thread has noted calls of it.
 *
 * A CUDA stream that is being captured is not waited for, since that would end the capture, nor is
 * the null stream while a blocking stream is being captured: what was called there before must have
 * ended. Replays of CUDA graphs are waited for on the stream on which the latest call was made, and
 * on that on which the latest one was captured, while the weft_stream of that has not been
 * destroyed; on other streams they must have ended before. None may follow.
 *
 * Between CPUs, if the last collective had a root or no elements, or blocks that differ, it also
 * waits until every other rank has made that call or has left, and compares them: ranks that all
 * named themselves as root exchanged nothing that would have told them (MISMATCH). timeouts.report
 * and timeouts.operation count for that wait, and weft_comm_abort ends it.
 *
 * A rank that joined with `nonblocking` waits in the background and answers WEFT_IN_PROGRESS;
 * weft_comm_get_async_error, and this function asked again, tell how it ended. The streams of its
 * calls may be used meanwhile, but those of CUDA not be destroyed.
 */
WEFT_API weft_result weft_comm_finalize(weft_comm* comm);

/** Ends a communicator: waits for its work, says goodbye to the others, frees all. It tells no
 * errors of the work, and does not compare the last calls with those of other ranks, which would
 * wait for these: weft_comm_finalize does both, and where it still compares in the background that
 * is given up. What it does not wait for, work before a capture, work on the null stream beside one
 * and replays elsewhere, must have ended here as well, since its memory goes, windows included.
 * After a failure or abort it does not wait for peers; a join that has not ended is given up, as by
 * abort. No other thread may use the handle any more. A group of this thread that has noted calls
 * of it starts nothing, and answers INVALID_USAGE at its end. Always OK. NULL is allowed. */
WEFT_API weft_result weft_comm_destroy(weft_comm* comm);

/**
 * Gives up: makes work under way, or a join in the background, end with WEFT_ERROR_ABORTED, tells
 * the other ranks (their calls end with WEFT_ERROR_PEER), and returns at once. The communicator
 * must still be destroyed. From any thread.
 */
WEFT_API weft_result weft_comm_abort(weft_comm* comm);

/** Writes WEFT_OK while all is well; WEFT_IN_PROGRESS while the rank joins, starts calls or
 * finalizes in the background; else why the communicator is unusable, and weft_last_error gives the
 * calling thread the text. From any thread, never blocks. */
WEFT_API weft_result weft_comm_get_async_error(weft_comm* comm, weft_result* out);

/** Number of ranks. From any thread, never blocks. */
WEFT_API weft_result weft_comm_size(weft_comm* comm, uint32_t* out);
/** Own rank. From any thread, never blocks. */
WEFT_API weft_result weft_comm_rank(weft_comm* comm, uint32_t* out);

/**
 * Writes how the pair of `rank_a` and `rank_b` is joined and why: "shm: same host; first that can
 * of transports.order (default) ...". Like weft_last_error it writes at most `size` bytes and
 * answers what the text needs; 0 for ranks that do not exist, for a rank that has not joined, and
 * where memory lacks. Never blocks.
 */
WEFT_API size_t weft_comm_describe_pair(weft_comm* comm, uint32_t rank_a, uint32_t rank_b,
                                        char* text, size_t size);

/** What a communicator is and has, as seen by one of its ranks. Set struct_size to
 * sizeof(weft_comm_properties); fields that the library does not know stay as they are. */
typedef struct weft_comm_properties {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t ranks;
  uint32_t hosts;       /**< On which its ranks run. */
  uint32_t local_rank;  /**< Among the ranks of the same host, in their order. */
  uint32_t local_ranks; /**< Of the same host. */
  weft_device_kind device_kind;
  int32_t device;         /**< -1 for the host. */
  uint32_t channels;      /**< At most so many carry a call side by side. */
  uint32_t shares_memory; /**< 1 if memory joins every pair of ranks, 0 if messages join some. */
  uint64_t most_direct;   /**< Bytes of the largest call written straight to all ranks; 0: none. */
  uint64_t calls;         /**< Collective calls that this rank has made. */
  /** Memory of the host and of the device that this rank has allocated for its connections, in
   * bytes: hardly any before its first call, and more with each call that goes a new way or to a
   * new rank; none of a rank that is alone. Not what the system holds for sockets, nor bookkeeping.
   */
  uint64_t bytes_held;
  /** Calls of this rank that could have written straight into the outputs of other ranks
   * (buffers.outputs_from), by how they went: so, or through slots because some rank's output was
   * not open to the others, or not yet mapped by them. Of a captured call each replay counts. */
  uint64_t calls_by_outputs;
  uint64_t calls_by_slots;
} weft_comm_properties;

/** Writes them. From any thread, never blocks. INVALID_USAGE while the rank has not joined. */
WEFT_API weft_result weft_comm_get_properties(weft_comm* comm, weft_comm_properties* out);

/* ---- groups ---------------------------------------------------------------------------------- */

/** Opens a group of this thread, of this context: calls only take note until its end. Groups nest;
 * the outermost end counts. Other threads take no part in it. */
WEFT_API weft_result weft_group_start(weft_context* context);
/** Starts everything that was noted, together. Blocks for ranks that join in it, and until ranks
 * that meet for the first time, by send and receive or on a collective's way, are connected
 * (deadline: timeouts.bootstrap): that needs no call of theirs. Where all calls of the group are of
 * ranks that joined with `nonblocking` it answers WEFT_IN_PROGRESS instead; see "collectives".
 * Errors: the first one that noting or starting met; nothing of the group was started then, or the
 * communicators it concerns are in error. INVALID_USAGE if no group is open. */
WEFT_API weft_result weft_group_end(weft_context* context);

/* ---- streams --------------------------------------------------------------------------------- */

/** Makes a stream of the host device. Errors: OUT_OF_RESOURCES. */
WEFT_API weft_result weft_stream_create(weft_context* context, weft_stream** out);
/**
 * Makes a stream of `cuda_stream`, a cudaStream_t of CUDA device `device`, which remains the
 * caller's and must outlive it. cudaStreamPerThread is none, since it is another stream in each
 * thread, and threads of Weft start and wait for calls, too.
 *
 * Calls on it may be captured into a graph: the work of such calls runs with each replay, as that
 * of as many calls would. A capture numbers its calls: all ranks capture equally often, in one
 * order, and replay alike. A replay is ordered by its stream alone: the program puts an event
 * between a replay and calls, or other replays, of the same communicator on other streams, so that
 * the replay waits for what comes before it, and what comes next for the replay.
 *
 * What fails of a replay on another stream than the captured one, weft_comm_get_async_error tells.
 * While a stream is captured on which a communicator's latest call outside of captures was made,
 * its calls on streams that are not captured are INVALID_USAGE, since they could not be ordered
 * after that one; of calls on the null stream that is so while a blocking stream is captured, and
 * calls there are INVALID_USAGE as long.
 *
 * Weft works in the context that the CUDA runtime has for a device (cudaSetDevice,
 * cuDevicePrimaryCtxRetain), whichever is current in the calling thread, and leaves that current.
 * Streams of a green context are taken, but kernels wait for each other by what the whole device
 * has room for: ranks whose calls need more than such a context has may wait for ever.
 *
 * A stream that is neither captured nor the null stream is given an empty kernel here, one stream
 * of the process at a time: streams whose first kernels come from two threads at once may wait for
 * each other's work later (docs/application-authors.md). That takes some 5 us, so make one for many
 * calls.
 *
 * Errors: DEVICE where there is no driver, no such device or no libweft-cuda.so; INVALID_ARGUMENT
 * for cudaStreamPerThread, and for a stream of another device or of a context that the program made
 * (cuCtxCreate), its null stream too.
 */
WEFT_API weft_result weft_stream_from_cuda(weft_context* context, int32_t device, void* cuda_stream,
                                           weft_stream** out);
/** Blocks until the stream is empty; the calling thread may do the work itself. Errors: the first
 * of the stream's work since this or query was asked last: ABORTED, PEER, MISMATCH, TIMEOUT,
 * NETWORK, DEVICE. The communicator whose work it was answers the same from then on. INVALID_USAGE
 * while the stream is captured, by CUDA, too, whose capture goes on; of the null stream also while
 * a blocking stream is. */
WEFT_API weft_result weft_stream_synchronize(weft_stream* stream);
/** As synchronize, but answers WEFT_IN_PROGRESS instead of blocking, and does no work itself. */
WEFT_API weft_result weft_stream_query(weft_stream* stream);
/** Waits until the stream is empty and frees it, with what a capture that was not ended has
 * recorded. A stream of weft_stream_from_cuda is not waited for, and its cudaStream_t may be
 * destroyed next: communicators that called there wait for that work themselves, and order later
 * calls after it. Of one that is being captured they do so within that capture alone. NULL is
 * allowed. */
WEFT_API weft_result weft_stream_destroy(weft_stream* stream);

/* ---- captured calls -------------------------------------------------------------------------- */
/*
 * A program that makes the same calls over and over can capture them once from a stream of the host
 * device, and launch the graph. A launch makes the calls again at that moment, with the same
 * buffers, in the same order and groups, on any one stream of the host device: other ranks may
 * capture theirs, or call each time. Launches and calls of the same communicators can be mixed;
 * their order counts as if all were calls. What a launch saves is the work of each call: arguments
 * are checked, plans made, groups put in order and ranks connected when the calls are captured.
 *
 * Buffers must live until the last launch has ended.
 * A graph is used by one thread at a time; a launch is also a use of the stream and of the
 * communicators whose calls it holds. Streams of weft_stream_from_cuda are captured by CUDA itself.
 */

/**
 * From now on calls on this stream are recorded and not made, until weft_stream_end_capture; they
 * block, or go on in the background, and fail as they would else, and what fails is not recorded.
 * Work that the stream got before goes on. Meanwhile weft_stream_synchronize, weft_stream_query and
 * weft_graph_launch on it are INVALID_USAGE, as are groups with calls on it and on another stream.
 * Several streams may be captured at a time. Errors: INVALID_USAGE if it is captured already, or
 * inside a group; UNSUPPORTED for a stream of weft_stream_from_cuda.
 */
WEFT_API weft_result weft_stream_begin_capture(weft_stream* stream);
/** Ends the capture; `*out` holds the calls, perhaps none, and is independent of the stream.
 * Errors: INVALID_USAGE if the stream is not captured, or inside a group: then it goes on. */
WEFT_API weft_result weft_stream_end_capture(weft_stream* stream, weft_graph** out);
/**
 * Makes the calls of `graph` on `stream`, of the same context, and returns at once. Errors:
 * INVALID_USAGE inside a group, on a stream that is captured, and once a communicator of the calls
 * was finalized or destroyed (nothing is started); else the first failure of a call, as if it had
 * been called here: calls of other communicators are started nevertheless.
 */
WEFT_API weft_result weft_graph_launch(weft_graph* graph, weft_stream* stream);
/** Frees a graph at once; what it launched goes on. NULL is allowed. */
WEFT_API weft_result weft_graph_destroy(weft_graph* graph);

/* ---- collectives ----------------------------------------------------------------------------- */
/*
 * Every rank calls the same operations in the same order with the same count, type, reduction and
 * root. Calls append to `stream` and do not wait for their work; buffers may be used again when the
 * stream has passed them. Calls of one communicator run in the order in which they were made, on
 * whatever streams: a stream does not pass a call before the streams of the earlier ones have
 * passed those. That holds within a capture of CUDA, too, but for replays it is the program's to
 * do; see weft_stream_from_cuda.
 *
 * A call blocks, or the end of its group, where it is the first to go its way: straight to all
 * others, round a ring of so many channels, or by a tree, PAT or a chain, each by its protocol. It
 * waits until this rank is connected with its neighbours on that way, and until memory is there
 * that it needs; that needs no call of theirs. After timeouts.bootstrap
 * it answers TIMEOUT and the communicator has failed; a failure in the meantime ends it before
 * (PEER, NETWORK), as does weft_comm_abort by another thread (ABORTED). Other calls return at once.
 *
 * With `nonblocking` it answers WEFT_IN_PROGRESS instead, and a thread of Weft's connects and then
 * starts the call, or all of the group. Until weft_comm_get_async_error no longer tells
 * WEFT_IN_PROGRESS, calls of these communicators and on these streams are INVALID_USAGE, as are
 * captures and launches there and weft_comm_finalize; weft_stream_query tells WEFT_IN_PROGRESS,
 * weft_stream_synchronize and the functions that destroy wait. No stream of an earlier call of
 * these communicators may be destroyed meanwhile, nor one of CUDA be given other work. If it fails
 * the communicators have failed, all of a group's, and weft_comm_get_async_error tells why.
 *
 * Buffers hold `count` elements, aligned to the element. count 0 is allowed. Ranks whose calls
 * differ get WEFT_ERROR_MISMATCH with a text that names both calls.
 *
 * Errors at the call: UNSUPPORTED (a type or reduction that the device has no kernel for, a capture
 * of what needs the CPU, a way that the options of the handle want and that cannot be had),
 * INVALID_USAGE while the stream of an earlier call is captured, see weft_stream_from_cuda;
 * OUT_OF_RESOURCES (threads), DEVICE, what connecting fails with, and the failure of a communicator
 * that has failed before. Of a group whose calls a capture cannot hold or forbids none is made;
 * communicators whose calls are left out since another one's could not start have failed. Errors of
 * the work come from weft_stream_synchronize and weft_stream_query.
 */

/*
 * Types: all of weft_data_type can be moved. Reductions: sum, prod, min, max and avg of all types.
 *
 * Floats of 16 and of 8 bits are combined as float32, and rounded to nearest even: once where a
 * rank has an element of all ranks before it combines them (the algorithms direct and two-shot, and
 * sums in windows), an average behind its division; in each step where what some ranks have been
 * combined to goes on to another (ring, tree, pat, chain). By multicast a sum is rounded once, and
 * an average of it once more. What is too large for a 16-bit float becomes infinite. An 8-bit
 * result of finite numbers stays finite: at most 448 (e4m3, which has no infinities) or 57344
 * (e5m2), as GPUs convert; infinities and NaNs of operands are kept. Integers wrap. avg is the sum,
 * divided by the number of ranks when it is complete; integers round towards zero. A NaN makes min
 * and max a NaN. Every rank that gets an element gets the same bits. Which bits depends on the
 * order in which ranks are combined and on where that is rounded, which may change with count,
 * settings and placement. With the setting collectives.deterministic the order is that of rank
 * numbers, ((r0 + r1) + r2) + ..., each result rounded to the type, and which NaN a NaN is alone
 * may differ.
 * A reduction may also be made, for a communicator: weft_reduction_create_premul_sum.
 */

/** When the scalar of a pre-multiplied sum is read. */
typedef int32_t weft_scalar_residence;
enum {
  /** By the function that makes the reduction, from host memory. */
  WEFT_SCALAR_NOW = 0,
  /** By each call, when its stream has come to it, from memory of the communicator's device: it
   * must be there, and stay as it is, until the stream has passed the call. */
  WEFT_SCALAR_AT_CALL = 1
};

/** How to make a pre-multiplied sum. Set struct_size to sizeof(weft_premul_sum_options). */
typedef struct weft_premul_sum_options {
  uint32_t struct_size;
  weft_data_type type;             /**< Of the scalar, and of every call that uses it. */
  weft_scalar_residence residence; /**< When the scalar is read. */
  uint32_t reserved;               /**< 0. */
  const void* scalar;              /**< One element; needs no alignment. */
} weft_premul_sum_options;

/**
 * Makes a reduction for calls on `comm`: each rank multiplies its own input by its own scalar, then
 * the products are summed, as by WEFT_SUM. A product is rounded to the type, or wraps, like one of
 * WEFT_PROD. Each rank makes and destroys its own; scalars and residences may differ between them.
 * The input stays as it is. The handle is a number above the constants of weft_reduction, counts
 * for this communicator alone, and ends with it at the latest. A use of `comm`; never waits for
 * other ranks.
 */
WEFT_API weft_result weft_reduction_create_premul_sum(weft_comm* comm,
                                                      const weft_premul_sum_options* options,
                                                      weft_reduction* out);
/** Ends a reduction that was made for `comm`. Calls made before are carried out all the same, also
 * those that a group has noted. */
WEFT_API weft_result weft_reduction_destroy(weft_comm* comm, weft_reduction reduction);

/*
 * By which way a call goes is chosen by cost, out of what the configuration allows
 * (collectives.<operation>.algorithm and .protocol). The options of a handle narrow that for single
 * calls.
 */

/** How data goes between the ranks; the names of the configuration in small letters. */
typedef int32_t weft_call_algorithm;
enum {
  WEFT_CALL_ALGORITHM_ANY = 0, /**< Whichever is the fastest. */
  WEFT_CALL_ALGORITHM_RING = 1,
  WEFT_CALL_ALGORITHM_TREE = 2,
  WEFT_CALL_ALGORITHM_PAT = 3,
  WEFT_CALL_ALGORITHM_DIRECT = 4,   /**< One shot: each rank writes to all others. */
  WEFT_CALL_ALGORITHM_TWO_SHOT = 5, /**< Each rank reduces a range and writes it to all others. */
  WEFT_CALL_ALGORITHM_CHAIN = 6,    /**< By rank numbers; with collectives.deterministic alone. */
  WEFT_CALL_ALGORITHM_MULTICAST = 7 /**< A switch combines and stores; with buffers.multicast. */
};

/** How a receiver sees that data has come. */
typedef int32_t weft_call_protocol;
enum {
  WEFT_CALL_PROTOCOL_ANY = 0, /**< Whichever is the fastest. */
  WEFT_CALL_PROTOCOL_SIMPLE = 1,
  WEFT_CALL_PROTOCOL_LL = 2,
  WEFT_CALL_PROTOCOL_LL128 = 3
};

/** How calls go. Set struct_size to sizeof(weft_call_options), the rest to zero for what is chosen
 * without them. */
typedef struct weft_call_options {
  uint32_t struct_size;
  weft_call_algorithm algorithm;
  weft_call_protocol protocol;
  /** At most so many channels carry a ring or the trees of a call; 0: no limit of its own. On CUDA
   * devices a channel is a CTA, and a call has no more of them whichever way it goes; on the host
   * device the other algorithms have no channels to choose. */
  uint32_t max_channels;
} weft_call_options;

/**
 * Sets the options of the calls that follow on this handle: of weft_all_reduce, weft_broadcast,
 * weft_reduce, weft_all_gather, weft_reduce_scatter and the last two with blocks that differ. The
 * other operations go one way alone, of which max_channels bounds the CTAs; sends and receives of a
 * group go together, in no more CTAs than the least of theirs. NULL goes back to none. A call
 * takes what is set when it is made, also where a group only notes it or a capture records it: each
 * launch of a graph goes by what its calls were captured with.
 *
 * The options are part of the call, but for sends and receives: all ranks set the same, else the
 * call ends with MISMATCH and a text that names both calls with theirs. A call that cannot go as
 * its options want, since the operation has no such way, the ranks are not joined for it,
 * collectives.deterministic rules it out or the configuration leaves it out, answers UNSUPPORTED
 * with the reasons and is not made; the handle stays as good as it was. Calls without elements move
 * nothing, and are not looked at. A call that names an algorithm or a protocol does not go through
 * a window by copy engines.
 *
 * A use of `comm`; never waits for other ranks. Errors, which leave the options as they were:
 * INVALID_ARGUMENT (a constant that is none), INVALID_USAGE (while the rank joins, or connects for
 * an earlier call, in the background; after weft_comm_finalize).
 */
WEFT_API weft_result weft_comm_set_call_options(weft_comm* comm, const weft_call_options* options);

/** recv = reduction over the ranks of send. In place if send == recv. */
WEFT_API weft_result weft_all_reduce(const void* send, void* recv, size_t count,
                                     weft_data_type type, weft_reduction reduction, weft_comm* comm,
                                     weft_stream* stream);

/** recv = send of rank `root`, on every rank. send counts on the root alone; in place there if
 * send == recv. */
WEFT_API weft_result weft_broadcast(const void* send, void* recv, size_t count, weft_data_type type,
                                    uint32_t root, weft_comm* comm, weft_stream* stream);

/** recv of rank `root` = reduction over the ranks of send. recv counts on the root alone; in place
 * there if send == recv. */
WEFT_API weft_result weft_reduce(const void* send, void* recv, size_t count, weft_data_type type,
                                 weft_reduction reduction, uint32_t root, weft_comm* comm,
                                 weft_stream* stream);

/** recv = the ranks' send one after the other: `count` elements of each, ranks * count in all. In
 * place if send == recv + rank * count elements. */
WEFT_API weft_result weft_all_gather(const void* send, void* recv, size_t count,
                                     weft_data_type type, weft_comm* comm, weft_stream* stream);

/** recv = block `rank` of the reduction over the ranks of send, which has ranks * count elements:
 * a block of `count` for each rank. In place if recv == send + rank * count elements; the other
 * blocks are left alone then. */
WEFT_API weft_result weft_reduce_scatter(const void* send, void* recv, size_t count,
                                         weft_data_type type, weft_reduction reduction,
                                         weft_comm* comm, weft_stream* stream);

/*
 * Where blocks differ: arrays with an element for each rank, read before the call returns. All
 * ranks name the same counts, else MISMATCH; each says where in its own buffer the blocks lie, in
 * any order, apart from each other. A count may be 0; a buffer without any elements may be NULL.
 */

/** recv + recv_offsets[i] elements = send of rank i, which has recv_counts[i] elements. In place if
 * send == recv + recv_offsets[rank] elements. */
WEFT_API weft_result weft_all_gather_v(const void* send, void* recv, const size_t* recv_counts,
                                       const size_t* recv_offsets, weft_data_type type,
                                       weft_comm* comm, weft_stream* stream);

/** recv = the reduction over the ranks of their block `rank`: send_counts[rank] elements, at send +
 * send_offsets[rank] elements. In place if recv is that block; the others are left alone then. */
WEFT_API weft_result weft_reduce_scatter_v(const void* send, const size_t* send_counts,
                                           const size_t* send_offsets, void* recv,
                                           weft_data_type type, weft_reduction reduction,
                                           weft_comm* comm, weft_stream* stream);

/* ---- blocks between ranks -------------------------------------------------------------------- */
/*
 * Collectives too: called, numbered, compared and ordered as those above. Each block goes straight
 * from the rank that has it to the one that it is for; the first such call of two ranks blocks
 * until they are connected, as a send does (deadline: timeouts.bootstrap).
 */

/** Block i of recv = block `rank` of rank i's send: both buffers hold `count` elements for each
 * rank, in the order of the ranks. They must not overlap (INVALID_ARGUMENT): not in place. */
WEFT_API weft_result weft_all_to_all(const void* send, void* recv, size_t count,
                                     weft_data_type type, weft_comm* comm, weft_stream* stream);

/**
 * The same with blocks of any size, in any order and place: rank `rank` sends send_counts[i]
 * elements from send + send_offsets[i] elements to rank i, where recv_counts[rank] must be the same
 * number, and lies at recv + recv_offsets[rank] elements. The arrays have an element for each rank
 * and are read before the call returns. Blocks of recv must overlap neither each other nor those of
 * send. A count may be 0, and then nothing passes between the two ranks; a buffer without any
 * elements may be NULL. Counts that differ are a MISMATCH: of a rank with itself at the call.
 */
WEFT_API weft_result weft_all_to_all_v(const void* send, const size_t* send_counts,
                                       const size_t* send_offsets, void* recv,
                                       const size_t* recv_counts, const size_t* recv_offsets,
                                       weft_data_type type, weft_comm* comm, weft_stream* stream);

/** recv of rank `root` = the ranks' send one after the other: `count` elements of each, ranks *
 * count in all. recv counts on the root alone and may be NULL elsewhere; in place there if send ==
 * recv + rank * count elements. */
WEFT_API weft_result weft_gather(const void* send, void* recv, size_t count, weft_data_type type,
                                 uint32_t root, weft_comm* comm, weft_stream* stream);

/** recv = block `rank` of rank `root`'s send, which has ranks * count elements: a block of `count`
 * for each rank. send counts on the root alone and may be NULL elsewhere; in place there if recv ==
 * send + rank * count elements. */
WEFT_API weft_result weft_scatter(const void* send, void* recv, size_t count, weft_data_type type,
                                  uint32_t root, weft_comm* comm, weft_stream* stream);

/* ---- windows --------------------------------------------------------------------------------- */
/*
 * A window is memory that all ranks of a communicator registered together, so that each rank's
 * device reaches that of all others. Calls whose output lies in a window are carried out straight
 * into it: all-gathers, all-to-alls, scatters, and broadcasts between two ranks, of
 * windows.copy_from bytes or more on CUDA devices by their copy engines, which leaves the devices'
 * processors to others. Other calls go as they do elsewhere, and so do those of communicators of
 * more than eight ranks or without inboxes (buffers.direct 0).
 *
 * For that the output must lie in the same window, as many bytes from its begin, on all ranks, or
 * in none on any: else the call ends with MISMATCH on every rank (a rank that waits meanwhile is
 * found as for other calls that differ). What windows hold after a call that failed is undefined.
 *
 * Where some rank cannot reach another one's memory, registering still succeeds, a warning says
 * why, and calls go as without the window.
 */

/** Memory that windows can be made of, wherever the devices of a host reach each other. It is
 * zeroed. `kind` and `device` as in weft_comm_config. Errors: OUT_OF_MEMORY, DEVICE,
 * INVALID_ARGUMENT (0 bytes). From any thread. */
WEFT_API weft_result weft_memory_allocate(weft_context* context, weft_device_kind kind,
                                          int32_t device, size_t bytes, void** out);
/** Gives it back. Its windows must be deregistered before, on all ranks, and no work may use it;
 * the context's end gives back what is left. NULL is allowed. INVALID_ARGUMENT for other memory. */
WEFT_API weft_result weft_memory_free(weft_context* context, void* memory);

/**
 * Registers `bytes` of memory at `memory` on this rank, as every other rank does with as many bytes
 * of its own: of weft_memory_allocate or of cudaMalloc, on the rank's device, within one
 * allocation. Blocks until all ranks have called it (deadline: timeouts.bootstrap), also those that
 * joined with `nonblocking`; between weft_group_start and weft_group_end it takes note, and the
 * group's end does it before all operations: so one thread can hold several ranks. If one of them
 * fails, or a join of the group does, no window of the group is registered. Ranks register their
 * windows in one order.
 *
 * The memory stays the caller's, and must outlive the window. Errors: MISMATCH (sizes differ, on
 * all ranks), INVALID_ARGUMENT, OUT_OF_RESOURCES (32767 windows in the life of a communicator);
 * TIMEOUT, PEER, NETWORK and ABORTED, after which the communicator is unusable.
 */
WEFT_API weft_result weft_window_register(weft_comm* comm, void* memory, size_t bytes,
                                          weft_window** out);
/** Ends a window for this rank: waits for its work, and no longer reaches the memory of others. No
 * word with other ranks is needed, but memory may be freed only once all have done it. It waits for
 * what weft_comm_finalize does, so other work in the window must have ended, and no replay of a
 * call that went through it may follow. Destroying the communicator does it for all its windows,
 * whose handles must not be used any more. NULL is allowed. Errors: those of the work, after which
 * the window has ended, too; INVALID_USAGE while an earlier call of this rank still connects ranks,
 * or it finalizes in the background, after which it has not. */
WEFT_API weft_result weft_window_deregister(weft_window* window);
/** Writes where the memory of rank `rank` begins as this rank's device sees it, for kernels of the
 * program's own; for the rank itself what it registered. UNSUPPORTED, with the reason, where not
 * all ranks reach all others. The address holds until the window is deregistered. */
WEFT_API weft_result weft_window_pointer(weft_window* window, uint32_t rank, void** out);

/* ---- between two ranks ----------------------------------------------------------------------- */
/*
 * The n-th send of a rank to another meets the n-th receive there from it; count and type must be
 * equal. The first time two ranks meet, the call blocks until they are connected, which needs no
 * call of the other one (deadline: timeouts.bootstrap).
 *
 * Those of one group move side by side, whatever the order in which ranks name their partners: only
 * what one rank sends to another keeps its order. They begin when the collectives of the group have
 * ended, and together count as one operation of the communicator. Outside of a group a call waits,
 * in its stream, for its partner; what a rank sends to itself must be received in the same group.
 * count 0 moves nothing and meets nobody.
 */

/** Sends `count` elements to rank `peer`. */
WEFT_API weft_result weft_send(const void* send, size_t count, weft_data_type type, uint32_t peer,
                               weft_comm* comm, weft_stream* stream);

/** Receives `count` elements from rank `peer`. */
WEFT_API weft_result weft_recv(void* recv, size_t count, weft_data_type type, uint32_t peer,
                               weft_comm* comm, weft_stream* stream);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H */
