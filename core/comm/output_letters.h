// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The letters by which ranks share memory of outputs: see OutputMappings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// Pieces of a mapping at most: each is a descriptor.
inline constexpr std::size_t kMostSharedPieces = 64;

struct SharedPiece {
  std::uint32_t descriptor = 0;  ///< As its owner numbers it.
  std::uint64_t bytes = 0;
  bool operator==(const SharedPiece&) const = default;
};

struct OutputLetter {
  enum class Kind : std::uint8_t {
    kShared = 0,    ///< From the owner: map this.
    kTaken = 1,     ///< To the owner: mapped, or not, and why not.
    kRevoked = 2,   ///< From the owner: give it back.
    kReturned = 3,  ///< To the owner: mapped no more.
  };
  Kind kind = Kind::kShared;
  std::uint32_t mapping = 0;     ///< The owner's number, below kMostMappings.
  std::uint32_t generation = 0;  ///< From 1 to kMostGeneration.

  // Of kShared.
  std::uint64_t pid = 0;
  std::uint32_t witness = 0;  ///< ProcessWitness::descriptor
  std::array<std::byte, 16> witness_bytes{};
  std::vector<SharedPiece> pieces;

  // Of kTaken: empty where it is mapped.
  std::string refusal;
  bool may_pass = false;  ///< Why it is not: the rank may well map it another time.

  bool operator==(const OutputLetter&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode_output_letter(const OutputLetter& letter);
/// Numbers within their bounds; pieces of whole kExportGrain, and of no more than a mapping may
/// have; a refusal of at most 512 bytes, without control characters.
[[nodiscard]] Result<OutputLetter> decode_output_letter(std::span<const std::byte> bytes);

}  // namespace weft
