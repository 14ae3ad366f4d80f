// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The family of primitives that rings are made of, whichever the protocol: one generic operation
// that may receive, read the input, reduce, write the output and send.
//
// Each has direct variants, in which data goes past the slots. They have no names of their own,
// since both ends must take the same one: a view or the call says which. By Simple a CPU lends what
// it sends where it lies, and takes what was lent, or has landed in its output
// (primitives_simple.h); GPUs write what is only copied into the next rank's output
// (bulk_walkers.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/model/ring_geometry.h"

namespace weft::device {

/// The bits that select what the generic operation does in each step.
enum PrimitiveBits : std::uint8_t {
  kRecvBit = 1U,  ///< Takes a slot of from_previous.
  kSendBit = 2U,  ///< Fills a slot of to_next.
  /// Reads the caller's input, which is multiplied first if the reduction asks for that; together
  /// with kRecvBit: reduces both.
  kInputBit = 4U,
  kOutputBit = 8U,   ///< Writes the caller's output.
  kFinishBit = 16U,  ///< What was reduced is complete: finishes it, if the reduction asks for that.
};

/// Whether what is sent lies in the caller's output and nowhere else.
template <unsigned kBits>
inline constexpr bool kReadsOutput = (kBits & (kRecvBit | kInputBit)) == 0;

/// Whether what is sent is not stored anywhere else.
template <unsigned kBits>
inline constexpr bool kSentAlone = (kBits & (kRecvBit | kOutputBit)) == 0;

/// What a protocol's class gets by deriving from this with itself as `Generic`, which has the
/// generic operation: run<bits>(extent, output) answers false when the kernel must end.
template <class Generic>
class Primitives {
 public:
  // Extents are elements of the caller's buffers. Where a primitive reads the input and writes the
  // output at different places, `output` is the first element of the output.

  /// Input to the next rank.
  WEFT_HD bool send(Extent input) {
    return generic().template run<(kSendBit | kInputBit)>(input, input.offset);
  }
  /// What lies in the output already to the next rank: it is not multiplied, and has the same place
  /// in that one's output, which is of interest where data goes there without a slot.
  WEFT_HD bool send_from_output(Extent output) {
    return generic().template run<kSendBit>(output, output.offset);
  }
  /// Previous rank to output.
  WEFT_HD bool recv(Extent output) {
    return generic().template run<(kRecvBit | kOutputBit)>(output, output.offset);
  }
  /// Input to output and to the next rank.
  WEFT_HD bool copy_send(Extent input, std::uint64_t output) {
    return generic().template run<(kSendBit | kInputBit | kOutputBit)>(input, output);
  }
  WEFT_HD bool copy_send(Extent both) { return copy_send(both, both.offset); }
  /// Previous rank to output and to the next rank.
  WEFT_HD bool recv_copy_send(Extent output) {
    return generic().template run<(kRecvBit | kSendBit | kOutputBit)>(output, output.offset);
  }
  /// Previous rank with input to the next rank.
  WEFT_HD bool recv_reduce_send(Extent input) {
    return generic().template run<(kRecvBit | kSendBit | kInputBit)>(input, 0);
  }
  // The last step of a reduction: what they write is finished.
  /// Previous rank with input to output.
  WEFT_HD bool recv_reduce_copy(Extent input, std::uint64_t output) {
    return generic().template run<(kRecvBit | kInputBit | kOutputBit | kFinishBit)>(input, output);
  }
  WEFT_HD bool recv_reduce_copy(Extent both) { return recv_reduce_copy(both, both.offset); }
  /// Previous rank with input to output and to the next rank.
  WEFT_HD bool recv_reduce_copy_send(Extent both) {
    return generic().template run<(kRecvBit | kSendBit | kInputBit | kOutputBit | kFinishBit)>(
        both, both.offset);
  }

 protected:
  // A rank that only sends, or only receives, may have no buffer on the other side.
  template <typename Byte>
  WEFT_HD static Byte* at(Byte* buffer, std::uint64_t offset) {
    return buffer == nullptr ? nullptr : buffer + offset;
  }

 private:
  friend Generic;
  Primitives() = default;
  [[nodiscard]] WEFT_HD Generic& generic() { return static_cast<Generic&>(*this); }
};

}  // namespace weft::device
