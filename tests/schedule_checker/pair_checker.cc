// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/pair_checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "core/comm/exchange.h"
#include "core/comm/pair_calls.h"
#include "core/comm/start.h"

namespace weft::checker {
namespace {

std::vector<std::uint32_t> numbers_up_to(std::uint32_t ranks) {
  std::vector<std::uint32_t> numbers(ranks);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class PairExecutor {
 public:
  PairExecutor(Stacks& stacks, const PairExecution& execution)
      : execution_(execution),
        ranks_(execution.ranks),
        expressions_(numbers_up_to(execution.ranks)),
        fibers_(stacks, execution.turns, execution.seed),
        buffers_(verdict_.report),
        connections_(verdict_.report, execution.steps, execution.step_bytes),
        world_{.report = verdict_.report,
               .fibers = fibers_,
               .expressions = expressions_,
               .buffers = buffers_,
               .connections = &connections_,
               .ranks = execution.ranks,
               .under_way = std::vector<std::optional<std::uint32_t>>(execution.ranks)} {}

  Verdict run() {
    for (const auto& round : execution_.rounds)
      std::visit([this](const auto& calls) { add(calls); }, round);
    add_connections();
    buffers_.allocate();
    fill_what_is_sent();
    fibers_.run(
        ranks_, [this](std::size_t rank) { run_rounds(static_cast<std::uint32_t>(rank)); },
        [this](const std::vector<Wait>& waits) { report_deadlock(waits); });
    if (verdict_.report.empty()) check_received();
    if (verdict_.report.empty()) check_nothing_else_written();
    if (verdict_.report.empty()) check_traffic();
    return std::move(verdict_);
  }

 private:
  /// Elements of a buffer that are sent, or received.
  struct Part {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint32_t first_element = 0;  // of what is sent
  };
  /// A rank's call of a round, or one of several.
  struct BoundCall {
    Task task;
    std::optional<std::size_t> send{};
    std::optional<std::size_t> recv{};
    std::shared_ptr<const BlockTable> blocks = nullptr;
  };
  using Pair = std::pair<std::uint32_t, std::uint32_t>;

  /// Of what is added next.
  [[nodiscard]] std::uint32_t round() const {
    return static_cast<std::uint32_t>(calls_.size() / ranks_);
  }

  void add(const PairGroups& groups) {
    const std::uint32_t number = round();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      std::vector<BoundCall>& calls = calls_.emplace_back();
      for (const PairCall& call : groups.at(rank)) {
        const std::size_t buffer = buffers_.add({.rank = rank,
                                                 .elements = call.count,
                                                 .output_end = call.sends ? 0 : call.count,
                                                 .once = true,
                                                 .call = number});
        BoundCall& bound = calls.emplace_back();
        bound.task = {.operation = call.sends ? Operation::kSend : Operation::kRecv,
                      .type = WEFT_UINT64,
                      .root = call.partner,
                      .count = call.count};
        (call.sends ? bound.send : bound.recv) = buffer;
        const Part part{.buffer = buffer, .count = call.count};
        if (call.sends) {
          sent_[{rank, call.partner}].push_back(part);
        } else {
          received_[{call.partner, rank}].push_back(part);
        }
      }
    }
  }

  void add(const ExchangeCall& call) {
    const std::uint32_t number = round();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      Call seen{.task = {.operation = call.operation,
                         .type = WEFT_UINT64,
                         .root = has_root(call.operation) ? call.root : 0,
                         .count = call.count}};
      if (call.operation == Operation::kAllToAllV) seen.blocks = table_of(call, rank);
      const auto end_of = [&](auto block_of) {
        std::uint64_t end = 0;
        for (std::uint32_t other = 0; other < ranks_; ++other) {
          const Block block = block_of(seen, rank, other);
          if (block.count != 0) end = std::max(end, block.offset + block.count);
        }
        return end;
      };
      const std::uint64_t sent = end_of(block_sent);
      const std::uint64_t received = end_of(block_received);
      BoundCall bound{.task = seen.task, .blocks = seen.blocks};
      if (call.in_place && rank == call.root) {
        // One buffer, of which a gather writes what others send, and a scatter nothing.
        bound.send = bound.recv =
            buffers_.add({.rank = rank,
                          .elements = std::max(sent, received),
                          .output_end = call.operation == Operation::kGather ? received : 0,
                          .once = true,
                          .call = number});
        own_offset_[*bound.send] = rank * call.count;
      } else {
        bound.send = buffers_.add({.rank = rank, .elements = sent, .call = number});
        bound.recv = buffers_.add({.rank = rank,
                                   .elements = received,
                                   .output_end = received,
                                   .once = true,
                                   .call = number});
      }
      for (std::uint32_t other = 0; other < ranks_; ++other) {
        const Block out = block_sent(seen, rank, other);
        const Block in = block_received(seen, rank, other);
        if (out.count != 0) {
          sent_[{rank, other}].push_back(
              part_of(bound, *bound.send, out, call.operation == Operation::kGather));
        }
        if (in.count != 0) {
          received_[{other, rank}].push_back(
              part_of(bound, *bound.recv, in, call.operation == Operation::kScatter));
        }
      }
      calls_.emplace_back().push_back(std::move(bound));
    }
  }

