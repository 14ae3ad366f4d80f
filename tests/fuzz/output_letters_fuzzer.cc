// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as a letter about outputs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/comm/output_letters.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto letter = weft::decode_output_letter(std::as_bytes(std::span(data, size)));
  if (!letter) return 0;
  const auto back = weft::decode_output_letter(weft::encode_output_letter(*letter));
  if (!back || *back != *letter) std::abort();
  return 0;
}
