// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The family of primitives as a table, for tests that run each of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/model/ring_geometry.h"

namespace weft::device::testing {

/// What a primitive does to each element, in words of its own.
struct Does {
  const char* name;
  bool receives = false;
  bool reads = false;  ///< The input.
  bool holds = false;  ///< What it sends lies in the output before.
  bool writes = false;
  bool sends = false;
};

inline constexpr Does kSend{.name = "send", .reads = true, .sends = true};
inline constexpr Does kRecv{.name = "recv", .receives = true, .writes = true};
inline constexpr std::array kPrimitives = {
    kSend,
    Does{.name = "send_from_output", .holds = true, .sends = true},
    kRecv,
    Does{.name = "copy_send", .reads = true, .writes = true, .sends = true},
    Does{.name = "recv_copy_send", .receives = true, .writes = true, .sends = true},
    Does{.name = "recv_reduce_copy", .receives = true, .reads = true, .writes = true},
    Does{.name = "recv_reduce_send", .receives = true, .reads = true, .sends = true},
    Does{.name = "recv_reduce_copy_send",
         .receives = true,
         .reads = true,
         .writes = true,
         .sends = true}};

/// Whether it may write elsewhere in the output than it reads in the input.
inline bool takes_two_places(std::string_view name) {
  return name == "copy_send" || name == "recv_reduce_copy";
}

/// `output`: the first element there, of those that take two places.
template <class Primitives>
bool run_primitive(Primitives& primitives, std::string_view name, Extent extent,
                   std::uint64_t output) {
  if (name == "send") return primitives.send(extent);
  if (name == "send_from_output") return primitives.send_from_output(extent);
  if (name == "recv") return primitives.recv(extent);
  if (name == "copy_send") return primitives.copy_send(extent, output);
  if (name == "recv_copy_send") return primitives.recv_copy_send(extent);
  if (name == "recv_reduce_copy") return primitives.recv_reduce_copy(extent, output);
  if (name == "recv_reduce_send") return primitives.recv_reduce_send(extent);
  return primitives.recv_reduce_copy_send(extent);
}

}  // namespace weft::device::testing