  /// `own`: in place it is the rank's own block, which is no buffer by itself.
  [[nodiscard]] Part part_of(const BoundCall& bound, std::size_t buffer, const Block& block,
                             bool own) const {
    const std::uint64_t begin = own && bound.send == bound.recv ? own_offset_.at(buffer) : 0;
    return {.buffer = buffer, .offset = begin + block.offset, .count = block.count};
  }

  /// Blocks in the order of ranks, with an element between them that is nobody's.
  [[nodiscard]] std::shared_ptr<const BlockTable> table_of(const ExchangeCall& call,
                                                           std::uint32_t rank) const {
    auto table = std::make_shared<BlockTable>();
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      const std::uint64_t sent = call.counts.at(std::size_t{rank} * ranks_ + other);
      const std::uint64_t received = call.counts.at(std::size_t{other} * ranks_ + rank);
      table->sent.push_back({.offset = to, .count = sent});
      table->received.push_back({.offset = from, .count = received});
      to += sent + 1;
      from += received + 1;
    }
    return table;
  }

  /// Between any two that have something for each other, or expect it.
  void add_connections() {
    struct Numbers {
      Pair pair;
      std::size_t steps = 0;
      std::size_t lines = 0;
    };
    std::vector<Numbers> numbers;
    const bool lines = execution_.line_bytes != 0;
    places_.assign(std::size_t{ranks_} * ranks_, 0);
    const auto add = [&](const Pair& pair) {
      std::uint32_t& place = places_[std::size_t{pair.first} * ranks_ + pair.second];
      if (pair.first == pair.second || place != 0) return;
      Numbers made{.pair = pair, .steps = connections_.add(pair.first, pair.second, 0)};
      if (lines) made.lines = connections_.add(pair.first, pair.second, 0, Arrival::kLinesAlone);
      numbers.push_back(made);
      place = static_cast<std::uint32_t>(numbers.size());
    };
    for (const auto* parts : {&sent_, &received_}) {
      for (const auto& [pair, unused] : *parts) {
        add(pair);
        add({pair.second, pair.first});
      }
    }
    connections_.allocate();
    ends_.resize(numbers.size());
    if (lines) line_ends_.resize(numbers.size());
    for (const Numbers& number : numbers) {
      const auto [from, to] = number.pair;
      PairConnections& there = end(ends_, from, to);
      PairConnections& back = end(ends_, to, from);
      there.to.view = connections_.sender(number.steps);
      back.from.view = connections_.receiver(number.steps);
      if (lends()) there.to.peer_memory = back.from.peer_memory = read_by_others();
      if (!lines) continue;
      end(line_ends_, from, to).to.view = connections_.sender(number.lines);
      end(line_ends_, to, from).from.view = connections_.receiver(number.lines);
    }
  }

  /// Of rank `rank`, towards `partner`.
  [[nodiscard]] PairConnections& end(std::vector<PairConnections>& ends, std::uint32_t rank,
                                     std::uint32_t partner) const {
    return ends.at(places_[std::size_t{rank} * ranks_ + partner] - 1);
  }

  [[nodiscard]] bool lends() const { return execution_.least_lent_bytes != UINT64_MAX; }
  /// That there is a plugin which does it; nothing here calls it.
  [[nodiscard]] PeerMemory read_by_others() const {
    return {.plugin = reinterpret_cast<const TransportPlugin*>(this)};
  }

  void fill_what_is_sent() {
    std::uint64_t element = 0;
    for (auto& [pair, parts] : sent_) {
      for (Part& part : parts) {
        if (element + part.count > kMostElements) {
          throw std::length_error("more elements than have numbers");
        }
        part.first_element = static_cast<std::uint32_t>(element);
        for (std::uint64_t k = 0; k < part.count; ++k, ++element) {
          buffers_.data(part.buffer)[part.offset + k] =
              make_value(expressions_.leaf(pair.first), static_cast<std::uint32_t>(element));
        }
      }
    }
  }

