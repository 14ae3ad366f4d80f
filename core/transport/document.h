// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Structured values on their way between ranks, as MessagePack. A peer chooses every byte, so the
// nesting is bounded before the library's reader, which recurses once per level, builds anything.
// (Its CBOR reader recurses over pieces of strings as well, where no handler can stop it.)
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

namespace weft {

/// Levels of lists and maps within each other.
inline constexpr std::size_t kDeepestDocument = 8;

[[nodiscard]] std::vector<std::byte> encode_document(const nlohmann::json& document);
/// Throws an exception of the library, or std::invalid_argument, for what is no document or too
/// deep.
[[nodiscard]] nlohmann::json decode_document(std::span<const std::byte> bytes);

}  // namespace weft
