// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A random exchange of messages in one group, as one rank takes part in it: who sends what to whom
// is drawn alike on all ranks, the order in which a rank names its partners by each for itself.
// Uses the public API alone, and no test framework.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/weft.h>

namespace weft::test {

class Exchange {
 public:
  /// `seed` and `most_bytes` (of a message) are alike on all ranks.
  Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks, std::size_t most_bytes);

  /// Calls within a group of `context`, unless that is null: then the caller has one open. The
  /// exchange must live until the stream is synchronized.
  weft_result start(weft_context* context, weft_comm* comm, weft_stream* stream);
  /// After that: empty if every element is right, else what is wrong.
  [[nodiscard]] std::string wrong() const;

 private:
  struct Message {
    std::uint32_t from;
    std::uint32_t to;
    weft_data_type type;
    std::size_t count;
    std::uint64_t number;
    std::vector<std::byte> sent{};
    std::vector<std::byte> received{};
  };
  struct Step {
    bool sends;
    std::size_t message;
  };
  [[nodiscard]] static std::vector<std::byte> content(const Message& message);

  std::uint64_t seed_;
  std::uint32_t rank_;
  std::vector<Message> messages_;  // those that concern this rank
  std::vector<Step> steps_;        // in the order in which this rank calls
};

}  // namespace weft::test