  [[nodiscard]] Call call_of(const BoundCall& bound, std::uint32_t rank) {
    Call call{.task = bound.task, .blocks = bound.blocks};
    if (bound.send) call.send = buffers_.data(*bound.send);
    if (bound.recv) call.recv = buffers_.data(*bound.recv);
    if (bound.send != bound.recv || rank != bound.task.root) return call;
    const std::uint64_t own = own_offset_.at(*bound.send);
    if (bound.task.operation == Operation::kGather) call.send = buffers_.data(*bound.send) + own;
    if (bound.task.operation == Operation::kScatter) call.recv = buffers_.data(*bound.recv) + own;
    return call;
  }

  void run_rounds(std::uint32_t rank) {
    PairNumbers numbers;
    const PairEnds ends{
        .towards = [&](std::uint32_t partner, std::uint32_t channel) -> const PairConnections& {
          return end(channel == kPairLineChannel - kPairChannel ? line_ends_ : ends_, rank,
                     partner);
        },
        .spread = {.line_bytes = execution_.line_bytes,
                   .least_lent_bytes = execution_.least_lent_bytes}};
    for (std::uint32_t round = 0; round < execution_.rounds.size(); ++round) {
      std::deque<Call> made;
      std::vector<const Call*> calls;
      for (const BoundCall& bound : calls_[std::size_t{round} * ranks_ + rank])
        calls.push_back(&made.emplace_back(call_of(bound, rank)));
      std::vector<PairTransfer> transfers;
      std::vector<PairMessage> messages;
      std::vector<PairTask> tasks;
      if (std::holds_alternative<PairGroups>(execution_.rounds[round])) {
        make_transfers(calls, rank, numbers, ends, transfers, messages, tasks);
      } else {
        make_exchange(*calls.front(), rank, ranks_, round + 1, 0, ends, transfers, messages, tasks);
      }
      if (!run_kernel_of(rank, round, transfers)) return;
    }
  }

  /// False: nothing goes on any more.
  bool run_kernel_of(std::uint32_t rank, std::uint32_t round,
                     std::vector<PairTransfer>& transfers) {
    const Actor actor{.rank = rank, .channel = 0, .call = round};
    device::SingleLane group;
    SymbolicMemory memory(world_, actor);
    const SymbolicReduction reduction(memory, false, false);
    const WorkItem item = pair_item(transfers, ranks_, 1);
    world_.under_way[rank] = round;
    const KernelOutcome outcome = execution_.kernel({.group = group,
                                                     .memory = memory,
                                                     .item = item,
                                                     .reduction = reduction,
                                                     .rank = rank,
                                                     .part = 0,
                                                     .parts = 1});
    world_.under_way[rank] = std::nullopt;
    if (fibers_.stopped()) return false;
    if (outcome.end == KernelEnd::kDone) return true;
    verdict_.report.add(
        Rule::kKernel,
        fmt::format("{}: the kernel ends with {}, expected {}, found {}", actor.name(),
                    static_cast<std::uint32_t>(outcome.end), outcome.expected, outcome.found));
    fibers_.stop();
    return false;
  }

  void report_deadlock(const std::vector<Wait>& waits) {
    std::string text = "nobody can go on:";
    for (const Wait& wait : waits) {
      text += fmt::format("\n  rank {} waits", wait.fiber);
      text += wait.counter == nullptr ? std::string(" for what it looks at")
                                      : fmt::format(" for {} of {}", wait.threshold,
                                                    connections_.describe(wait.counter));
    }
    verdict_.report.add(Rule::kDeadlock, std::move(text));
  }

