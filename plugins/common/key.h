// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Keyed hashes, by which ranks of one communicator know each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace weft::plugins {

using Mac = std::array<std::uint8_t, 32>;

/// The secret of the communicator and this transport; wiped when it goes.
class Key {
 public:
  Key() = default;
  explicit Key(std::span<const std::uint8_t> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  Key(Key&&) = default;
  Key& operator=(Key&&) = default;
  ~Key();

  /// Keyed hash of all parts, one after the other.
  [[nodiscard]] Mac sign(std::initializer_list<std::span<const std::byte>> parts) const;
  /// Compares in constant time.
  [[nodiscard]] bool verify(const Mac& mac,
                            std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  std::vector<std::uint8_t> bytes_;
};

/// The bytes of a message before its hash, which comes last.
template <class Message>
std::span<const std::byte> signed_part(const Message& message) {
  static_assert(offsetof(Message, mac) + sizeof(Mac) == sizeof(Message));
  return std::as_bytes(std::span(&message, 1)).first(offsetof(Message, mac));
}

}  // namespace weft::plugins
