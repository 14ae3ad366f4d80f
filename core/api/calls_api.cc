// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The operations of the C API: their arguments checked, and given to their communicator or group.
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/group.h"
#include "core/comm/member.h"
#include "core/comm/stream.h"

namespace {

using weft::Error;
using weft::Status;
using weft::api::answer;
using weft::api::guarded;
using weft::api::refuse_null;

// Which buffers a rank must give. What it passes for another one counts for nothing.
struct Needs {
  bool send = true;
  bool recv = true;
};

Status why_not_buffers(const weft::Task& task, const void* send, const void* recv, Needs needs) {
  const bool lacks_recv = needs.recv && recv == nullptr;
  if (lacks_recv || (needs.send && send == nullptr)) {
    return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                      fmt::format("{} buffer is NULL, and count is {}",
                                  lacks_recv ? "the receive" : "the send", task.count),
                      "pass a buffer, or a count of 0");
  }
  const std::size_t element = weft::element_size(task.type);
  for (const void* buffer : {needs.send ? send : nullptr, needs.recv ? recv : nullptr}) {
    if (element != 0 && reinterpret_cast<std::uintptr_t>(buffer) % element != 0) {
      return weft::fail(
          WEFT_ERROR_INVALID_ARGUMENT,
          fmt::format("buffer {} is not aligned to its elements of {} bytes", buffer, element),
          "pass an address that is a multiple of the element's size");
    }
  }
  return {};
}

// The size of an element is a power of two.
bool buffers_fit(const weft::Task& task, const void* send, const void* recv, Needs needs) {
  if (task.count == 0) return true;
  const std::uintptr_t both = (needs.send ? reinterpret_cast<std::uintptr_t>(send) : 0) |
                              (needs.recv ? reinterpret_cast<std::uintptr_t>(recv) : 0);
  return (both & (weft::element_size(task.type) - 1)) == 0 && (send != nullptr || !needs.send) &&
         (recv != nullptr || !needs.recv);
}

Status check_buffers(const weft::Task& task, const void* send, const void* recv, Needs needs) {
  if (buffers_fit(task, send, recv, needs)) return {};
  return why_not_buffers(task, send, recv, needs);
}

// What it sends must stay until the last partner has taken it.
Status check_apart(const weft::Task& task, const void* send, const void* recv,
                   std::uint32_t ranks) {
  if (task.operation != weft::Operation::kAllToAll || task.count == 0) return {};
  const auto from = reinterpret_cast<std::uintptr_t>(send);
  const auto to = reinterpret_cast<std::uintptr_t>(recv);
  const std::uintptr_t bytes = task.bytes() * ranks;
  if (from + bytes <= to || to + bytes <= from) return {};
  return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                    fmt::format("the buffers of {} overlap, which cannot work in place",
                                weft::operation_name(task.operation)),
                    "receive into a buffer of its own");
}

// The same of buffers whose blocks differ: each for itself.
Status check_blocks(weft::Task task, const void* send, void* recv, const weft::BlockTable& blocks,
                    std::uint32_t rank) {
  std::uint64_t sent = weft::total_of(blocks.sent);
  std::uint64_t received = weft::total_of(blocks.received);
  if (weft::has_uneven_blocks(task.operation)) {
    const bool gathers = task.operation == weft::Operation::kAllGatherV;
    (gathers ? sent : received) = blocks.common[rank].count;
    (gathers ? received : sent) = weft::total_of(blocks.common);
  }
  task.count = sent;
  WEFT_TRY(check_buffers(task, send, nullptr, {.recv = false}));
  task.count = received;
  return check_buffers(task, nullptr, recv, {.send = false});
}

// Reads and checks the blocks of a call where they differ.
Status read_blocks(const weft::BlockArrays& arrays, weft::Call& call) {
  weft::Communicator& communicator = *call.communicator;
  WEFT_TRY_ASSIGN(call.blocks, communicator.known_blocks().read(arrays, communicator.rank(),
                                                                communicator.ranks(), call.task));
  return check_blocks(call.task, call.send, call.recv, *call.blocks, communicator.rank());
}

