// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reads a shared library's bytes the way the dynamic loader would place them, without loading it:
// segments, exported symbols, relocated pointers. x86-64 ELF alone. The bytes may be anything:
// every offset, size and count is checked before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// A symbol that the library defines and exports.
struct ElfSymbol {
  std::uint64_t address = 0;  ///< Relative to where the library is loaded.
  std::uint64_t size = 0;     ///< Bytes; 0 where the file does not say.
};

/// What a pointer in the library's data will hold once loaded.
struct ElfPointer {
  std::uint64_t address = 0;  ///< Relative, as above; 0 is NULL.
  bool external = false;      ///< Points into another library; address means nothing then.

  [[nodiscard]] bool is_null() const { return address == 0 && !external; }
};

/// Borrows the bytes it was made from. Errors are WEFT_ERROR_PLUGIN and say what is wrong with the
/// file, but not its name.
class ElfImage {
 public:
  static Result<ElfImage> parse(std::span<const std::byte> file);

  /// An exported symbol that the library defines, if there is one.
  [[nodiscard]] Result<std::optional<ElfSymbol>> find(std::string_view name) const;

  /// The `size` bytes at `address`, as the file holds them (pointers not relocated).
  [[nodiscard]] Result<std::span<const std::byte>> bytes(std::uint64_t address,
                                                         std::uint64_t size) const;

  /// The pointer that lies at `address`.
  [[nodiscard]] Result<ElfPointer> pointer(std::uint64_t address) const;

  /// The zero-terminated text at `address`, at most `limit` bytes long.
  [[nodiscard]] Result<std::string_view> text(std::uint64_t address, std::uint64_t limit) const;

  /// Libraries that this one needs.
  [[nodiscard]] const std::vector<std::string>& needed() const { return needed_; }

 private:
  /// A stretch of the file that is placed at an address.
  struct Segment {
    std::uint64_t address = 0;
    std::span<const std::byte> bytes;
  };

  Status read_segments(std::span<const std::byte> file);
  Status read_dynamic();
  Status read_relocations(std::uint64_t address, std::uint64_t size);
  Status count_symbols(std::optional<std::uint64_t> gnu_hash, std::optional<std::uint64_t> hash);
  /// From `address` to the end of the segment that it lies in; empty outside of all.
  [[nodiscard]] std::span<const std::byte> from(std::uint64_t address) const;
  [[nodiscard]] Result<std::string_view> name_at(std::uint64_t offset) const;

  std::vector<Segment> segments_;
  std::span<const std::byte> dynamic_;
  std::span<const std::byte> strings_;
  std::uint64_t symbols_ = 0;
  std::uint64_t symbol_count_ = 0;
  std::vector<std::pair<std::uint64_t, ElfPointer>> relocations_;  ///< By address, ascending.
  std::vector<std::string> needed_;
};

}  // namespace weft
