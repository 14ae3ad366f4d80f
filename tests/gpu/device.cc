// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/device.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "tests/gpu/reference.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

weft_context* g_context = nullptr;

// Device memory that is free; by device, size and who made it, since freeing may wait for kernels.
std::mutex g_memory_mutex;
std::multimap<std::tuple<int, std::size_t, bool>, std::byte*> g_memory;

std::byte* take_memory(int device, std::size_t bytes, bool of_weft) {
  {
    const std::scoped_lock lock(g_memory_mutex);
    const auto found = g_memory.find({device, bytes, of_weft});
    if (found != g_memory.end()) {
      std::byte* memory = found->second;
      g_memory.erase(found);
      return memory;
    }
  }
  void* memory = nullptr;
  use_device(device);
  if (of_weft) {
    const weft_device_kind kind = options().host ? WEFT_DEVICE_HOST : WEFT_DEVICE_CUDA;
    check(weft_memory_allocate(context(), kind, device, bytes, &memory), "weft_memory_allocate");
  } else if (options().host) {
    memory = std::aligned_alloc(4096, bytes);
  } else {
    CUDA(cudaMalloc(&memory, bytes));
  }
  return static_cast<std::byte*>(memory);
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (options().host) {
    std::memcpy(to, from, bytes);
    return;
  }
  CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream));
  CUDA(cudaStreamSynchronize(stream));
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Problem(WEFT_ERROR_DEVICE, std::string(what) + ": " + cudaGetErrorString(error));
}

weft_context* context() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (weft_context_create(nullptr, &g_context) == WEFT_OK) return;
    std::array<char, 4096> text{};
    static_cast<void>(weft_last_error(nullptr, text.data(), text.size()));
    std::fprintf(stderr, "gpu_test: weft_context_create: %s\n", text.data());
    std::exit(1);
  });
  return g_context;
}

void forget_context() {
  forget_references();
  if (g_context != nullptr) static_cast<void>(weft_context_destroy(g_context));
}

std::string last_error() {
  std::array<char, 4096> text{};
  static_cast<void>(weft_last_error(context(), text.data(), text.size()));
  return text.data();
}

void check(weft_result result, const std::string& what) {
  if (result == WEFT_OK) return;
  const std::string text = what + ": " + weft_result_name(result) + ": " + last_error();
  if (result == WEFT_ERROR_UNSUPPORTED) throw Unsupported(result, text);
  throw Problem(result, text);
}

int device_count() {
  static const int kCount = [] {
    if (options().host) return 4;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    return count;
  }();
  return kCount;
}

void use_device(int device) {
  if (!options().host) CUDA(cudaSetDevice(device));
}

Stream open_stream(int device) {
  Stream stream;
  if (options().host) {
    check(weft_stream_create(context(), &stream.weft), "weft_stream_create");
    return stream;
  }
  use_device(device);
  CUDA(cudaStreamCreateWithFlags(&stream.cuda, cudaStreamNonBlocking));
  check(weft_stream_from_cuda(context(), device, stream.cuda, &stream.weft),
        "weft_stream_from_cuda");
  return stream;
}

void close_stream(int device, const Stream& stream) {
  static_cast<void>(weft_stream_destroy(stream.weft));
  if (options().host) return;
  static_cast<void>(cudaSetDevice(device));
  static_cast<void>(cudaStreamDestroy(stream.cuda));
}

std::string state_of(const Stream& stream) {
  if (stream.cuda == nullptr) return "is one of the host";
  const cudaError_t state = cudaStreamQuery(stream.cuda);
  if (state == cudaSuccess) return "is empty";
  return state == cudaErrorNotReady ? "has work" : cudaGetErrorString(state);
}

void free_memory() {
  const std::scoped_lock lock(g_memory_mutex);
  for (const auto& [kind, memory] : g_memory) {
    const auto& [device, bytes, of_weft] = kind;
    use_device(device);
    if (of_weft) {
      check(weft_memory_free(context(), memory), "weft_memory_free");
    } else if (options().host) {
      std::free(memory);
    } else {
      CUDA(cudaFree(memory));
    }
  }
  g_memory.clear();
}

Zone::Zone(int device, std::size_t bytes, std::size_t offset)
    : device_(device), bytes_(bytes), offset_(offset), of_weft_(options().windows == "weft") {
  const std::size_t least = 2 * kGuard + offset + bytes;
  const std::size_t grain = least > (std::size_t{2} << 20) ? std::size_t{2} << 20 : kGuard;
  capacity_ = (least + grain - 1) / grain * grain;
  memory_ = take_memory(device, capacity_, of_weft_);
  image_.resize(least);
}

Zone::~Zone() {
  const std::scoped_lock lock(g_memory_mutex);
  g_memory.emplace(std::tuple(device_, capacity_, of_weft_), memory_);
}

void Zone::write(const Bytes& content, int poison, cudaStream_t stream) {
  poison_ = poison & 0xFF;
  std::memset(image_.data(), poison_, image_.size());
  if (!content.empty()) {
    std::memcpy(image_.data() + kGuard + offset_, content.data(), content.size());
  }
  copy(memory_, image_.data(), image_.size(), cudaMemcpyHostToDevice, stream);
}

void Zone::overwrite(std::ptrdiff_t at, std::span<const std::byte> bytes, cudaStream_t stream) {
  copy(data() + at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream);
}

std::span<const std::byte> Zone::read(cudaStream_t stream) {
  copy(image_.data(), memory_, image_.size(), cudaMemcpyDeviceToHost, stream);
  const std::size_t begin = kGuard + offset_;
  const std::size_t end = begin + bytes_;
  for (std::size_t i = 0; i < image_.size(); ++i) {
    if (i == begin) i = end;
    if (static_cast<int>(image_[i]) == poison_) continue;
    throw Problem(WEFT_ERROR_INTERNAL,
                  i < begin ? "changed, " + std::to_string(begin - i) + " bytes before the buffer"
                            : "changed, " + std::to_string(i - end) + " bytes behind the buffer");
  }
  return {image_.data() + begin, bytes_};
}

}  // namespace weft::gpu_test
