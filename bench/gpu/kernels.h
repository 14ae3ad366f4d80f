// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the program itself runs on a GPU. Functions that launch return at once; whoever calls them
// waits for the stream.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "bench/gpu/operations.h"

namespace weft::gpu_bench {

struct Mismatch {
  unsigned long long count;
  unsigned long long first;  ///< Index over all sets, ~0 if there is none.
};
inline constexpr Mismatch kNoMismatch{0, ~0ULL};

/// Byte by byte: no number is equal to it, whatever its type.
inline constexpr int kPoisonByte = 0xff;

/// Elements of buffers of one set.
struct Elements {
  ElementKind kind;
  uint64_t count;
  Origin origin;
  uint64_t set;
};

void launch_fill(cudaStream_t stream, void* to, const Elements& elements, const Inputs& inputs);
/// Adds what differs to `mismatch`, on the device.
void launch_compare(cudaStream_t stream, const void* got, const Elements& elements,
                    const Inputs& inputs, Mismatch* mismatch);
/// The same for bytes that must be poison; `first` is the index of the first one.
void launch_compare_poison(cudaStream_t stream, const std::byte* got, size_t bytes, uint64_t first,
                           Mismatch* mismatch);
/// Copies with so many CTAs.
void launch_write_to_peer(cudaStream_t stream, int ctas, std::byte* to, const std::byte* from,
                          size_t bytes);
/// The words by which an exchange ends: how many of its CTAs are done, how many exchanges there
/// were, and how many the GPU has had that writes here.
struct ExchangeWords {
  uint32_t done;
  uint32_t sent;
  uint32_t arrived;
};
/// Copies likewise, tells the other GPU when all is written, and ends when another has told this
/// one the same. Gives up after seconds.
void launch_exchange(cudaStream_t stream, int ctas, std::byte* to, const std::byte* from,
                     size_t bytes, ExchangeWords* own, ExchangeWords* of_next);
/// A kernel that does nothing, with the smallest argument and with the largest that launches have
/// had from the beginning.
inline constexpr size_t kLaunchArguments[] = {8, 4096};
void launch_nothing(cudaStream_t stream, size_t argument_bytes);
/// Of a GPU and one connection, in host memory but for `own`: the number of the message that it has
/// sent, and of the one that has come for it; and the payload of either, which it takes from its
/// own memory and puts there, `words` of 8 bytes. Messages take two slots of either by turns: who
/// has the other's next message knows that all before its own last one have gone and were read.
struct Mailbox {
  uint64_t* told;
  uint64_t* come;
  uint64_t* sent[2];
  const uint64_t* received[2];
  uint64_t* own;
  uint32_t words;
};
inline constexpr size_t kMostMailboxes = 4;
/// In a GPU's own memory, zero at first: how many CTAs have got through a turn, all turns together,
/// and whether one gave up.
struct Meeting {
  uint64_t arrived;
  uint32_t gave_up;
};
/// The first `count` are used, each by a CTA. These wait for each other after each turn.
struct Mailboxes {
  Mailbox box[kMostMailboxes];
  uint32_t count;
  Meeting* meeting;
};
enum class Turn {
  kLeads,    ///< Sends a message through each mailbox, once those before have come back.
  kFollows,  ///< Sends each as soon as it has come.
  kBoth,     ///< Sends to who sends likewise, then receives.
};
/// Sends `turns` messages through each mailbox with the numbers from `before` + 1 on. Gives up
/// after seconds, and at once after a launch that did.
void launch_messages(cudaStream_t stream, Turn how, const Mailboxes& boxes, uint64_t before,
                     uint32_t turns);

/// One element in host memory, as a number.
[[nodiscard]] float number_of_element(ElementKind kind, const void* element);

}  // namespace weft::gpu_bench
