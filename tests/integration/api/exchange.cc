// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/exchange.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <tuple>

namespace weft::test {
namespace {

constexpr std::byte kUnwritten{0x5A};
constexpr std::size_t kBehind = 32;

std::size_t bytes_of(weft_data_type type) {
  switch (type) {
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
      return 8;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
      return 4;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

Exchange::Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks,
                   std::size_t most_bytes)
    : seed_(seed), rank_(rank) {
  std::mt19937_64 common(seed);
  const auto below = [](std::mt19937_64& random, std::uint64_t end) { return random() % end; };
  const std::uint64_t count = below(common, 3 * ranks + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    Message message{.from = static_cast<std::uint32_t>(below(common, ranks)),
                    .to = static_cast<std::uint32_t>(below(common, ranks)),
                    .type = static_cast<weft_data_type>(below(common, WEFT_FLOAT8_E5M2 + 1)),
                    .count = 0,
                    .number = i};
    // Nothing, a few elements, and large ones, alike often.
    const std::uint64_t most = most_bytes / bytes_of(message.type);
    message.count = below(common, most + 1) >> (below(common, 5) * 4);
    if (message.from == rank || message.to == rank) messages_.push_back(std::move(message));
  }
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    Message& message = messages_[i];
    if (message.from == rank) {
      message.sent = content(message);
      steps_.push_back({.sends = true, .message = i});
    }
    if (message.to == rank) {
      message.received.assign(message.count * bytes_of(message.type) + kBehind, kUnwritten);
      steps_.push_back({.sends = false, .message = i});
    }
  }
  // Any order that keeps that of the messages between two ranks in each direction.
  std::mt19937_64 own(seed ^ (0x9E3779B97F4A7C15ULL * (rank + 1)));
  std::ranges::shuffle(steps_, own);
  const auto line_of = [&](const Step& step) {
    const Message& message = messages_[step.message];
    return std::tuple(step.sends, message.from, message.to);
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (std::size_t k = i + 1; k < steps_.size(); ++k) {
      if (line_of(steps_[i]) == line_of(steps_[k]) && steps_[k].message < steps_[i].message) {
        std::swap(steps_[i], steps_[k]);
      }
    }
  }
}

std::vector<std::byte> Exchange::content(const Message& message) {
  std::vector<std::byte> bytes(message.count * bytes_of(message.type));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + message.number * 17 + message.from * 5 +
                                      message.to);
  }
  return bytes;
}

weft_result Exchange::start(weft_context* context, weft_comm* comm, weft_stream* stream) {
  if (context != nullptr) weft_group_start(context);
  weft_result result = WEFT_OK;
  for (const Step& step : steps_) {
    Message& message = messages_[step.message];
    const weft_result called = step.sends ? weft_send(message.sent.data(), message.count,
                                                      message.type, message.to, comm, stream)
                                          : weft_recv(message.received.data(), message.count,
                                                      message.type, message.from, comm, stream);
    if (result == WEFT_OK) result = called;
  }
  if (context == nullptr) return result;
  const weft_result ended = weft_group_end(context);
  return result == WEFT_OK ? ended : result;
}

std::string Exchange::wrong() const {
  for (const Message& message : messages_) {
    const std::vector<std::byte> due = content(message);
    std::ostringstream text;
    text << "seed " << seed_ << ", rank " << rank_ << ", message " << message.number << " of "
         << message.count << " elements of type " << message.type << " from " << message.from
         << " to " << message.to << ": ";
    if (message.from == rank_ && message.sent != due) return text.str() + "was changed here";
    if (message.to != rank_) continue;
    if (!std::equal(due.begin(), due.end(), message.received.begin())) {
      return text.str() + "came with other bytes";
    }
    const auto behind = message.received.begin() + static_cast<std::ptrdiff_t>(due.size());
    if (std::any_of(behind, message.received.end(), [](std::byte b) { return b != kUnwritten; })) {
      return text.str() + "was written behind its end";
    }
  }
  return {};
}

}  // namespace weft::test