// What a call is about, but for buffers and count.
struct Kind {
  weft::Operation operation;
  weft_data_type type;
  weft_reduction reduction = WEFT_SUM;
  std::uint32_t root = 0;
};

// `arrays` of a call whose blocks differ, else null.
weft_result call(Kind kind, std::uint64_t count, const void* send, void* recv, Needs needs,
                 weft_comm* comm, weft_stream* stream, const weft::BlockArrays* arrays = nullptr) {
  if (comm == nullptr) return refuse_null(stream != nullptr ? stream->owner : nullptr, "comm");
  if (stream == nullptr) return refuse_null(comm->owner, "stream");
  weft_context* owner = comm->owner;
  return guarded(owner, [&]() -> weft_result {
    weft::Context& context = *owner->context;
    weft::Group* const group = context.open_group();
    const auto refuse = [&](const Error& error) {
      if (group != nullptr) group->note_error(error);
      return context.remember(error);
    };
    if (stream->owner != owner) {
      return refuse(Error(WEFT_ERROR_INVALID_ARGUMENT,
                          "the stream belongs to another context than the communicator",
                          "make streams with the context of the communicator"));
    }
    if (const Status free = stream->stream->check_not_held(); !free) return refuse(free.error());
    const auto ready = comm->member->for_calls();
    if (!ready) return refuse(ready.error());
    weft::Communicator* const communicator = *ready;
    // Field by field: the compiler clears an aggregate as a whole first, which takes longer.
    weft::Call noted;
    noted.communicator = communicator;
    noted.stream = stream->stream.get();
    noted.send = send;
    noted.recv = recv;
    noted.background = comm->member->background();
    weft::Task& task = noted.task;
    task.operation = kind.operation;
    task.type = kind.type;
    task.reduction = kind.reduction;
    task.root = kind.root;
    task.count = count;
    const bool planned = weft::is_planned(task.operation);
    if (planned) {
      task.options = communicator->way_options();
    } else {
      task.options.max_channels = communicator->way_options().max_channels;
    }
    if (weft::reduces(task.operation) && task.reduction > WEFT_AVG) {
      auto made = communicator->made_reductions().find(task.reduction, task.type);
      if (!made) return refuse(made.error());
      noted.factor = *made;
      task.reduction = weft::kPremulSum;
    }
    if (planned && group == nullptr && arrays == nullptr && noted.stream->capture() == nullptr) {
      noted.latest = communicator->latest_bound(task);
    }
    // What has a plan was checked.
    if (noted.latest == nullptr) {
      if (Status status = communicator->check_task(task); !status) {
        return refuse(status.error());
      }
    }
    if (Status status = check_buffers(task, send, recv, needs); !status) {
      return refuse(status.error());
    }
    if (!planned) {
      if (Status status = check_apart(task, send, recv, communicator->ranks()); !status) {
        return refuse(status.error());
      }
    }
    if (arrays != nullptr) {
      if (Status status = read_blocks(*arrays, noted); !status) return refuse(status.error());
    }
    if (group != nullptr) {
      group->add_call(std::move(noted));
      return WEFT_OK;
    }
    return answer(owner, weft::begin_calls(noted));
  });
}

bool is_rank(const weft_comm* comm, std::uint32_t rank) {
  return comm != nullptr && comm->member->rank() == rank;
}

}  // namespace

extern "C" {

weft_result weft_all_reduce(const void* send, void* recv, size_t count, weft_data_type type,
                            weft_reduction reduction, weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kAllReduce, .type = type, .reduction = reduction},
              count, send, recv, {}, comm, stream);
}

weft_result weft_broadcast(const void* send, void* recv, size_t count, weft_data_type type,
                           uint32_t root, weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kBroadcast, .type = type, .root = root}, count, send,
              recv, {.send = is_rank(comm, root)}, comm, stream);
}

