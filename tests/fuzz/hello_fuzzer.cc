// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as its greeting, and the greeting compared with another.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/comm/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hello = weft::decode_hello(std::as_bytes(std::span(data, size)));
  if (!hello) return 0;
  const auto back = weft::decode_hello(weft::encode_hello(*hello));
  if (!back || back->version != hello->version || back->agreed_settings != hello->agreed_settings ||
      back->report != hello->report) {
    std::abort();
  }
  const std::array ranks = {
      weft::Hello{
          .version = hello->version, .agreed_settings = "buffers.step=128KiB\n", .report = {}},
      *hello};
  (void)weft::check_agreement(ranks);
  return 0;
}
