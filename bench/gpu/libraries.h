// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The libraries that are compared, behind one interface.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <cuda_runtime.h>

#include "bench/gpu/operations.h"
#include "bench/gpu/options.h"

namespace weft::gpu_bench {

/// Where a rank's buffers lie.
struct Arena {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// Which rank, where.
struct Seat {
  uint32_t rank;
  uint32_t ranks;
  int device;
  cudaStream_t stream;
};

struct Call {
  const Operation& operation;
  const ElementType& type;
  const void* send;
  void* recv;
  size_t count;  ///< Shape::count.
};

/// One library's communicator of one rank. Every member may throw Failure.
class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  [[nodiscard]] virtual std::string version() const = 0;
  /// Which functions an operation's calls are made by.
  [[nodiscard]] virtual std::string call_name(const Operation& operation) const = 0;
  /// What the library has taken of this process's time before any rank could join.
  [[nodiscard]] virtual double setup_seconds() const { return 0; }
  /// On one rank.
  virtual void make_id(char* id) = 0;
  /// On all.
  virtual void join(const char* id) = 0;
  /// On all, after join: the buffers that this library is timed on.
  virtual Arena take_arena(const Arena& plain, size_t /*bytes*/) { return plain; }
  /// Appends to the stream. Also throws Refusal.
  virtual void call(const Call& call) = 0;
  /// Throws what happened to the communicator behind our back.
  virtual void check_communicator() = 0;
  /// Makes work that hangs end. Nothing may follow.
  virtual void abort() = 0;
  /// On all, in the end.
  virtual void leave() = 0;
};

/// What is loaded once for the ranks of one process.
class LoadedLibraries {
 public:
  explicit LoadedLibraries(const Options& options);
  ~LoadedLibraries();
  LoadedLibraries(const LoadedLibraries&) = delete;
  LoadedLibraries& operator=(const LoadedLibraries&) = delete;

  /// "nccl", "nccl-window", "weft" or "weft-window", for one rank. Throws why it could not be
  /// loaded.
  [[nodiscard]] std::unique_ptr<Library> make(const std::string& name, const Seat& seat) const;

 private:
  struct Apis;
  std::unique_ptr<Apis> apis_;
};

}  // namespace weft::gpu_bench
