// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory and the streams of the devices under test: those of CUDA, or with --host the host's,
// so that all but kernels is tried where no GPU is.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include <cuda_runtime.h>

#include <weft/weft.h>

#include "tests/gpu/call.h"

namespace weft::gpu_test {

/// A call that went wrong.
class Problem : public std::runtime_error {
 public:
  Problem(weft_result code, const std::string& text) : std::runtime_error(text), code(code) {}
  weft_result code;
};
/// This build or path has no such kernel.
class Unsupported : public Problem {
  using Problem::Problem;
};

void check(cudaError_t error, const char* what);
#define CUDA(call) check(call, #call)

/// The context of this process, made at the first use.
weft_context* context();
/// Before main ends.
void forget_context();
/// The text of this thread's last failure.
std::string last_error();
void check(weft_result result, const std::string& what);

/// 0 where there is no driver.
int device_count();
/// Makes it the calling thread's.
void use_device(int device);

/// A stream of a device.
struct Stream {
  cudaStream_t cuda = nullptr;  ///< Of CUDA devices.
  weft_stream* weft = nullptr;
};
Stream open_stream(int device);
void close_stream(int device, const Stream& stream);
/// "is empty", "has work" or what is wrong with it; asks without waiting. On any thread: a stream
/// of CUDA is asked past the library.
std::string state_of(const Stream& stream);

/// Frees the memory of zones that are gone, which is kept for others: nobody's window is there.
void free_memory();

/// Device memory, zones of poison on both sides of what a call may touch. Copies are on the stream,
/// of which nothing may be under way on the host device.
class Zone {
 public:
  /// `offset` bytes beyond a multiple of 256.
  Zone(int device, std::size_t bytes, std::size_t offset);
  ~Zone();
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_ + kGuard + offset_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  /// Bytes of poison before the content, of the same memory.
  static constexpr std::size_t kGuard = 4096;
  /// Poisons everything, then puts `content` in, if it is not empty.
  void write(const Bytes& content, int poison, cudaStream_t stream);
  /// Puts bytes there, in or beside the content.
  void overwrite(std::ptrdiff_t at, std::span<const std::byte> bytes, cudaStream_t stream);
  /// Reads everything back; answers the content. Throws if a guard was touched.
  std::span<const std::byte> read(cudaStream_t stream);

 private:
  const int device_;
  const std::size_t bytes_;
  const std::size_t offset_;
  const bool of_weft_;  // so that it is one allocation that can be shared
  std::size_t capacity_ = 0;
  std::byte* memory_ = nullptr;
  int poison_ = 0;
  Bytes image_;
};

}  // namespace weft::gpu_test
