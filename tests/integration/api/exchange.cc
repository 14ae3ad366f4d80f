// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/exchange.h"

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "tests/integration/api/numbers.h"

namespace weft::test {
namespace {

constexpr std::byte kUnwritten{0x5A};
constexpr std::size_t kGuard = 64;  // before and behind, and must not change

std::uint64_t below(std::mt19937_64& random, std::uint64_t end) {
  return random() % end;
}

}  // namespace

Exchange::Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks,
                   std::size_t most_bytes)
    // Nothing, a few elements, and large ones, alike often.
    : Exchange(seed, rank, ranks, 3 * std::size_t{ranks},
               [most_bytes](std::mt19937_64& random, std::size_t width) {
                 return below(random, (most_bytes / width) + 1) >> (below(random, 5) * 4);
               }) {}

Exchange::Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks,
                   std::size_t most_messages, const DrawCount& draw_count)
    : Exchange(seed, rank) {
  std::mt19937_64 common(seed);
  const std::uint64_t count = below(common, most_messages + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    Message message{.from = static_cast<std::uint32_t>(below(common, ranks)),
                    .to = static_cast<std::uint32_t>(below(common, ranks)),
                    .type = static_cast<weft_data_type>(below(common, WEFT_FLOAT8_E5M2 + 1)),
                    .count = 0,
                    .number = i};
    const std::size_t width = width_of(message.type);
    message.count = draw_count(common, width);
    // No more aligned than the element needs.
    message.sent_at = kGuard + (below(common, 16) * width);
    message.received_at = kGuard + (below(common, 16) * width);
    messages_.push_back(std::move(message));
  }
  fill();
}

Exchange Exchange::all_to_all(std::uint32_t rank, std::uint32_t ranks, std::size_t bytes) {
  Exchange all(ranks, rank);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    for (std::uint32_t to = 0; to < ranks; ++to) {
      all.messages_.push_back({.from = from,
                               .to = to,
                               .type = WEFT_UINT8,
                               .count = bytes,
                               .number = 0,
                               .sent_at = kGuard,
                               .received_at = kGuard});
    }
  }
  all.fill();
  return all;
}

bool Exchange::needs_group() const {
  return messages_.size() > 1 || (!messages_.empty() && messages_[0].from == messages_[0].to);
}

std::string Exchange::describe() const {
  std::ostringstream text;
  for (const Message& message : messages_) {
    text << "\n    " << message.count << " elements of type " << message.type << " from "
         << message.from << " to " << message.to << ", " << message.sent_at << " and "
         << message.received_at << " bytes behind a line";
  }
  return text.str();
}

// Makes the buffers, and an order of the calls.
void Exchange::fill() {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    Message& message = messages_[i];
    const std::size_t bytes = message.count * width_of(message.type);
    if (message.from == rank_) {
      message.sent = content(message, message.sent_at);
      steps_.push_back({.sends = true, .message = i});
    }
    if (message.to == rank_) {
      message.received.assign(message.received_at + bytes + kGuard, kUnwritten);
      steps_.push_back({.sends = false, .message = i});
    }
  }
  // Any order that keeps that of the messages between two ranks in each direction: those of one
  // line are put in order again, in the places that they got.
  std::mt19937_64 own(seed_ ^ (0x9E3779B97F4A7C15ULL * (rank_ + 1)));
  std::ranges::shuffle(steps_, own);
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, std::vector<std::size_t>> lines;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Message& message = messages_[steps_[i].message];
    lines[{steps_[i].sends, message.from, message.to}].push_back(i);
  }
  for (const auto& [line, places] : lines) {
    std::vector<std::size_t> order;
    for (const std::size_t place : places)
      order.push_back(steps_[place].message);
    std::ranges::sort(order);
    for (std::size_t i = 0; i < places.size(); ++i)
      steps_[places[i]].message = order[i];
  }
}

void Exchange::renew() {
  for (Message& message : messages_)
    std::ranges::fill(message.received, kUnwritten);
}

// The buffer that holds the message at `at`, and nothing else.
std::vector<std::byte> Exchange::content(const Message& message, std::size_t at) {
  const std::size_t size = message.count * width_of(message.type);
  std::vector<std::byte> bytes(at + size + kGuard, kUnwritten);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[at + i] = static_cast<std::byte>(i * 31 + i / 251 + message.number * 17 +
                                           message.from * 5 + message.to);
  }
  return bytes;
}

weft_result Exchange::start(weft_context* context, weft_comm* comm, weft_stream* stream) {
  if (context != nullptr) weft_group_start(context);
  weft_result result = WEFT_OK;
  for (const Step& step : steps_) {
    Message& message = messages_[step.message];
    const weft_result called =
        step.sends ? weft_send(message.sent.data() + message.sent_at, message.count, message.type,
                               message.to, comm, stream)
                   : weft_recv(message.received.data() + message.received_at, message.count,
                               message.type, message.from, comm, stream);
    if (result == WEFT_OK) result = called;
  }
  if (context == nullptr) return result;
  const weft_result ended = weft_group_end(context);
  return result == WEFT_OK ? ended : result;
}

std::string Exchange::wrong() const {
  for (const Message& message : messages_) {
    if (message.from != rank_ && message.to != rank_) continue;
    std::ostringstream text;
    text << "seed " << seed_ << ", rank " << rank_ << ", message " << message.number << " of "
         << message.count << " elements of type " << message.type << " from " << message.from
         << " to " << message.to << ": ";
    if (message.from == rank_ && message.sent != content(message, message.sent_at)) {
      return text.str() + "was changed here";
    }
    if (message.to != rank_) continue;
    const std::vector<std::byte> due = content(message, message.received_at);
    if (message.received == due) continue;
    const auto place = std::ranges::mismatch(message.received, due).in1;
    const auto at =
        place - message.received.begin() - static_cast<std::ptrdiff_t>(message.received_at);
    const bool inside =
        at >= 0 && static_cast<std::size_t>(at) < message.count * width_of(message.type);
    return text.str() + "byte " + std::to_string(at) +
           (inside ? " came wrong" : ", beside the message, was written");
  }
  return {};
}

}  // namespace weft::test
