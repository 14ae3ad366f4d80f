// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A random exchange of messages in one group, as one rank takes part in it: who sends what to whom
// is drawn alike on all ranks, the order in which a rank names its partners by each for itself.
// Uses the public API alone, and no test framework.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <weft/weft.h>

namespace weft::test {

class Exchange {
 public:
  /// Says how many elements of `width` bytes a message has.
  using DrawCount = std::function<std::size_t(std::mt19937_64& random, std::size_t width)>;

  /// `seed` and `most_bytes` (of a message) are alike on all ranks.
  Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks, std::size_t most_bytes);
  /// The same, with at most `most_messages`, whose counts are drawn alike on all ranks.
  Exchange(std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks, std::size_t most_messages,
           const DrawCount& draw_count);
  /// From each rank to each, itself included, one message of `bytes` bytes.
  static Exchange all_to_all(std::uint32_t rank, std::uint32_t ranks, std::size_t bytes);

  /// Whether calls outside of a group would not do: of more than one message, which each rank calls
  /// in an order of its own, or of one to the sender itself.
  [[nodiscard]] bool needs_group() const;
  /// All messages, those of other ranks included, one a line.
  [[nodiscard]] std::string describe() const;

  /// Calls within a group of `context`, unless that is null: then the caller has one open. The
  /// exchange must live until the stream is synchronized.
  weft_result start(weft_context* context, weft_comm* comm, weft_stream* stream);
  /// After that, or before: buffers as if nothing had been received, where they are.
  void renew();
  /// After that: empty if every element is right, else what is wrong.
  [[nodiscard]] std::string wrong() const;

 private:
  struct Message {
    std::uint32_t from;
    std::uint32_t to;
    weft_data_type type;
    std::size_t count;
    std::uint64_t number;
    std::size_t sent_at = 0;  // where the elements begin, bytes
    std::size_t received_at = 0;
    std::vector<std::byte> sent{};
    std::vector<std::byte> received{};
  };
  struct Step {
    bool sends;
    std::size_t message;
  };
  Exchange(std::uint64_t seed, std::uint32_t rank) : seed_(seed), rank_(rank) {}
  void fill();
  [[nodiscard]] static std::vector<std::byte> content(const Message& message, std::size_t at);

  std::uint64_t seed_;
  std::uint32_t rank_;
  std::vector<Message> messages_;  // those of other ranks without buffers
  std::vector<Step> steps_;        // in the order in which this rank calls
};

}  // namespace weft::test
