// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Launches of what has no plan: sends and receives, and exchanges, by pairs of ranks or by inboxes.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/comm/communicator.h"
#include "core/comm/exchange.h"
#include "core/comm/pair_calls.h"
#include "core/comm/stream.h"
#include "core/comm/under_way.h"

namespace weft {
namespace {

// What all of them allow is what each one allows at most; 0: none names a limit.
std::uint32_t least_named(std::span<const Call* const> calls) {
  std::uint32_t least = 0;
  for (const Call* call : calls) {
    const std::uint32_t named = call->task.options.max_channels;
    if (named != 0 && (least == 0 || named < least)) least = named;
  }
  return least;
}

}  // namespace

Result<const Launch*> Communicator::prepare_pairs(std::span<const Call* const> calls,
                                                  Stream& stream) {
  WEFT_TRY(check_call(stream));
  WEFT_TRY(order_after_latest(stream));
  if (report_ != nullptr) {
    for (const Call* const call : calls)
      call->stream->watch(report_);
  }
  if (report_ == nullptr) {
    UnderWay& record = begin_record(calls.front()->task, stream, std::nullopt);
    return finish_counted(&record, [&] { return recorded_pairs(calls, stream, record); });
  }
  return finish_counted(nullptr, [&] { return reported_pairs(calls, stream); });
}

// Of a record that was begun.
const Launch* Communicator::recorded_pairs(std::span<const Call* const> calls, const Stream& stream,
                                           UnderWay& record) {
  for (const Call* const call : calls) {
    const bool is_of_graph = call->stream == nullptr;
    if (!is_of_graph && call->stream != &stream) record.others.push_back(call->stream);
  }
  if (record.pairs_repeat && are_tasks_of(calls, record.pair_tasks)) {
    repeat_transfers(calls, rank_, pair_numbers_, record.transfers, record.pair_tasks);
    record.point_launch();
    note_sent(record);
    return &record.launch;
  }
  forget_pairs(record);
  return pair_launch(record, [&](auto& transfers, auto& tasks) {
    make_transfers(calls, rank_, pair_numbers_, pair_ends_, transfers, pair_messages_, tasks);
    record.pairs_repeat = pair_messages_.empty() && can_repeat(transfers);
  });
}

// Of a device whose launches do not call back.
Result<const Launch*> Communicator::reported_pairs(std::span<const Call* const> calls,
                                                   Stream& stream) {
  if (pairs_repeat_ && are_tasks_of(calls, pair_tasks_)) {
    repeat_transfers(calls, rank_, pair_numbers_, pair_transfers_, pair_tasks_);
    return reported_pair_launch(stream, least_named(calls));
  }
  WEFT_TRY_ASSIGN(const Launch* const launch,
                  pair_launch(stream, least_named(calls), [&](auto& transfers, auto& tasks) {
                    make_transfers(calls, rank_, pair_numbers_, pair_ends_, transfers,
                                   pair_messages_, tasks);
                  }));
  pairs_repeat_ = pair_messages_.empty() && can_repeat(pair_transfers_);
  return launch;
}

void Communicator::forget_pairs(UnderWay& record) {
  record.transfers.clear();
  record.pair_tasks.clear();
  record.pairs_repeat = false;
}

Result<const Launch*> Communicator::prepare_exchange(const Call& call, Stream& stream) {
  WEFT_TRY(check_call(stream));
  if (const auto lines = inbox_protocol(call.task, inbox_exchanges_)) {
    WEFT_TRY(order_after_latest(stream));
    return inbox_launch(call, *lines, stream);
  }
  WEFT_TRY(order_after_latest(stream));
  if (report_ != nullptr) {
    const std::uint64_t sequence = history_.add(call.task);
    return finish_counted(nullptr, [&] { return reported_exchange(call, stream, sequence); });
  }
  UnderWay& record = begin_record(call.task, stream, make_operation_tag(call.task, 0));
  return finish_counted(&record, [&] {
    return pair_launch(record, [&](auto& transfers, auto& tasks) {
      make_exchange(call, rank_, ranks_, record.sequence, record.past, exchange_ends_, transfers,
                    pair_messages_, tasks);
    });
  });
}

// Of a device whose launches do not call back.
Result<const Launch*> Communicator::reported_exchange(const Call& call, Stream& stream,
                                                      std::uint64_t sequence) {
  const std::uint32_t named = call.task.options.max_channels;
  if (repeats_exchange(call)) {
    repeat_exchange(call, rank_, ranks_, sequence, 0, pair_transfers_, pair_tasks_);
    return reported_pair_launch(stream, named);
  }
  WEFT_TRY_ASSIGN(const Launch* const launch,
                  pair_launch(stream, named, [&](auto& transfers, auto& tasks) {
                    make_exchange(call, rank_, ranks_, sequence, 0, exchange_ends_, transfers,
                                  pair_messages_, tasks);
                  }));
  pairs_repeat_ = pair_messages_.empty();
  return launch;
}

// Of one that has transfers of its own, on a device whose launches do not call back.
bool Communicator::repeats_exchange(const Call& call) const {
  return pairs_repeat_ && are_transfers_of(call, rank_, pair_transfers_, pair_tasks_);
}

bool Communicator::goes_by_inboxes(const Task& task) const {
  return inbox_protocol(task, inbox_exchanges_).has_value();
}

// The one item of a call that has no plan, and goes through inboxes; counts the call.
WorkItem& Communicator::begin_inbox_item(const Task& task) {
  items_.assign(1, WorkItem{});
  WorkItem& item = items_.front();
  item.operation = task.operation;
  item.algorithm = Algorithm::kDirect;
  item.protocol = Protocol::kLL;
  item.type = task.type;
  item.ranks = ranks_;
  item.tag = make_operation_tag(task, history_.add(task));
  item.direct = connections_->direct();
  if (task.options.max_channels != 0) item.most_parts = task.options.max_channels;
  return item;
}

// The most elements of a piece that goes by wide lines.
std::uint64_t Communicator::wide_chunk(weft_data_type type) const {
  return limits_.wide_bytes / std::max<std::uint64_t>(element_size(type), 1);
}

Result<const Launch*> Communicator::inbox_launch(const Call& call, Protocol protocol,
                                                 Stream& stream) {
  const Task& task = call.task;
  WorkItem& item = begin_inbox_item(task);
  item.protocol = protocol;
  item.send = static_cast<const std::byte*>(call.send);
  item.recv = static_cast<std::byte*>(call.recv);
  item.count = task.count;
  if (protocol == Protocol::kLL128) item.chunk = wide_chunk(task.type);
  item.ring_position = (rank_ + ranks_ - (has_root(task.operation) ? task.root : 0)) % ranks_;
  return finish_counted(nullptr, [&] {
    enqueue_inbox_messages(item);
    if (connections_->busy()) connections_->leave();
    launch_by_report(stream);
    return &reported_launch_;
  });
}

// Of a call over inboxes, which are connected, that is about to be launched.
void Communicator::enqueue_inbox_messages(const WorkItem& item) {
  if (reach_ != Reach::kMessages) return;
  if (!inbox_ports_) {
    inbox_ports_.emplace(
        ranks_, rank_, inbox_links_,
        [this](const PairLink& link) -> const PairConnections& { return *pairs_->find(link); });
  }
  inbox_ports_->enqueue(item, runtime_.shape_of({&item, 1}, false).groups);
}

// Of a device whose launches do not call back. `make(transfers, tasks)` writes the transfers of the
// launch. `named`: the parts that its calls allow; 0: as many as the communicator does.
template <class Make>
Result<const Launch*> Communicator::pair_launch(Stream& stream, std::uint32_t named, Make make) {
  pairs_repeat_ = false;
  pair_messages_.clear();
  pair_transfers_.clear();
  pair_tasks_.clear();
  make(pair_transfers_, pair_tasks_);
  enqueue_pair_messages();
  return reported_pair_launch(stream, named);
}

Result<const Launch*> Communicator::reported_pair_launch(Stream& stream, std::uint32_t named) {
  auto views = pair_views_.bring(pair_transfers_, stream.device_stream());
  if (!views) {
    withdraw({}, views.error());
    return fail(std::move(views.error()));
  }
  const std::uint32_t parts = named == 0 ? pair_parts_ : std::min(named, pair_parts_);
  items_.assign(1, pair_item(pair_transfers_, ranks_, parts));
  // Kernels that run on their own drive no net.
  if (connections_->busy()) connections_->leave();
  launch_by_report(stream, items_, named);
  reported_launch_.pair_views = *views;
  return &reported_launch_;
}

// The same of others, for a record that was begun.
template <class Make>
const Launch* Communicator::pair_launch(UnderWay& record, Make make) {
  pair_messages_.clear();
  make(record.transfers, record.pair_tasks);
  // The next such call gets another record, depending on what has ended by then.
  if (record.transfers.size() > most_pairs_) {
    most_pairs_ = record.transfers.size();
    reserve(0, 1, most_pairs_);
  }
  note_sent(record);
  record.plan.reset();
  record.items.assign(1, pair_item(record.transfers, ranks_, pair_parts_));
  enqueue_pair_messages();
  record.point_launch();
  return &record.launch;
}

void Communicator::enqueue_pair_messages() {
  for (const PairMessage& message : pair_messages_)
    message.port->enqueue({&message.operation, 1});
}

// Only a suspicion: who reads may see first that the sender has ended, or that it has given up and
// taken its memory back, and others know why.
bool Communicator::read_hook(void* self, std::uint32_t peer, std::byte* to, std::uint64_t address,
                             std::uint64_t bytes) {
  auto& communicator = *static_cast<Communicator*>(self);
  try {
    auto read = communicator.pairs_->read_memory(peer, {to, bytes}, address);
    if (read) return true;
    communicator.failure_->suspect(std::move(read.error().with_context(
        fmt::format("rank {} receives from rank {} by single copy", communicator.rank_, peer))));
  } catch (const std::bad_alloc&) {
    communicator.failure_->suspect(no_memory());
  }
  return false;
}

void Communicator::note_sent(const UnderWay& record) {
  for (std::size_t i = 0; i < record.transfers.size(); ++i) {
    const PairTransfer& transfer = record.transfers[i];
    if (transfer.from == nullptr || transfer.to != nullptr) continue;
    const PairTask& task = record.pair_tasks[i];
    sent_.add(transfer.view.peer,
              {.sequence = task.number, .tag = transfer.tag, .count = task.count});
  }
}

}  // namespace weft
