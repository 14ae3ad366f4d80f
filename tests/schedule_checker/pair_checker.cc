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
#include <unordered_map>
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
               .under_way = std::vector<std::optional<std::uint32_t>>(execution.ranks)},
        sent_(execution.ranks),
        received_(execution.ranks) {}

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
  /// Elements of a buffer that are sent to, or received from, another rank. Of most ranks there are
  /// as many as the square of those: small.
  struct Part {
    std::uint32_t partner = 0;
    std::uint32_t buffer = 0;
    std::uint32_t offset = 0;
    std::uint32_t count = 0;
    std::uint32_t first_element = 0;  // of what is sent
  };
  using Parts = std::vector<Part>;
  /// A rank's call of a round, or one of several.
  struct BoundCall {
    Task task;
    std::optional<std::size_t> send{};
    std::optional<std::size_t> recv{};
  };

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
        (call.sends ? sent_ : received_)[rank].push_back(
            {.partner = call.partner, .buffer = narrow(buffer), .count = narrow(call.count)});
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
      seen.blocks = table_of(call, rank);
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
      BoundCall bound{.task = seen.task};
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
          sent_[rank].push_back(
              part_of(bound, other, *bound.send, out, call.operation == Operation::kGather));
        }
        if (in.count != 0) {
          received_[rank].push_back(
              part_of(bound, other, *bound.recv, in, call.operation == Operation::kScatter));
        }
      }
      calls_.emplace_back().push_back(std::move(bound));
    }
  }

  /// `own`: in place it is the rank's own block, which is no buffer by itself.
  [[nodiscard]] Part part_of(const BoundCall& bound, std::uint32_t partner, std::size_t buffer,
                             const Block& block, bool own) const {
    const std::uint64_t begin = own && bound.send == bound.recv ? own_offset_.at(buffer) : 0;
    return {.partner = partner,
            .buffer = narrow(buffer),
            .offset = narrow(begin + block.offset),
            .count = narrow(block.count)};
  }

  [[nodiscard]] static std::uint32_t narrow(std::uint64_t number) {
    if (number > UINT32_MAX) throw std::length_error("more elements than a part counts");
    return static_cast<std::uint32_t>(number);
  }

  /// Blocks in the order of ranks, with an element between them that is nobody's; null: of calls
  /// whose blocks are alike. Made anew where it is needed: those of all ranks take as much as the
  /// square of the ranks.
  [[nodiscard]] std::shared_ptr<const BlockTable> table_of(const ExchangeCall& call,
                                                           std::uint32_t rank) const {
    if (call.operation != Operation::kAllToAllV) return nullptr;
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
    places_.assign(std::size_t{ranks_} * ranks_, 0);
    std::uint32_t pairs = 0;
    const auto add = [&](std::uint32_t from, std::uint32_t to) {
      std::uint32_t& place = place_of(from, to);
      if (from != to && place == 0) place = ++pairs;
    };
    for (const auto* parts : {&sent_, &received_}) {
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        for (const Part& part : (*parts)[rank]) {
          add(rank, part.partner);
          add(part.partner, rank);
        }
      }
    }
    has_steps_ = has_steps();
    pairs_ = pairs;
    for (const Arrival arrival : {Arrival::kTail, Arrival::kLinesAlone}) {
      if (arrival == Arrival::kLinesAlone) first_line_ = connections_.all().size();
      if (arrival == Arrival::kLinesAlone ? !lines() : !has_steps_) continue;
      const std::uint32_t channels =
          arrival == Arrival::kLinesAlone ? execution_.line_channels : execution_.channels;
      connections_.reserve(connections_.all().size() + std::size_t{pairs} * channels);
      // By places, which are in no order of ranks.
      const std::size_t first = connections_.all().size();
      for (std::size_t i = 0; i < std::size_t{pairs} * channels; ++i)
        connections_.add(0, 0, 0, arrival);
      for (std::uint32_t from = 0; from < ranks_; ++from) {
        for (std::uint32_t to = 0; to < ranks_; ++to) {
          const std::uint32_t place = place_of(from, to);
          if (place == 0) continue;
          for (std::uint32_t channel = 0; channel < channels; ++channel) {
            Connection& connection =
                connections_.at(first + std::size_t{channel} * pairs + place - 1);
            connection.from = from;
            connection.to = to;
          }
        }
      }
    }
    connections_.allocate();
  }

  [[nodiscard]] bool lines() const { return execution_.line_bytes != 0; }
  /// Whether a message is too long for lines.
  [[nodiscard]] bool has_steps() const {
    if (!lines()) return true;
    const auto goes_by_steps = [&](const Part& part) {
      return part.count * sizeof(Value) > execution_.line_bytes * execution_.line_channels;
    };
    return std::ranges::any_of(
               sent_,
               [&](const Parts& parts) { return std::ranges::any_of(parts, goes_by_steps); }) ||
           std::ranges::any_of(received_, [&](const Parts& parts) {
             return std::ranges::any_of(parts, goes_by_steps);
           });
  }
  [[nodiscard]] std::uint32_t& place_of(std::uint32_t from, std::uint32_t to) {
    return places_[std::size_t{from} * ranks_ + to];
  }

  /// Of rank `rank`, towards `partner`. Made when it is asked for: both ends of all pairs take more
  /// than all else.
  [[nodiscard]] PairConnections ends_of(std::uint32_t rank, std::uint32_t partner,
                                        std::uint32_t channel) {
    const bool by_lines = is_of_pair_lines(kPairChannel + channel);
    if (!by_lines && !has_steps_) throw std::logic_error("a message by lines has steps");
    PairConnections ends;
    ends.to.view = connections_.sender(number_of(rank, partner, channel));
    ends.from.view = connections_.receiver(number_of(partner, rank, channel));
    if (lends() && !by_lines) ends.to.peer_memory = ends.from.peer_memory = read_by_others();
    return ends;
  }

  /// Of a connection, by its channel as PairEnds::towards counts them.
  [[nodiscard]] std::size_t number_of(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    constexpr std::uint32_t kLines = kPairLineChannel - kPairChannel;
    const bool by_lines = channel >= kLines;
    const std::uint32_t among = by_lines ? channel - kLines : channel;
    if (among >= (by_lines ? execution_.line_channels : execution_.channels)) {
      throw std::logic_error("a channel that there is none of");
    }
    return (by_lines ? first_line_ : 0) + std::size_t{among} * pairs_ + place_of(from, to) - 1;
  }

  [[nodiscard]] PairSpread spread() const {
    return {.channels = execution_.channels,
            .least_bytes = 1,
            .few_channels = execution_.channels,
            .line_bytes = execution_.line_bytes,
            .least_line_bytes = 1,
            .line_channels = execution_.line_channels,
            .least_lent_bytes = execution_.least_lent_bytes};
  }

  [[nodiscard]] bool lends() const { return execution_.least_lent_bytes != UINT64_MAX; }
  /// That there is a plugin which does it; nothing here calls it.
  [[nodiscard]] PeerMemory read_by_others() const {
    return {.plugin = reinterpret_cast<const TransportPlugin*>(this)};
  }

  /// Elements have numbers by sender, which is known by its leaf.
  void fill_what_is_sent() {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      std::uint64_t element = 0;
      for (Part& part : sent_[rank]) {
        if (element + part.count > kMostElements) {
          throw std::length_error("more elements than have numbers");
        }
        part.first_element = static_cast<std::uint32_t>(element);
        for (std::uint32_t k = 0; k < part.count; ++k, ++element) {
          buffers_.data(part.buffer)[std::size_t{part.offset} + k] =
              make_value(expressions_.leaf(rank), static_cast<std::uint32_t>(element));
        }
      }
    }
  }

  [[nodiscard]] Call call_of(const BoundCall& bound, std::uint32_t rank) {
    Call call{.task = bound.task};
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
    for (std::uint32_t round = 0; round < execution_.rounds.size(); ++round) {
      std::vector<PairTransfer> transfers = transfers_of(rank, round, numbers);
      if (!run_kernel_of(rank, round, transfers)) return;
    }
  }

  /// What else is made of calls is freed before others get their turn: all ranks are in a call at
  /// once.
  [[nodiscard]] std::vector<PairTransfer> transfers_of(std::uint32_t rank, std::uint32_t round,
                                                       PairNumbers& numbers) {
    PairConnections asked_for;
    const PairEnds ends{
        .towards = [&](std::uint32_t partner, std::uint32_t channel) -> const PairConnections& {
          return asked_for = ends_of(rank, partner, channel);
        },
        .spread = spread()};
    const std::vector<BoundCall>& bound = calls_[std::size_t{round} * ranks_ + rank];
    std::vector<PairTransfer> transfers;
    std::vector<PairMessage> messages;
    std::vector<PairTask> tasks;
    if (const auto* const exchange = std::get_if<ExchangeCall>(&execution_.rounds[round])) {
      Call call = call_of(bound.front(), rank);
      call.blocks = table_of(*exchange, rank);
      make_exchange(call, rank, ranks_, round + 1, 0, ends, transfers, messages, tasks);
    } else {
      std::deque<Call> made;
      std::vector<const Call*> calls;
      for (const BoundCall& call : bound)
        calls.push_back(&made.emplace_back(call_of(call, rank)));
      make_transfers(calls, rank, numbers, ends, transfers, messages, tasks);
    }
    transfers.shrink_to_fit();
    return transfers;
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

  /// Parts by partner, those of one in the order of calls.
  static void sort_by_partner(std::vector<Parts>& of_ranks) {
    for (Parts& parts : of_ranks) {
      if (!std::ranges::is_sorted(parts, {}, &Part::partner)) {
        std::ranges::stable_sort(parts, {}, &Part::partner);
      }
    }
  }

  void check_received() {
    sort_by_partner(sent_);
    sort_by_partner(received_);
    std::vector<std::size_t> next(ranks_);  // by sender, of what it sent
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      for (const Part& part : received_[to]) {
        const std::uint32_t from = part.partner;
        while (sent_[from].at(next[from]).partner < to)
          ++next[from];
        const Part& source = sent_[from][next[from]++];
        if (source.partner != to) throw std::logic_error("more was received than sent");
        for (std::uint32_t k = 0; k < part.count; ++k) {
          const Value value = buffers_.data(part.buffer)[std::size_t{part.offset} + k];
          if (!is_due(from, to, value, source.first_element + k)) return;
        }
      }
    }
  }

  /// Reports what is not: every element passes one connection, or none within its rank.
  [[nodiscard]] bool is_due(std::uint32_t from, std::uint32_t to, Value value,
                            std::uint32_t element) {
    const Expression leaf = expressions_.leaf(from);
    if (value == make_value(leaf, element, from == to ? 0 : 1)) return true;
    Rule rule = Rule::kWrongElement;
    if (expression_of(value) == kNothing) rule = Rule::kNotWritten;
    if (value == make_value(leaf, element, hops_of(value))) rule = Rule::kBound;
    verdict_.report.add(
        rule, fmt::format("element {} of what {} sent to {} is element {}, after {} hops", element,
                          from, to, element_of(value), hops_of(value)));
    return false;
  }

  /// What lies between blocks is nobody's.
  void check_nothing_else_written() {
    std::unordered_map<std::size_t, std::uint64_t> due;
    for (const Parts& parts : received_)
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
    std::vector<Traffic> by_connection(connections_.all().size());
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const Part& part : sent_[rank]) {
        const std::uint64_t bytes = part.count * sizeof(Value);
        if (bytes == 0 || part.partner == rank) continue;
        const PairCut cut = cut_message(bytes, spread());
        std::uint64_t left = bytes;
        for_each_channel(cut, [&](std::uint32_t channel) {
          Traffic& traffic = by_connection[number_of(rank, part.partner, channel)];
          const bool by_lines = is_of_pair_lines(kPairChannel + channel);
          if (by_lines && !cut.goes_by_lines()) return traffic.add(1, 0);
          const std::uint64_t here = std::min(left, cut.part_bytes);
          left -= here;
          if (by_lines) return traffic.add(1, here);
          if (here < execution_.least_lent_bytes) {
            return traffic.add((here + execution_.step_bytes - 1) / execution_.step_bytes, here);
          }
          const std::uint64_t steps = (here + kLentStepBytes - 1) / kLentStepBytes;
          traffic.add(steps, steps * sizeof(std::uint64_t));  // a step holds an address
        });
        if (left != 0) throw std::logic_error("a message is not cut whole");
      }
    }
    for (std::size_t number = 0; number < by_connection.size(); ++number) {
      const Connection& connection = connections_.at(number);
      const bool lines = connection.has_lines();
      const Traffic& due = by_connection[number];
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
  std::vector<std::uint32_t> places_;          // of connections by ranks, from, to, from 1 on
  bool has_steps_ = true;                      // connections that are not of lines
  std::uint32_t pairs_ = 0;                    // of ranks, each way, that have connections
  std::size_t first_line_ = 0;                 // the connection of lines that has the first place
  std::vector<std::vector<BoundCall>> calls_;  // by round, then by rank
  std::map<std::size_t, std::uint64_t> own_offset_;  // of buffers that are used in place
  std::vector<Parts> sent_;                          // by rank, in the order of calls
  std::vector<Parts> received_;                      // likewise
};

}  // namespace

Verdict execute_pairs(Stacks& stacks, const PairExecution& execution) {
  return PairExecutor(stacks, execution).run();
}

}  // namespace weft::checker
