// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A device whose memory is host memory that its program maps piece by piece, as GPUs' drivers have
// it: other processes map it by descriptors, and each piece has a number that is not used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/base/fd.h"
#include "tests/support/memory_runtime.h"

namespace weft::test {

/// Threads: any. Members that tests set are set while nobody else is at work.
class PieceDevice : public MemoryRuntime {
 public:
  ~PieceDevice() override {
    for (const auto& [base, range] : ranges_)
      ::munmap(base, range);
  }

  /// Addresses without memory.
  std::byte* reserve_addresses(std::size_t bytes) {
    void* const base =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    const std::scoped_lock lock(mutex_);
    ranges_.emplace(base, bytes);
    return static_cast<std::byte*>(base);
  }
  /// Memory of zeros; `exportable`: it may be handed to other processes.
  void map(std::byte* at, std::size_t bytes, bool exportable = true) {
    UniqueFd file(::memfd_create("piece", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    place(at, bytes, file.get());
    const std::scoped_lock lock(mutex_);
    pieces_.insert_or_assign(
        at,
        Piece{
            .bytes = bytes, .number = ++count_, .exportable = exportable, .file = std::move(file)});
  }
  void unmap(std::byte* at) {
    const std::scoped_lock lock(mutex_);
    const auto found = pieces_.find(at);
    ::mmap(at, found->second.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pieces_.erase(found);
  }

  [[nodiscard]] std::string_view last_failure(std::int64_t* native) override {
    *native = 0;
    return why_;
  }
  weft_result find_piece(const void* address, MemoryPiece* out) override {
    const std::scoped_lock lock(mutex_);
    const auto found = find(address);
    if (found == pieces_.end()) return refuse("nothing is mapped there");
    *out = {.base = found->first, .bytes = found->second.bytes, .number = found->second.number};
    return WEFT_OK;
  }
  [[nodiscard]] std::uint64_t piece_number(const void* address) override {
    const std::scoped_lock lock(mutex_);
    const auto found = find(address);
    return found == pieces_.end() ? 0 : found->second.number;
  }
  weft_result export_piece(const MemoryPiece& piece, int* descriptor) override {
    const std::scoped_lock lock(mutex_);
    const auto found = pieces_.find(static_cast<std::byte*>(piece.base));
    if (found == pieces_.end() || found->second.number != piece.number) return refuse("made anew");
    if (!found->second.exportable) return refuse("not to be exported");
    *descriptor = ::fcntl(found->second.file.get(), F_DUPFD_CLOEXEC, 0);
    if (*descriptor >= 0) return WEFT_OK;
    why_ = "no descriptors";
    return WEFT_ERROR_OUT_OF_RESOURCES;
  }
  weft_result import_pieces(std::span<const ForeignPiece> pieces, void** out) override {
    if (fails_to_import) return refuse("it cannot map anything");
    std::size_t all = 0;
    for (const ForeignPiece& piece : pieces) {
      struct stat is{};
      if (::fstat(piece.descriptor, &is) != 0 ||
          static_cast<std::size_t>(is.st_size) < piece.bytes) {
        return refuse("no such piece");
      }
      all += piece.bytes;
    }
    std::byte* const base = reserve_addresses(all);
    std::byte* at = base;
    for (const ForeignPiece& piece : pieces) {
      place(at, piece.bytes, piece.descriptor);
      at += piece.bytes;
    }
    const std::scoped_lock lock(mutex_);
    ++imports;
    *out = base;
    return WEFT_OK;
  }
  void close_pieces(void* memory) override {
    const std::scoped_lock lock(mutex_);
    const auto found = ranges_.find(memory);
    ::munmap(memory, found->second);
    ranges_.erase(found);
    --imports;
  }

  bool fails_to_import = false;
  int imports = 0;  ///< That are open.

 private:
  struct Piece {
    std::size_t bytes = 0;
    std::uint64_t number = 0;
    bool exportable = true;
    UniqueFd file;
  };

  static void place(std::byte* at, std::size_t bytes, int file) {
    if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
      throw std::bad_alloc();
    }
  }
  std::map<std::byte*, Piece>::iterator find(const void* address) {
    auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
    const auto after = pieces_.upper_bound(at);
    if (after == pieces_.begin()) return pieces_.end();
    const auto found = std::prev(after);
    return at < found->first + found->second.bytes ? found : pieces_.end();
  }
  weft_result refuse(const char* why) {
    why_ = why;
    return WEFT_ERROR_UNSUPPORTED;
  }

  std::mutex mutex_;
  std::uint64_t count_ = 0;  // guarded by mutex_, as all below
  std::map<std::byte*, Piece> pieces_;
  std::map<void*, std::size_t> ranges_;
  std::string why_;
};

}  // namespace weft::test