  void check_received() {
    for (const auto& [pair, parts] : received_) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Part& part = parts[i];
        const Part& source = sent_.at(pair).at(i);
        for (std::uint64_t k = 0; k < part.count; ++k) {
          const Value value = buffers_.data(part.buffer)[part.offset + k];
          if (is_due(pair, value, static_cast<std::uint32_t>(source.first_element + k))) continue;
          return;
        }
      }
    }
  }

  /// Reports what is not: every element passes one connection, or none within its rank.
  [[nodiscard]] bool is_due(const Pair& pair, Value value, std::uint32_t element) {
    const std::uint32_t hops = pair.first == pair.second ? 0 : 1;
    if (value == make_value(expressions_.leaf(pair.first), element, hops)) return true;
    Rule rule = Rule::kWrongElement;
    if (expression_of(value) == kNothing) rule = Rule::kNotWritten;
    if (value == make_value(expressions_.leaf(pair.first), element, hops_of(value))) {
      rule = Rule::kBound;
    }
    verdict_.report.add(
        rule, fmt::format("element {} of what {} sent to {} is element {}, after {} hops", element,
                          pair.first, pair.second, element_of(value), hops_of(value)));
    return false;
  }

  /// What lies between blocks is nobody's.
  void check_nothing_else_written() {
    std::map<std::size_t, std::uint64_t> due;
    for (const auto& [pair, parts] : received_)
      for (const Part& part : parts)
        due[part.buffer] += part.count;
    for (const auto& [number, count] : due) {
      const Buffer& buffer = buffers_.at(number);
      const Value* const first = buffers_.data(number);
      const auto unwritten =
          std::count(first, first + buffer.elements, make_nothing(Nothing::kUnwritten));
      if (own_offset_.contains(number) ||
          buffer.elements == count + static_cast<std::uint64_t>(unwritten)) {
        continue;
      }
      verdict_.report.add(Rule::kOutside,
                          fmt::format("rank {} has written to {} elements, {} of them due",
                                      buffer.rank, buffer.elements - unwritten, count));
      return;
    }
  }

  struct Traffic {
    std::uint64_t steps = 0;
    std::uint64_t bytes = 0;
    void add(std::uint64_t more_steps, std::uint64_t more_bytes) {
      steps += more_steps;
      bytes += more_bytes;
    }
  };

  void check_traffic() {
    std::map<Pair, Traffic> by_steps;
    std::map<Pair, Traffic> by_lines;
    for (const auto& [pair, parts] : sent_) {
      if (pair.first == pair.second) continue;
      for (const Part& part : parts) {
        const std::uint64_t bytes = part.count * sizeof(Value);
        if (bytes == 0) continue;
        const bool small = bytes <= execution_.line_bytes;
        if (execution_.line_bytes != 0) by_lines[pair].add(1, small ? bytes : 0);
        if (small) continue;
        if (bytes >= execution_.least_lent_bytes) {  // a step holds an address
          const std::uint64_t steps = (bytes + kLentStepBytes - 1) / kLentStepBytes;
          by_steps[pair].add(steps, steps * sizeof(std::uint64_t));
          continue;
        }
        by_steps[pair].add((bytes + execution_.step_bytes - 1) / execution_.step_bytes, bytes);
      }
    }
    for (const Connection& connection : connections_.all()) {
      const bool lines = connection.has_lines();
      const Traffic due = (lines ? by_lines : by_steps)[{connection.from, connection.to}];
      // Slots of lines are given back by halves of a connection.
      const std::uint64_t half = execution_.steps / 2;
      const std::uint64_t returned = lines && half > 1 ? due.steps / half * half : due.steps;
      verdict_.measures.bytes += connection.bytes;
      if (connection.filled() == due.steps && connection.receiver.step == due.steps &&
          connection.head == returned && connection.bytes == due.bytes) {
        continue;
      }
      verdict_.report.add(
          Rule::kTraffic,
          fmt::format("{} -> {}{}: {} steps, {} of them taken, {} given back, {} bytes instead of "
                      "{} steps and {} bytes",
                      connection.from, connection.to, lines ? " by lines" : "", connection.filled(),
                      connection.receiver.step, connection.head, connection.bytes, due.steps,
                      due.bytes));
      return;
    }
  }

  const PairExecution& execution_;
  const std::uint32_t ranks_;
  Verdict verdict_;
  Expressions expressions_;
  Fibers fibers_;
  Buffers buffers_;
  Connections connections_;
  World world_;
  std::vector<std::uint32_t> places_;                // of a rank's ends towards another, from 1 on
  std::vector<PairConnections> ends_;                // by place
  std::vector<PairConnections> line_ends_;           // the same for lines
  std::vector<std::vector<BoundCall>> calls_;        // by round, then by rank
  std::map<std::size_t, std::uint64_t> own_offset_;  // of buffers that are used in place
  std::map<Pair, std::vector<Part>> sent_;           // from, to; in the order of calls
  std::map<Pair, std::vector<Part>> received_;
};

}  // namespace

Verdict execute_pairs(Stacks& stacks, const PairExecution& execution) {
  return PairExecutor(stacks, execution).run();
}

}  // namespace weft::checker
