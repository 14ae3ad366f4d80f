// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/make_call.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::gpu_test {
namespace {

/// What a v-variant is told of a side.
struct Table {
  Table(const Side& side, const Type& type) {
    for (const Block& block : side.blocks) {
      counts.push_back(block.bytes / type.bytes);
      offsets.push_back(block.at / type.bytes);
    }
  }
  std::vector<std::size_t> counts, offsets;
};

void call_tables(const Call& call, const Buffers& buffers, const Arguments& arguments,
                 Member& member, weft_stream* stream) {
  Table sent(buffers.send, call.type);
  Table received(buffers.recv, call.type);
  const weft_data_type type = call.type.weft;
  const auto called = [&] {
    switch (call.operation) {
      case Operation::kAllGatherV:
        return weft_all_gather_v(arguments.send, arguments.recv, received.counts.data(),
                                 received.offsets.data(), type, member.comm, stream);
      case Operation::kReduceScatterV:
        return weft_reduce_scatter_v(arguments.send, sent.counts.data(), sent.offsets.data(),
                                     arguments.recv, type, arguments.reduction, member.comm,
                                     stream);
      default:
        return weft_all_to_all_v(arguments.send, sent.counts.data(), sent.offsets.data(),
                                 arguments.recv, received.counts.data(), received.offsets.data(),
                                 type, member.comm, stream);
    }
  };
  check(called(), text_of(call));
  // They are read by the call, and may change afterwards.
  for (std::vector<std::size_t>* table :
       {&sent.counts, &sent.offsets, &received.counts, &received.offsets})
    std::ranges::fill(*table, SIZE_MAX);
}

void exchange(const Call& call, const Buffers& buffers, const Arguments& arguments, Member& member,
              weft_stream* stream) {
  struct Step {
    bool sends;
    const Message* message;
    std::size_t at;
  };
  std::vector<Step> steps;
  std::size_t sent = 0, received = 0;
  for (const Message& message : call.messages) {
    if (message.from == member.rank) {
      steps.push_back({true, &message, buffers.send.blocks[sent++].at});
    }
    if (message.to == member.rank) {
      steps.push_back({false, &message, buffers.recv.blocks[received++].at});
    }
  }
  if (call.grouped && call.order != 0) {
    // Any order that keeps that of the messages between two ranks in each direction: by a number
    // for each, the numbers of one direction being sorted.
    std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> lines;
    const auto line_of = [](const Step& step) {
      return std::tuple(step.sends, step.message->from, step.message->to);
    };
    for (std::size_t i = 0; i < steps.size(); ++i)
      lines[line_of(steps[i])].push_back(draw(call.order + member.rank, i));
    for (auto& [line, numbers] : lines)
      std::ranges::sort(numbers, std::ranges::greater{});
    std::vector<std::pair<std::uint64_t, Step>> numbered;
    for (const Step& step : steps) {
      std::vector<std::uint64_t>& numbers = lines[line_of(step)];
      numbered.emplace_back(numbers.back(), step);
      numbers.pop_back();
    }
    std::ranges::sort(numbered, {}, [](const auto& entry) { return entry.first; });
    std::ranges::transform(numbered, steps.begin(), [](const auto& entry) { return entry.second; });
  }
  if (call.grouped) check(weft_group_start(context()), "weft_group_start");
  weft_result result = WEFT_OK;
  std::string failure;
  for (const auto& [sends, message, at] : steps) {
    const weft_result called =
        sends ? weft_send(arguments.send + at, message->count, message->type.weft, message->to,
                          member.comm, stream)
              : weft_recv(arguments.recv + at, message->count, message->type.weft, message->from,
                          member.comm, stream);
    if (result != WEFT_OK || called == WEFT_OK) continue;
    result = called;
    failure = last_error();
  }
  const weft_result ended = call.grouped ? weft_group_end(context()) : WEFT_OK;
  if (result == WEFT_OK) check(ended, text_of(call));
  const std::string text = text_of(call) + ": " + weft_result_name(result) + ": " + failure;
  if (result == WEFT_ERROR_UNSUPPORTED) throw Unsupported(result, text);
  if (result != WEFT_OK) throw Problem(result, text);
}

}  // namespace

std::string text_of(const Call& call) {
  std::ostringstream text;
  text << call;
  return text.str();
}

void make_call(const Call& call, const Buffers& buffers, const Arguments& arguments, Member& member,
               weft_stream* stream) {
  if (stream == nullptr) stream = member.stream;
  if (call.operation == Operation::kExchange) {
    return exchange(call, buffers, arguments, member, stream);
  }
  if (has_tables(call.operation)) return call_tables(call, buffers, arguments, member, stream);
  const auto& [send, recv, reduction] = arguments;
  const auto called = [&] {
    const std::size_t count = call.count;
    const weft_data_type type = call.type.weft;
    const std::uint32_t root = call.root;
    weft_comm* comm = member.comm;
    switch (call.operation) {
      case Operation::kBroadcast:
        return weft_broadcast(send, recv, count, type, root, comm, stream);
      case Operation::kReduce:
        return weft_reduce(send, recv, count, type, reduction, root, comm, stream);
      case Operation::kAllGather:
        return weft_all_gather(send, recv, count, type, comm, stream);
      case Operation::kReduceScatter:
        return weft_reduce_scatter(send, recv, count, type, reduction, comm, stream);
      case Operation::kAllToAll:
        return weft_all_to_all(send, recv, count, type, comm, stream);
      case Operation::kGather:
        return weft_gather(send, recv, count, type, root, comm, stream);
      case Operation::kScatter:
        return weft_scatter(send, recv, count, type, root, comm, stream);
      default:
        return weft_all_reduce(send, recv, count, type, reduction, comm, stream);
    }
  };
  check(called(), text_of(call));
}

}  // namespace weft::gpu_test
