// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call as one rank makes it.
#pragma once

#include <cstddef>
#include <string>

#include <weft/weft.h>

#include "tests/gpu/call.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {

/// Where a rank's buffers are, and its reduction, which may be one that the communicator has made.
struct Arguments {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  weft_reduction reduction = WEFT_SUM;
};

/// On `stream`, or on the member's if that is NULL. An exchange makes all of the rank's sends and
/// receives. Throws Problem.
void make_call(const Call& call, const Buffers& buffers, const Arguments& arguments, Member& member,
               weft_stream* stream = nullptr);

/// The call in words.
[[nodiscard]] std::string text_of(const Call& call);

}  // namespace weft::gpu_test