weft_result weft_reduce(const void* send, void* recv, size_t count, weft_data_type type,
                        weft_reduction reduction, uint32_t root, weft_comm* comm,
                        weft_stream* stream) {
  return call(
      {.operation = weft::Operation::kReduce, .type = type, .reduction = reduction, .root = root},
      count, send, recv, {.recv = is_rank(comm, root)}, comm, stream);
}

weft_result weft_send(const void* send, size_t count, weft_data_type type, uint32_t peer,
                      weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kSend, .type = type, .root = peer}, count, send,
              nullptr, {.recv = false}, comm, stream);
}

weft_result weft_recv(void* recv, size_t count, weft_data_type type, uint32_t peer, weft_comm* comm,
                      weft_stream* stream) {
  return call({.operation = weft::Operation::kRecv, .type = type, .root = peer}, count, nullptr,
              recv, {.send = false}, comm, stream);
}

weft_result weft_all_gather(const void* send, void* recv, size_t count, weft_data_type type,
                            weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kAllGather, .type = type}, count, send, recv, {}, comm,
              stream);
}

weft_result weft_reduce_scatter(const void* send, void* recv, size_t count, weft_data_type type,
                                weft_reduction reduction, weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kReduceScatter, .type = type, .reduction = reduction},
              count, send, recv, {}, comm, stream);
}

weft_result weft_all_gather_v(const void* send, void* recv, const size_t* recv_counts,
                              const size_t* recv_offsets, weft_data_type type, weft_comm* comm,
                              weft_stream* stream) {
  const weft::BlockArrays arrays{.send_counts = nullptr,
                                 .send_offsets = nullptr,
                                 .recv_counts = recv_counts,
                                 .recv_offsets = recv_offsets};
  return call({.operation = weft::Operation::kAllGatherV, .type = type}, 0, send, recv, {}, comm,
              stream, &arrays);
}

weft_result weft_reduce_scatter_v(const void* send, const size_t* send_counts,
                                  const size_t* send_offsets, void* recv, weft_data_type type,
                                  weft_reduction reduction, weft_comm* comm, weft_stream* stream) {
  const weft::BlockArrays arrays{.send_counts = send_counts,
                                 .send_offsets = send_offsets,
                                 .recv_counts = nullptr,
                                 .recv_offsets = nullptr};
  return call({.operation = weft::Operation::kReduceScatterV, .type = type, .reduction = reduction},
              0, send, recv, {}, comm, stream, &arrays);
}

weft_result weft_all_to_all(const void* send, void* recv, size_t count, weft_data_type type,
                            weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kAllToAll, .type = type}, count, send, recv, {}, comm,
              stream);
}

weft_result weft_all_to_all_v(const void* send, const size_t* send_counts,
                              const size_t* send_offsets, void* recv, const size_t* recv_counts,
                              const size_t* recv_offsets, weft_data_type type, weft_comm* comm,
                              weft_stream* stream) {
  const weft::BlockArrays arrays{.send_counts = send_counts,
                                 .send_offsets = send_offsets,
                                 .recv_counts = recv_counts,
                                 .recv_offsets = recv_offsets};
  return call({.operation = weft::Operation::kAllToAllV, .type = type}, 0, send, recv, {}, comm,
              stream, &arrays);
}

weft_result weft_gather(const void* send, void* recv, size_t count, weft_data_type type,
                        uint32_t root, weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kGather, .type = type, .root = root}, count, send,
              recv, {.recv = is_rank(comm, root)}, comm, stream);
}

weft_result weft_scatter(const void* send, void* recv, size_t count, weft_data_type type,
                         uint32_t root, weft_comm* comm, weft_stream* stream) {
  return call({.operation = weft::Operation::kScatter, .type = type, .root = root}, count, send,
              recv, {.send = is_rank(comm, root)}, comm, stream);
}

}  // extern "C"
