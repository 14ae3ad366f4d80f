// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Times all-reduce over the GPUs of this host: NCCL with plain buffers, NCCL with symmetric windows
// and Weft, in turn (A B C A B C) within one process, once with a thread for each GPU and once with
// a process for each. Small sizes are calls of a replayed graph, and eager calls besides; large
// ones are eager. Every size is checked on random input before it is timed.
//
// Three roles of one program. The supervisor, which the user starts, runs each mode as children of
// its own and ends them if they hang; a child is either all ranks as threads, or one rank, or the
// probe of the link. Ranks meet on a board in shared memory, in both modes alike.
//
// NCCL and Weft are loaded when the program runs: it needs neither to start, and one that fails
// does not stop the other.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <memory>
#include <nccl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <weft/weft.h>

namespace {

constexpr uint32_t kMaxRanks = 16;
constexpr size_t kIdBytes = 128;
static_assert(sizeof(ncclUniqueId) == kIdBytes && sizeof(weft_unique_id) == kIdBytes);

/// Buffers of a size together fill at least this, where they would lie in the L2 otherwise.
constexpr size_t kRotatedBytes = size_t{256} << 20;
/// Up to here calls are timed in a graph as well, unless --launch says otherwise.
constexpr size_t kLargestInGraph = size_t{8} << 20;
/// What one round moves, within bounds: enough for a steady mean.
constexpr size_t kBytesPerRound = size_t{2} << 30;
constexpr size_t kFewestCalls = 4;
constexpr size_t kMostCalls = 1000;

/// A stream that takes longer is given up, and the communicator aborted.
constexpr double kStreamSeconds = 20;
/// What an aborted communicator has to leave its stream.
constexpr double kDrainSeconds = 10;
/// Children whose ranks all stand still for so long are ended. Longer than a bootstrap's deadline.
constexpr double kStallSeconds = 75;
/// What the other children of a job have after the first failed.
constexpr double kGraceSeconds = 5;

// ---- small things ----

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* made = nullptr;
  const int length = vasprintf(&made, format, arguments);
  va_end(arguments);
  std::string result = length < 0 ? format : made;
  if (length >= 0) std::free(made);
  return result;
}

/// A step that went wrong, in words. Thrown within a rank, told to all ranks by Rank::together.
struct Failure {
  std::string what;
};

/// Another process of the job is gone: whoever waits for it ends.
struct JobEnded {};

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Failure{text("%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error))};
}
#define CHECK(call) check(call, #call)

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string bytes_text(size_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return text("%zu %s", bytes, kUnits[unit]);
}

std::string json_string(std::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += text("\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// ---- options ----

struct ElementType {
  const char* name;
  size_t bytes;
  ncclDataType_t nccl;
  weft_data_type weft;
  int32_t range;  ///< Inputs are integers up to here, so that sums over all ranks are exact.
};

constexpr std::array kTypes = {
    ElementType{"float32", 4, ncclFloat32, WEFT_FLOAT32, 1000},
    ElementType{"bfloat16", 2, ncclBfloat16, WEFT_BFLOAT16, 256 / kMaxRanks},
    ElementType{"float16", 2, ncclFloat16, WEFT_FLOAT16, 2048 / kMaxRanks},
};

struct Options {
  std::vector<size_t> sizes;
  ElementType type = kTypes[0];
  std::vector<bool> in_place = {false};
  std::vector<std::string> modes = {"thread", "process"};
  std::vector<std::string> libraries;  // Empty: all that can be had.
  bool graph = false, eager = false;   // Neither: by size.
  uint32_t gpus = 0;                   // 0: all.
  uint32_t rounds = 7;
  uint32_t graph_calls = 20;
  std::string weft_folder;
  std::string nccl_file = "libnccl.so.2";
  std::string json_file;
  std::string commit;
  double limit = 230;
  bool limits = false;
  bool multicast = false;

  // Of a child.
  std::string role;  // "thread", "link" or a rank; empty: supervisor.
  int board = -1;
};

constexpr const char* kUsage =
    "usage: gpu-all-reduce [OPTION]...\n"
    "  --sizes LIST      sizes and ranges MIN:MAX or MIN:MAX:FACTOR (8:64KiB,16MiB:1GiB)\n"
    "  --type TYPE       float32, bfloat16 or float16 (float32)\n"
    "  --place WHICH     out, in or both (out)\n"
    "  --modes LIST      thread, process: a thread or a process for each GPU; none (both)\n"
    "  --libraries LIST  nccl, nccl-window, weft (all; weft if there is --weft)\n"
    "  --launch WHICH    graph, eager or both (both up to 8 MiB, eager above)\n"
    "  --weft FOLDER     that holds libweft.so.0\n"
    "  --nccl FILE       (libnccl.so.2)\n"
    "  --gpus N          (all, up to 16)\n"
    "  --rounds N        of which the median counts (7)\n"
    "  --graph-calls N   in one graph, each on buffers of its own (20)\n"
    "  --limits          first measure what the link from GPU 0 to GPU 1 can do\n"
    "  --json FILE       write the results there, a JSON object a line\n"
    "  --commit TEXT     of Weft, for the results\n"
    "  --limit SECONDS   end everything after so long (230)\n"
    "  --multicast       leave NVLink multicast (NVLS) to NCCL; without, NCCL_NVLS_ENABLE=0\n";

[[noreturn]] void usage_error(std::string_view option, std::string_view what) {
  std::fprintf(stderr, "gpu-all-reduce: %.*s: %.*s; see gpu-all-reduce --help\n",
               static_cast<int>(option.size()), option.data(), static_cast<int>(what.size()),
               what.data());
  std::exit(2);
}

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = list.find(separator);
    parts.push_back(list.substr(0, end));
    if (end == std::string_view::npos) return parts;
    list.remove_prefix(end + 1);
  }
}

uint64_t integer_of(std::string_view option, std::string_view value, uint64_t least,
                    uint64_t most) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < least ||
      number > most) {
    usage_error(option,
                text("needs a number from %llu to %llu", static_cast<unsigned long long>(least),
                     static_cast<unsigned long long>(most)));
  }
  return number;
}

size_t size_of(std::string_view value) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 4> kUnits = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}}};
  unsigned shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (!value.ends_with(unit)) continue;
    value.remove_suffix(unit.size());
    shift = bits;
    break;
  }
  return integer_of("--sizes", value, 1, uint64_t{1} << (36 - shift)) << shift;
}

std::vector<size_t> sizes_of(std::string_view list) {
  std::vector<size_t> sizes;
  for (const std::string_view part : split(list, ',')) {
    const std::vector<std::string_view> range = split(part, ':');
    if (range.size() > 3) usage_error("--sizes", "a range is MIN:MAX or MIN:MAX:FACTOR");
    const size_t max = size_of(range.size() > 1 ? range[1] : range[0]);
    const size_t factor = range.size() > 2 ? integer_of("--sizes", range[2], 2, 1024) : 2;
    for (size_t size = size_of(range[0]); size <= max; size *= factor)
      sizes.push_back(size);
  }
  if (sizes.empty()) usage_error("--sizes", "holds no size");
  return sizes;
}

std::vector<std::string> names_of(std::string_view option, std::string_view list,
                                  const std::vector<std::string_view>& known) {
  std::vector<std::string> names;
  for (const std::string_view name : split(list, ',')) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      usage_error(option,
                  text("does not know \"%.*s\"", static_cast<int>(name.size()), name.data()));
    }
    names.emplace_back(name);
  }
  return names;
}

ElementType type_of(std::string_view name) {
  for (const ElementType& type : kTypes) {
    if (name == type.name) return type;
  }
  usage_error("--type", "is float32, bfloat16 or float16");
}

/// `value` counts only for options that take one.
void set_option(Options& options, std::string_view option, std::string_view value) {
  const auto one_of_both = [&](std::string_view a, std::string_view b) {
    if (value != a && value != b && value != "both") {
      usage_error(option, text("is %s, %s or both", a.data(), b.data()));
    }
  };
  if (option == "--sizes") {
    options.sizes = sizes_of(value);
  } else if (option == "--type") {
    options.type = type_of(value);
  } else if (option == "--place") {
    one_of_both("out", "in");
    options.in_place.clear();
    if (value != "in") options.in_place.push_back(false);
    if (value != "out") options.in_place.push_back(true);
  } else if (option == "--modes") {
    options.modes.clear();
    if (value != "none") options.modes = names_of(option, value, {"thread", "process"});
  } else if (option == "--libraries") {
    options.libraries = names_of(option, value, {"nccl", "nccl-window", "weft"});
  } else if (option == "--launch") {
    one_of_both("graph", "eager");
    options.graph = value != "eager";
    options.eager = value != "graph";
  } else if (option == "--weft") {
    options.weft_folder = value;
  } else if (option == "--nccl") {
    options.nccl_file = value;
  } else if (option == "--gpus") {
    options.gpus = static_cast<uint32_t>(integer_of(option, value, 2, kMaxRanks));
  } else if (option == "--rounds") {
    options.rounds = static_cast<uint32_t>(integer_of(option, value, 1, 1000));
  } else if (option == "--graph-calls") {
    options.graph_calls = static_cast<uint32_t>(integer_of(option, value, 1, 1000));
  } else if (option == "--json") {
    options.json_file = value;
  } else if (option == "--commit") {
    options.commit = value;
  } else if (option == "--limit") {
    options.limit = static_cast<double>(integer_of(option, value, 1, 86400));
  } else if (option == "--role") {
    options.role = value;
  } else if (option == "--board") {
    options.board = static_cast<int>(integer_of(option, value, 0, 1 << 20));
  } else {
    usage_error(option, "unknown option");
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (option == "--limits") {
      options.limits = true;
    } else if (option == "--multicast") {
      options.multicast = true;
    } else if (i + 1 < argc) {
      set_option(options, option, argv[++i]);
    } else {
      usage_error(option, "unknown, or without its value");
    }
  }
  if (options.sizes.empty()) options.sizes = sizes_of("8:64KiB,16MiB:1GiB");
  for (const size_t size : options.sizes) {
    if (size % options.type.bytes != 0) {
      usage_error("--sizes", text("%zu bytes are no whole number of %s", size, options.type.name));
    }
  }
  if (options.libraries.empty()) {
    options.libraries = {"nccl", "nccl-window"};
    if (!options.weft_folder.empty()) options.libraries.emplace_back("weft");
  }
  const bool weft = std::find(options.libraries.begin(), options.libraries.end(), "weft") !=
                    options.libraries.end();
  if (weft && options.weft_folder.empty()) usage_error("--libraries", "weft needs --weft FOLDER");
  return options;
}

// ---- the board: what ranks and supervisor share ----

/// Lies in a memory file that children inherit; all zero at the start of a job.
struct Board {
  std::atomic<uint32_t> arrived;     ///< Ranks at the barrier.
  std::atomic<uint32_t> generation;  ///< Barriers passed.
  std::atomic<uint32_t> trouble;     ///< The last step in which a rank failed.
  std::atomic<uint32_t> ended;       ///< A child is gone: wait for nobody.
  char id[kIdBytes];                 ///< Of the communicator that is being made.

  struct Place {
    std::atomic<uint32_t> step;  ///< Grows with every step.
    char where[160];             ///< What this rank is doing; read by the supervisor at any time.
    uint32_t failed;
    char failure[1536];
    double value;
    uint64_t wrong;
  };
  Place places[kMaxRanks];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

void copy_text(char* to, size_t size, std::string_view from) {
  const size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

Board* map_board(int file) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) return static_cast<Board*>(memory);
  std::fprintf(stderr, "gpu-all-reduce: mmap of the board: %s\n", std::strerror(errno));
  std::exit(1);
}

// ---- kernels: inputs, checks, the link ----

/// Element `index` of rank `rank`'s input: an integer within the type's range, either sign.
__host__ __device__ float input_value(uint32_t seed, uint32_t rank, uint64_t index, int32_t range) {
  uint32_t bits = static_cast<uint32_t>(index) * 0x9e3779b1U ^
                  static_cast<uint32_t>(index >> 32) * 0x27d4eb2fU ^
                  (seed + rank + 1) * 0x85ebca6bU;
  bits ^= bits >> 16;
  bits *= 0x7feb352dU;
  bits ^= bits >> 15;
  bits *= 0x846ca68bU;
  bits ^= bits >> 16;
  return static_cast<float>(static_cast<int32_t>(bits % (2 * range + 1)) - range);
}

__host__ __device__ float sum_value(uint32_t seed, uint32_t ranks, uint64_t index, int32_t range) {
  float sum = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    sum += input_value(seed, rank, index, range);
  return sum;
}

template <class T>
__global__ void fill_inputs(T* to, uint64_t count, uint64_t first, uint32_t seed, uint32_t rank,
                            int32_t range) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = static_cast<T>(input_value(seed, rank, first + i, range));
}

struct Mismatch {
  unsigned long long count;
  unsigned long long first;  ///< Index over all sets, ~0 if there is none.
};

template <class T>
__global__ void compare_sums(const T* got, uint64_t count, uint64_t first, uint32_t seed,
                             uint32_t ranks, int32_t range, Mismatch* mismatch) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (static_cast<float>(got[i]) == sum_value(seed, ranks, first + i, range)) continue;
    atomicAdd(&mismatch->count, 1ULL);
    atomicMin(&mismatch->first, static_cast<unsigned long long>(first + i));
  }
}

/// Calls `action` with a null pointer of the element type.
template <class Action>
void with_type(const ElementType& type, Action action) {
  if (type.weft == WEFT_FLOAT32) {
    action(static_cast<float*>(nullptr));
  } else if (type.weft == WEFT_BFLOAT16) {
    action(static_cast<__nv_bfloat16*>(nullptr));
  } else {
    action(static_cast<__half*>(nullptr));
  }
}

constexpr int kKernelCtas = 1024;
constexpr int kKernelThreads = 256;

constexpr int kLinkThreads = 512;
constexpr int kLinkLines = 4;  // That a thread has under way.

__global__ void __launch_bounds__(kLinkThreads)
    write_to_peer(uint4* to, const uint4* from, size_t lines) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (kLinkLines - 1) * stride < lines; i += kLinkLines * stride) {
    uint4 held[kLinkLines];
#pragma unroll
    for (int k = 0; k < kLinkLines; ++k)
      held[k] = from[i + k * stride];
#pragma unroll
    for (int k = 0; k < kLinkLines; ++k)
      to[i + k * stride] = held[k];
  }
  for (; i < lines; i += stride)
    to[i] = from[i];
}

// ---- libraries that are loaded at run time ----

class SharedObject {
 public:
  explicit SharedObject(const std::string& file)
      : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Failure{text("cannot load it: %s", dlerror())};
  }

  /// Null if there is none.
  template <class Function>
  void find(Function*& to, const char* name) const {
    to = reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  template <class Function>
  void get(Function*& to, const char* name) const {
    find(to, name);
    if (to == nullptr) throw Failure{text("has no %s", name)};
  }

 private:
  void* handle_;  // For the life of the process.
};

/// A T that could be made, or why not.
template <class T>
class Loaded {
 public:
  template <class... Arguments>
  explicit Loaded(const Arguments&... arguments) {
    try {
      value_ = std::make_unique<T>(arguments...);
    } catch (const Failure& failure) {
      failure_ = failure.what;
    }
  }
  [[nodiscard]] const T& get() const {
    if (value_ == nullptr) throw Failure{failure_};
    return *value_;
  }
  [[nodiscard]] const T* find() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  std::string failure_;
};

struct NcclApi {
  explicit NcclApi(const std::string& file) {
    const SharedObject library(file);
    library.get(get_version, "ncclGetVersion");
    library.get(get_error_string, "ncclGetErrorString");
    library.get(get_unique_id, "ncclGetUniqueId");
    library.get(comm_init_rank, "ncclCommInitRank");
    library.get(comm_abort, "ncclCommAbort");
    library.get(comm_destroy, "ncclCommDestroy");
    library.get(comm_get_async_error, "ncclCommGetAsyncError");
    library.get(all_reduce, "ncclAllReduce");
    library.find(get_last_error, "ncclGetLastError");
    library.find(mem_alloc, "ncclMemAlloc");
    library.find(mem_free, "ncclMemFree");
    library.find(window_register, "ncclCommWindowRegister");
    library.find(window_deregister, "ncclCommWindowDeregister");
  }

  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) comm_init_rank;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclMemAlloc) mem_alloc;
  decltype(&ncclMemFree) mem_free;
  decltype(&ncclCommWindowRegister) window_register;
  decltype(&ncclCommWindowDeregister) window_deregister;
};

/// weft_comm_config with the fields that name a device. Spelled out, so that this builds with
/// headers from before them.
struct WeftCommConfig {
  uint32_t struct_size = sizeof(WeftCommConfig);
  uint32_t setting_count = 0;
  const char* const* settings = nullptr;
  int32_t device_kind = 1;  // WEFT_DEVICE_CUDA.
  int32_t device = 0;
};

/// Weft and the context of this process.
class WeftApi {
 public:
  explicit WeftApi(const std::string& folder) {
    if (folder.empty()) throw Failure{"not asked for"};
    const SharedObject library(folder + "/libweft.so.0");
    library.get(version, "weft_version");
    library.get(result_name, "weft_result_name");
    library.get(last_error, "weft_last_error");
    library.get(context_create, "weft_context_create");
    library.get(context_destroy, "weft_context_destroy");
    library.get(get_unique_id, "weft_get_unique_id");
    library.get(comm_init_rank, "weft_comm_init_rank");
    library.get(comm_destroy, "weft_comm_destroy");
    library.get(comm_abort, "weft_comm_abort");
    library.get(comm_get_async_error, "weft_comm_get_async_error");
    library.get(stream_from_cuda, "weft_stream_from_cuda");
    library.get(stream_destroy, "weft_stream_destroy");
    library.get(all_reduce, "weft_all_reduce");
    check(context_create(nullptr, &context), "weft_context_create");
  }
  WeftApi(const WeftApi&) = delete;
  WeftApi& operator=(const WeftApi&) = delete;
  ~WeftApi() { static_cast<void>(context_destroy(context)); }

  void check(weft_result result, const char* call) const {
    if (result == WEFT_OK) return;
    std::array<char, 1024> why{};
    last_error(context, why.data(), why.size());
    throw Failure{text("%s: %s: %s", call, result_name(result), why.data())};
  }

  weft_context* context = nullptr;
  decltype(&weft_version) version;
  decltype(&weft_result_name) result_name;
  decltype(&weft_last_error) last_error;
  decltype(&weft_context_create) context_create;
  decltype(&weft_context_destroy) context_destroy;
  decltype(&weft_get_unique_id) get_unique_id;
  decltype(&weft_comm_init_rank) comm_init_rank;
  decltype(&weft_comm_destroy) comm_destroy;
  decltype(&weft_comm_abort) comm_abort;
  decltype(&weft_comm_get_async_error) comm_get_async_error;
  weft_result (*stream_from_cuda)(weft_context*, int32_t device, void* cuda_stream,
                                  weft_stream** out);
  decltype(&weft_stream_destroy) stream_destroy;
  decltype(&weft_all_reduce) all_reduce;
};

/// The driver's version and clocks; declared by hand, since nvml.h is not everywhere.
class NvmlApi {
 public:
  NvmlApi() {
    const SharedObject library("libnvidia-ml.so.1");
    int (*init)() = nullptr;
    library.get(init, "nvmlInit_v2");
    library.get(driver_version_, "nvmlSystemGetDriverVersion");
    library.get(device_by_bus_id_, "nvmlDeviceGetHandleByPciBusId_v2");
    library.get(clock_info_, "nvmlDeviceGetClockInfo");
    if (init() != 0) throw Failure{"nvmlInit_v2 failed"};
  }

  [[nodiscard]] std::string driver_version() const {
    std::array<char, 81> version{};
    return driver_version_(version.data(), version.size() - 1) == 0 ? version.data() : "unknown";
  }

  enum class Clock { kMultiprocessors = 1, kMemory = 2 };

  /// 0 if unknown.
  [[nodiscard]] unsigned megahertz(int device, Clock clock) const {
    std::array<char, 32> bus_id{};
    void* handle = nullptr;
    unsigned value = 0;
    if (cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), device) != cudaSuccess ||
        device_by_bus_id_(bus_id.data(), &handle) != 0 ||
        clock_info_(handle, static_cast<int>(clock), &value) != 0) {
      return 0;
    }
    return value;
  }

 private:
  int (*driver_version_)(char*, unsigned);
  int (*device_by_bus_id_)(const char*, void**);
  int (*clock_info_)(void*, int, unsigned*);
};

/// What the ranks of one process share.
struct Process {
  explicit Process(const Options& options) : nccl(options.nccl_file), weft(options.weft_folder) {}
  Loaded<NcclApi> nccl;
  Loaded<WeftApi> weft;
  Loaded<NvmlApi> nvml;
};

// ---- the libraries, alike ----

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

/// One library's communicator of one rank. Every member may throw Failure.
class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  [[nodiscard]] virtual std::string version() const = 0;
  /// On one rank.
  virtual void make_id(char* id) = 0;
  /// On all.
  virtual void join(const char* id) = 0;
  /// On all, after join: the buffers that this library is timed on.
  virtual Arena take_arena(const Arena& plain, size_t /*bytes*/) { return plain; }
  virtual void all_reduce(const void* send, void* recv, size_t count, const ElementType& type) = 0;
  /// Throws what happened to the communicator behind our back.
  virtual void check_communicator() = 0;
  /// Makes work that hangs end. Nothing may follow.
  virtual void abort() = 0;
  /// On all, in the end.
  virtual void leave() = 0;
};

class NcclLibrary : public Library {
 public:
  NcclLibrary(const NcclApi& api, const Seat& seat) : api_(api), seat_(seat) {}

  [[nodiscard]] std::string version() const override {
    int code = 0;
    check(api_.get_version(&code), "ncclGetVersion");
    return text("%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
  }

  void make_id(char* id) override {
    ncclUniqueId made;
    check(api_.get_unique_id(&made), "ncclGetUniqueId");
    std::memcpy(id, &made, sizeof made);
  }

  void join(const char* id) override {
    ncclUniqueId shared;
    std::memcpy(&shared, id, sizeof shared);
    check(api_.comm_init_rank(&comm_, static_cast<int>(seat_.ranks), shared,
                              static_cast<int>(seat_.rank)),
          "ncclCommInitRank");
  }

  void all_reduce(const void* send, void* recv, size_t count, const ElementType& type) override {
    check(api_.all_reduce(send, recv, count, type.nccl, ncclSum, comm_, seat_.stream),
          "ncclAllReduce");
  }

  void check_communicator() override {
    ncclResult_t error = ncclSuccess;
    check(api_.comm_get_async_error(comm_, &error), "ncclCommGetAsyncError");
    check(error, "asynchronous error");
  }

  void abort() override {
    if (comm_ != nullptr) static_cast<void>(api_.comm_abort(comm_));
    comm_ = nullptr;
  }

  void leave() override {
    if (comm_ != nullptr) check(api_.comm_destroy(comm_), "ncclCommDestroy");
    comm_ = nullptr;
  }

 protected:
  void check(ncclResult_t result, const char* call) const {
    if (result == ncclSuccess) return;
    const char* more = api_.get_last_error != nullptr ? api_.get_last_error(comm_) : "";
    throw Failure{text("%s: %s: %s", call, api_.get_error_string(result), more)};
  }

  const NcclApi& api_;
  const Seat seat_;
  ncclComm_t comm_ = nullptr;
};

/// NCCL over buffers that all ranks have registered as symmetric windows.
class NcclWindowLibrary final : public NcclLibrary {
 public:
  using NcclLibrary::NcclLibrary;

  Arena take_arena(const Arena& /*plain*/, size_t bytes) override {
    if (api_.window_register == nullptr || api_.mem_alloc == nullptr) {
      throw Failure{"this NCCL has no ncclCommWindowRegister"};
    }
    for (Window& window : windows_) {
      check(api_.mem_alloc(&window.memory, bytes), "ncclMemAlloc");
      check(api_.window_register(comm_, window.memory, bytes, &window.handle,
                                 NCCL_WIN_COLL_SYMMETRIC),
            "ncclCommWindowRegister");
      // Where it cannot, NCCL says success and gives none; the numbers would be its default's.
      if (window.handle == nullptr) throw Failure{"ncclCommWindowRegister gave no window"};
    }
    return {static_cast<std::byte*>(windows_[0].memory),
            static_cast<std::byte*>(windows_[1].memory)};
  }

  void leave() override {
    for (Window& window : windows_) {
      if (comm_ != nullptr && window.handle != nullptr) {
        check(api_.window_deregister(comm_, window.handle), "ncclCommWindowDeregister");
      }
      if (window.memory != nullptr) check(api_.mem_free(window.memory), "ncclMemFree");
      window = {};
    }
    NcclLibrary::leave();
  }

 private:
  struct Window {
    void* memory = nullptr;
    ncclWindow_t handle = nullptr;
  };
  std::array<Window, 2> windows_;
};

class WeftLibrary final : public Library {
 public:
  WeftLibrary(const WeftApi& api, const Seat& seat) : api_(api), seat_(seat) {}

  [[nodiscard]] std::string version() const override { return api_.version(); }

  void make_id(char* id) override {
    weft_unique_id made;
    api_.check(api_.get_unique_id(api_.context, &made), "weft_get_unique_id");
    std::memcpy(id, &made, sizeof made);
  }

  void join(const char* id) override {
    weft_unique_id shared;
    std::memcpy(&shared, id, sizeof shared);
    WeftCommConfig config;
    config.device = seat_.device;
    api_.check(api_.comm_init_rank(api_.context, reinterpret_cast<const weft_comm_config*>(&config),
                                   seat_.ranks, &shared, seat_.rank, &comm_),
               "weft_comm_init_rank");
    api_.check(api_.stream_from_cuda(api_.context, seat_.device, seat_.stream, &stream_),
               "weft_stream_from_cuda");
  }

  void all_reduce(const void* send, void* recv, size_t count, const ElementType& type) override {
    api_.check(api_.all_reduce(send, recv, count, type.weft, WEFT_SUM, comm_, stream_),
               "weft_all_reduce");
  }

  void check_communicator() override {
    weft_result error = WEFT_OK;
    api_.check(api_.comm_get_async_error(comm_, &error), "weft_comm_get_async_error");
    api_.check(error, "asynchronous error");
  }

  void abort() override {
    if (comm_ != nullptr) static_cast<void>(api_.comm_abort(comm_));
  }

  void leave() override {
    weft_stream* const stream = std::exchange(stream_, nullptr);
    weft_comm* const comm = std::exchange(comm_, nullptr);
    api_.check(api_.stream_destroy(stream), "weft_stream_destroy");
    api_.check(api_.comm_destroy(comm), "weft_comm_destroy");
  }

 private:
  const WeftApi& api_;
  const Seat seat_;
  weft_comm* comm_ = nullptr;
  weft_stream* stream_ = nullptr;
};

std::unique_ptr<Library> make_library(const std::string& name, const Process& process,
                                      const Seat& seat) {
  if (name == "nccl") return std::make_unique<NcclLibrary>(process.nccl.get(), seat);
  if (name == "nccl-window") return std::make_unique<NcclWindowLibrary>(process.nccl.get(), seat);
  return std::make_unique<WeftLibrary>(process.weft.get(), seat);
}

// ---- a rank ----

/// What is timed: all libraries in turn on this, then the next.
struct Case {
  size_t bytes;
  bool graph;
  bool in_place;
};

/// A library that takes part.
struct Contestant {
  std::string name;
  std::unique_ptr<Library> contender;
  std::string version;
  Arena arena;
  bool out = false;  ///< Failed: takes part no more.

  // Of the current case.
  bool wrong = false;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> rounds;  ///< Time of a call in us, the slowest rank's.

  [[nodiscard]] bool runs() const { return !out && !wrong; }
  [[nodiscard]] bool is_nccl() const { return name.starts_with("nccl"); }
};

class Rank {
 public:
  Rank(const Options& options, const std::string& mode, Board& board, const Process& process,
       uint32_t rank)
      : options_(options),
        mode_(mode),
        board_(board),
        process_(process),
        seat_{rank, options.gpus, static_cast<int>(rank), nullptr} {}

  /// Failures that were printed.
  uint32_t run() {
    if (!together("set up the device", [&] { set_up(); })) return failures_;
    for (const std::string& name : options_.libraries)
      enter(name);
    print_heading();
    for (const bool in_place : options_.in_place) {
      for (const size_t bytes : options_.sizes) {
        if (in_graph(bytes)) measure({bytes, true, in_place});
        if (eagerly()) measure({bytes, false, in_place});
      }
    }
    for (Contestant& contestant : contestants_) {
      if (!contestant.out) attempt(contestant, "leave", [&] { contestant.contender->leave(); });
    }
    return failures_;
  }

 private:
  // -- steps --

  Board::Place& place() { return board_.places[seat_.rank]; }

  /// A barrier of all ranks.
  void meet() {
    const uint32_t generation = board_.generation.load();
    if (board_.arrived.fetch_add(1) + 1 == seat_.ranks) {
      board_.arrived.store(0);
      board_.generation.fetch_add(1);
      return;
    }
    for (uint32_t spins = 0; board_.generation.load() == generation; ++spins) {
      if (board_.ended.load() != 0) throw JobEnded{};
      if (spins > 20'000) std::this_thread::yield();
    }
  }

  /// All ranks do `step`, at once; then all know whether it went well everywhere, and `collect` may
  /// read what the others left on the board. Steps hold no barrier of their own.
  template <class Step, class Collect>
  bool together(const std::string& where, Step step, Collect collect) {
    copy_text(place().where, sizeof place().where, where);
    place().failed = 0;
    place().step.store(++step_);
    try {
      step();
    } catch (const Failure& failure) {
      copy_text(place().failure, sizeof place().failure, failure.what);
      place().failed = 1;
      board_.trouble.store(step_);
    }
    meet();
    const bool good = std::none_of(board_.places, board_.places + seat_.ranks,
                                   [](const Board::Place& each) { return each.failed != 0; });
    if (good) {
      collect();
    } else {
      ++failures_;
      print_failures(where);
    }
    meet();
    return good;
  }
  template <class Step>
  bool together(const std::string& where, Step step) {
    return together(where, step, [] {});
  }

  /// `together` for one library. If it fails anywhere, the library is out everywhere.
  template <class Step, class Collect>
  bool attempt(Contestant& contestant, const std::string& what, Step step, Collect collect) {
    const auto step_or_abort = [&] {
      try {
        step();
      } catch (const Failure&) {
        abort(contestant);  // At once: others may hang in work that waits for mine.
        throw;
      }
    };
    const std::string where = contestant.name + ", " + mode_ + " mode: " + what;
    if (together(where, step_or_abort, collect)) return true;
    abort(contestant);
    drain(contestant.name);
    return false;
  }
  template <class Step>
  bool attempt(Contestant& contestant, const std::string& what, Step step) {
    return attempt(contestant, what, step, [] {});
  }

  static void abort(Contestant& contestant) {
    if (std::exchange(contestant.out, true) || contestant.contender == nullptr) return;
    contestant.contender->abort();
  }

  void print_failures(const std::string& where) {
    if (seat_.rank != 0) return;
    for (uint32_t rank = 0; rank < seat_.ranks; ++rank) {
      if (board_.places[rank].failed == 0) continue;
      std::printf("FAILED %s: rank %u: %s\n", where.c_str(), rank, board_.places[rank].failure);
    }
    std::fflush(stdout);
  }

  /// Waits for the stream, but not for ever, nor if another rank failed in this step.
  void wait(Library& library) {
    const Clock::time_point begin = Clock::now();
    while (true) {
      const cudaError_t state = cudaStreamQuery(seat_.stream);
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
      library.check_communicator();
      if (board_.trouble.load() == step_) throw Failure{"given up, since another rank failed"};
      if (seconds_since(begin) > kStreamSeconds) {
        throw Failure{text("the stream is not done after %.0f s", kStreamSeconds)};
      }
      usleep(50);  // Often enough: events take the time.
    }
    library.check_communicator();
  }

  /// Empties the stream of an aborted library's work. Where that is impossible the job ends, since
  /// nothing after it could be timed.
  void drain(const std::string& name) {
    const Clock::time_point begin = Clock::now();
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady && seconds_since(begin) < kDrainSeconds) {
      state = cudaStreamQuery(seat_.stream);
      usleep(1000);
    }
    if (state == cudaSuccess) return;
    std::fprintf(stderr, "gpu-all-reduce: rank %u: no way on after %s failed: %s\n", seat_.rank,
                 name.c_str(), cudaGetErrorString(state));
    board_.ended.store(1);
    _exit(1);
  }

  // -- set-up --

  void set_up() {
    CHECK(cudaSetDevice(seat_.device));
    CHECK(cudaStreamCreateWithFlags(&seat_.stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
    CHECK(cudaMalloc(&mismatch_, sizeof(Mismatch)));
    for (const size_t bytes : options_.sizes)
      arena_bytes_ = std::max(arena_bytes_, sets(bytes) * stride(bytes));
    CHECK(cudaMalloc(&plain_.send, arena_bytes_));
    CHECK(cudaMalloc(&plain_.recv, arena_bytes_));
  }

  /// Makes the library's communicator.
  void enter(const std::string& name) {
    Contestant& contestant = contestants_.emplace_back();
    contestant.name = name;
    double seconds = 0, used = 0;
    const bool joined =
        attempt(contestant, "make an id",
                [&] {
                  contestant.contender = make_library(name, process_, seat_);
                  contestant.version = contestant.contender->version();
                  if (seat_.rank == 0) contestant.contender->make_id(board_.id);
                }) &&
        attempt(
            contestant, "join",
            [&] {
              const size_t before = free_memory();
              const Clock::time_point begin = Clock::now();
              contestant.contender->join(board_.id);
              place().value = seconds_since(begin);
              used = static_cast<double>(before) - static_cast<double>(free_memory());
            },
            [&] { seconds = slowest(); }) &&
        attempt(contestant, "take buffers",
                [&] { contestant.arena = contestant.contender->take_arena(plain_, arena_bytes_); });
    if (!joined || seat_.rank != 0) return;
    std::printf("%s %s, %s mode: joined in %.3f s, %.0f MiB of memory of GPU 0\n", name.c_str(),
                contestant.version.c_str(), mode_.c_str(), seconds, used / (1 << 20));
    write_json(
        text("{\"kind\": \"join\", \"peer\": %s, \"version\": %s, \"mode\": %s, "
             "\"ranks\": %u, \"seconds\": %.4f, \"memory_bytes\": %.0f}",
             json_string(name).c_str(), json_string(contestant.version).c_str(),
             json_string(mode_).c_str(), seat_.ranks, seconds, used));
  }

  static size_t free_memory() {
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    return free;
  }

  [[nodiscard]] bool in_graph(size_t bytes) const {
    return options_.graph || (!options_.eager && bytes <= kLargestInGraph);
  }
  [[nodiscard]] bool eagerly() const { return options_.eager || !options_.graph; }

  // -- buffers --
  //
  // A case has several sets of buffers; a *pass* is one call on each. So the buffers of large sizes
  // do not lie in the L2, and a replay of the graph (one pass) can be checked in place as well.

  [[nodiscard]] size_t sets(size_t bytes) const {
    return std::clamp<size_t>(kRotatedBytes / bytes, 1, options_.graph_calls);
  }
  static size_t stride(size_t bytes) { return (bytes + 511) / 512 * 512; }
  [[nodiscard]] size_t count(const Case& which) const { return which.bytes / options_.type.bytes; }

  static std::byte* recv(const Contestant& contestant, const Case& which, size_t set) {
    return contestant.arena.recv + set * stride(which.bytes);
  }
  static std::byte* send(const Contestant& contestant, const Case& which, size_t set) {
    return which.in_place ? recv(contestant, which, set)
                          : contestant.arena.send + set * stride(which.bytes);
  }

  /// New inputs, and outputs that are wrong everywhere.
  void fill(Contestant& contestant, const Case& which) {
    const ElementType& type = options_.type;
    for (size_t set = 0; set < sets(which.bytes); ++set) {
      if (!which.in_place) {
        CHECK(cudaMemsetAsync(recv(contestant, which, set), 0xff, which.bytes, seat_.stream));
      }
      with_type(type, [&]<class T>(T*) {
        fill_inputs<<<kKernelCtas, kKernelThreads, 0, seat_.stream>>>(
            reinterpret_cast<T*>(send(contestant, which, set)), count(which), set * count(which),
            seed_, seat_.rank, type.range);
      });
    }
    CHECK(cudaGetLastError());
    wait(*contestant.contender);
  }

  /// Throws nothing for wrong sums: says how many on the board.
  void compare(Contestant& contestant, const Case& which) {
    const ElementType& type = options_.type;
    Mismatch found{0, ~0ULL};
    CHECK(cudaMemcpyAsync(mismatch_, &found, sizeof found, cudaMemcpyHostToDevice, seat_.stream));
    for (size_t set = 0; set < sets(which.bytes); ++set) {
      with_type(type, [&]<class T>(T*) {
        compare_sums<<<kKernelCtas, kKernelThreads, 0, seat_.stream>>>(
            reinterpret_cast<const T*>(recv(contestant, which, set)), count(which),
            set * count(which), seed_, seat_.ranks, type.range, mismatch_);
      });
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(&found, mismatch_, sizeof found, cudaMemcpyDeviceToHost, seat_.stream));
    wait(*contestant.contender);
    place().wrong = found.count;
    if (found.count != 0) describe_mismatch(contestant, which, found);
  }

  void describe_mismatch(Contestant& contestant, const Case& which, const Mismatch& found) {
    const size_t set = found.first / count(which);
    const size_t index = found.first % count(which);
    float got = 0;
    with_type(options_.type, [&]<class T>(T*) {
      T element;
      CHECK(cudaMemcpy(&element, recv(contestant, which, set) + index * sizeof(T), sizeof element,
                       cudaMemcpyDeviceToHost));
      got = static_cast<float>(element);
    });
    const std::string words =
        text("%llu of %zu elements are wrong, first %zu of buffer %zu: expected %.9g, got %.9g",
             found.count, count(which) * sets(which.bytes), index, set,
             static_cast<double>(sum_value(seed_, seat_.ranks, found.first, options_.type.range)),
             static_cast<double>(got));
    copy_text(place().failure, sizeof place().failure, words);
  }

  // -- one case --

  void pass(Contestant& contestant, const Case& which) {
    if (contestant.graph != nullptr) {
      CHECK(cudaGraphLaunch(contestant.graph, seat_.stream));
      return;
    }
    for (size_t set = 0; set < sets(which.bytes); ++set) {
      contestant.contender->all_reduce(send(contestant, which, set), recv(contestant, which, set),
                                       count(which), options_.type);
    }
  }

  void capture(Contestant& contestant, const Case& which) {
    CHECK(cudaStreamBeginCapture(seat_.stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      pass(contestant, which);
    } catch (const Failure&) {
      static_cast<void>(cudaStreamEndCapture(seat_.stream, &graph));
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    CHECK(cudaStreamEndCapture(seat_.stream, &graph));
    const cudaError_t made = cudaGraphInstantiate(&contestant.graph, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(made, "cudaGraphInstantiate");
    CHECK(cudaGraphUpload(contestant.graph, seat_.stream));
    wait(*contestant.contender);
  }

  [[nodiscard]] size_t passes(size_t bytes) const {
    const size_t calls = std::clamp(kBytesPerRound / bytes, kFewestCalls, kMostCalls);
    return (calls + sets(bytes) - 1) / sets(bytes);
  }

  /// Connects, captures, checks and warms up.
  void prepare(Contestant& contestant, const Case& which) {
    const std::string size = text(" %s", bytes_text(which.bytes).c_str());
    const auto run_passes = [&](size_t number) {
      for (size_t i = 0; i < number; ++i)
        pass(contestant, which);
      wait(*contestant.contender);
    };
    contestant.rounds.clear();
    contestant.wrong = false;
    if (!attempt(contestant, "first calls of" + size, [&] { run_passes(1); })) return;
    if (which.graph && !attempt(contestant, "capture" + size, [&] { capture(contestant, which); }))
      return;
    if (!attempt(contestant, "fill" + size, [&] { fill(contestant, which); })) return;
    attempt(
        contestant, "check" + size,
        [&] {
          run_passes(1);
          compare(contestant, which);
        },
        [&] { note_wrong(contestant, which); });
    if (!contestant.runs()) return;
    attempt(contestant, "warm up" + size, [&] { run_passes(passes(which.bytes) / 4 + 1); });
  }

  void note_wrong(Contestant& contestant, const Case& which) {
    for (uint32_t rank = 0; rank < seat_.ranks; ++rank) {
      if (board_.places[rank].wrong == 0) continue;
      contestant.wrong = true;
      if (seat_.rank != 0) continue;
      std::printf("WRONG %s, %s mode, %s, %s, %s: rank %u: %s\n", contestant.name.c_str(),
                  mode_.c_str(), bytes_text(which.bytes).c_str(), launch_name(which),
                  place_name(which), rank, board_.places[rank].failure);
    }
    failures_ += contestant.wrong;
  }

  void time_round(Contestant& contestant, const Case& which) {
    const std::string size = text(" %s", bytes_text(which.bytes).c_str());
    // In place, sums of sums would soon be infinite.
    if (which.in_place && !attempt(contestant, "fill" + size, [&] { fill(contestant, which); }))
      return;
    attempt(
        contestant, std::string("time ") + launch_name(which) + size,
        [&] {
          CHECK(cudaEventRecord(begin_, seat_.stream));
          for (size_t i = 0; i < passes(which.bytes); ++i)
            pass(contestant, which);
          CHECK(cudaEventRecord(end_, seat_.stream));
          wait(*contestant.contender);
          float milliseconds = 0;
          CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
          place().value = 1e3 * static_cast<double>(milliseconds) /
                          static_cast<double>(passes(which.bytes) * sets(which.bytes));
        },
        [&] { contestant.rounds.push_back(slowest()); });
  }

  [[nodiscard]] double slowest() const {
    double most = 0;
    for (uint32_t rank = 0; rank < seat_.ranks; ++rank)
      most = std::max(most, board_.places[rank].value);
    return most;
  }

  void measure(const Case& which) {
    ++seed_;
    for (Contestant& contestant : contestants_) {
      if (!contestant.out) prepare(contestant, which);
    }
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      for (Contestant& contestant : contestants_) {
        if (contestant.runs()) time_round(contestant, which);
      }
    }
    if (seat_.rank == 0) report(which);
    for (Contestant& contestant : contestants_) {
      if (contestant.graph != nullptr) static_cast<void>(cudaGraphExecDestroy(contestant.graph));
      contestant.graph = nullptr;
    }
    meet();  // Destroying may wait for work of other ranks' next case otherwise.
  }

  // -- results, rank 0 --

  static const char* launch_name(const Case& which) { return which.graph ? "graph" : "eager"; }
  static const char* place_name(const Case& which) { return which.in_place ? "in" : "out"; }

  void print_heading() const {
    if (seat_.rank != 0) return;
    std::printf("\n%10s  %-11s  %-7s  %-6s  %-5s  %11s  %11s  %11s  %9s\n", "size", "library",
                "mode", "launch", "place", "time us", "algbw GB/s", "busbw GB/s", "/NCCL");
    std::fflush(stdout);
  }

  void report(const Case& which) {
    double best_nccl = 0;
    for (const Contestant& contestant : contestants_) {
      if (!contestant.runs() || !contestant.is_nccl()) continue;
      const double time = median(contestant.rounds);
      if (best_nccl == 0 || time < best_nccl) best_nccl = time;
    }
    for (const Contestant& contestant : contestants_) {
      if (contestant.runs()) report(which, contestant, best_nccl);
    }
    std::fflush(stdout);
  }

  void report(const Case& which, const Contestant& contestant, double best_nccl) {
    const double time = median(contestant.rounds);
    const auto [least, most] =
        std::minmax_element(contestant.rounds.begin(), contestant.rounds.end());
    const double algbw = static_cast<double>(which.bytes) / time / 1e3;
    const double busbw = algbw * 2 * (seat_.ranks - 1) / seat_.ranks;
    const std::string ratio = best_nccl == 0 ? "-" : text("%.3f", time / best_nccl);
    std::printf("%10s  %-11s  %-7s  %-6s  %-5s  %11.2f  %11.3f  %11.3f  %9s\n",
                bytes_text(which.bytes).c_str(), contestant.name.c_str(), mode_.c_str(),
                launch_name(which), place_name(which), time, algbw, busbw, ratio.c_str());
    const NvmlApi* nvml = process_.nvml.find();
    const auto megahertz = [&](NvmlApi::Clock clock) {
      return nvml == nullptr ? 0 : nvml->megahertz(seat_.device, clock);
    };
    write_json(
        text("{\"peer\": %s, \"version\": %s, \"operation\": \"all_reduce\", \"reduction\": "
             "\"sum\", \"ranks\": %u, \"bytes\": %zu, \"type\": %s, \"in_place\": %s, "
             "\"mode\": %s, \"launch\": \"%s\", \"time_us\": %.4f, \"time_us_min\": %.4f, "
             "\"time_us_max\": %.4f, \"rounds\": %zu, \"calls_in_round\": %zu, \"buffers\": %zu, "
             "\"algbw_gbs\": %.4f, \"busbw_gbs\": %.4f, \"ratio_to_best_nccl\": %s, "
             "\"sm_mhz\": %u, \"memory_mhz\": %u}",
             json_string(contestant.name).c_str(), json_string(contestant.version).c_str(),
             seat_.ranks, which.bytes, json_string(options_.type.name).c_str(),
             which.in_place ? "true" : "false", json_string(mode_).c_str(), launch_name(which),
             time, *least, *most, contestant.rounds.size(), passes(which.bytes) * sets(which.bytes),
             sets(which.bytes), algbw, busbw, best_nccl == 0 ? "null" : ratio.c_str(),
             megahertz(NvmlApi::Clock::kMultiprocessors), megahertz(NvmlApi::Clock::kMemory)));
  }

  void write_json(const std::string& line) const;

  const Options& options_;
  const std::string mode_;
  Board& board_;
  const Process& process_;
  Seat seat_;
  std::vector<Contestant> contestants_;
  Arena plain_;
  size_t arena_bytes_ = 0;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  Mismatch* mismatch_ = nullptr;
  uint32_t step_ = 0;
  uint32_t seed_ = 0;
  uint32_t failures_ = 0;
};

void append_json(const Options& options, const std::string& line) {
  if (options.json_file.empty()) return;
  std::FILE* file = std::fopen(options.json_file.c_str(), "a");
  if (file == nullptr) {
    std::fprintf(stderr, "gpu-all-reduce: %s: %s\n", options.json_file.c_str(),
                 std::strerror(errno));
    return;
  }
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

void Rank::write_json(const std::string& line) const {
  append_json(options_, line);
}

// ---- what the link can do ----

/// Writes from GPU 0 to GPU 1 by itself: kernels of few and many CTAs, and the copy engine.
class LinkProbe {
 public:
  LinkProbe() {
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&to_, kBytes));
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaMalloc(&from_, kBytes));
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
    fill_inputs<<<kKernelCtas, kKernelThreads, 0, stream_>>>(reinterpret_cast<float*>(from_),
                                                             kBytes / sizeof(float), 0, 1, 0, 1000);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream_));
  }

  void run(const Options& options) {
    for (const int ctas : {8, 16, 32, 132}) {
      print(options, "SM write", ctas, median_gbs([&] {
              write_to_peer<<<ctas, kLinkThreads, 0, stream_>>>(
                  reinterpret_cast<uint4*>(to_), reinterpret_cast<const uint4*>(from_),
                  kBytes / sizeof(uint4));
              CHECK(cudaGetLastError());
            }));
    }
    print(options, "copy engine", 0,
          median_gbs([&] { CHECK(cudaMemcpyPeerAsync(to_, 1, from_, 0, kBytes, stream_)); }));
  }

 private:
  static constexpr size_t kBytes = size_t{512} << 20;

  template <class Launch>
  double median_gbs(Launch launch) {
    std::vector<double> rates;
    launch();
    for (int round = 0; round < 7; ++round) {
      CHECK(cudaEventRecord(begin_, stream_));
      launch();
      CHECK(cudaEventRecord(end_, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
      rates.push_back(static_cast<double>(kBytes) / static_cast<double>(milliseconds) / 1e6);
    }
    return median(rates);
  }

  static void print(const Options& options, const char* what, int ctas, double gbs) {
    const std::string name = ctas == 0 ? what : text("%s, %d CTAs", what, ctas);
    std::printf("link GPU 0 -> GPU 1, %-20s %8.1f GB/s\n", name.c_str(), gbs);
    std::fflush(stdout);
    append_json(options, text("{\"kind\": \"link\", \"what\": \"%s\", \"ctas\": %d, "
                              "\"bytes\": %zu, \"gbs\": %.2f}",
                              what, ctas, kBytes, gbs));
  }

  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// ---- children ----

uint32_t run_rank(const Options& options, const std::string& mode, Board& board,
                  const Process& process, uint32_t rank) {
  try {
    return Rank(options, mode, board, process, rank).run();
  } catch (const Failure& failure) {
    std::printf("FAILED %s mode: rank %u: %s\n", mode.c_str(), rank, failure.what.c_str());
  } catch (const JobEnded&) {
  }
  board.ended.store(1);
  return 1;
}

uint32_t run_threads(const Options& options, Board& board, const Process& process) {
  std::atomic<uint32_t> failures = 0;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < options.gpus; ++rank) {
    threads.emplace_back(
        [&, rank] { failures += run_rank(options, "thread", board, process, rank); });
  }
  for (std::thread& thread : threads)
    thread.join();
  return failures;
}

int run_child(const Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Board& board = *map_board(options.board);
  uint32_t failures = 0;
  if (options.role == "link") {
    copy_text(board.places[0].where, sizeof board.places[0].where, "measure the link");
    try {
      LinkProbe().run(options);
    } catch (const Failure& failure) {
      std::printf("FAILED link: %s\n", failure.what.c_str());
      failures = 1;
    }
  } else {
    const Process process(options);
    if (options.role == "thread") {
      failures = run_threads(options, board, process);
    } else {
      const auto rank =
          static_cast<uint32_t>(integer_of("--role", options.role, 0, options.gpus - 1));
      failures = run_rank(options, "process", board, process, rank);
    }
  }
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

// ---- the supervisor ----

/// Starts children and sees to it that they end.
class Supervisor {
 public:
  Supervisor(const Options& options, std::vector<std::string> arguments)
      : options_(options), arguments_(std::move(arguments)), begin_(Clock::now()) {
    board_file_ = memfd_create("gpu-all-reduce", 0);
    if (board_file_ < 0 || ftruncate(board_file_, sizeof(Board)) != 0) {
      std::fprintf(stderr, "gpu-all-reduce: memfd_create: %s\n", std::strerror(errno));
      std::exit(1);
    }
    board_ = map_board(board_file_);
  }

  /// False if a child failed. Does not return if the time is up.
  bool run(const char* name, const std::vector<std::string>& roles) {
    if (ftruncate(board_file_, 0) != 0 || ftruncate(board_file_, sizeof(Board)) != 0) return false;
    children_.clear();
    for (const std::string& role : roles)
      children_.push_back({role, start(role), 0, false});
    good_ = true;
    last_steps_ = ~0ULL;
    Clock::time_point failed_at{};
    while (running()) {
      usleep(10'000);
      reap(name);
      if (!good_ && failed_at == Clock::time_point{}) failed_at = Clock::now();
      if (!good_ && seconds_since(failed_at) > kGraceSeconds) end_all();
      if (stalled()) give_up(name, text("nothing moved for %.0f s", kStallSeconds));
      if (seconds_since(begin_) > options_.limit) {
        give_up(name, text("--limit %.0f is over", options_.limit));
        std::exit(1);
      }
    }
    return good_;
  }

 private:
  struct Child {
    std::string role;
    pid_t process;
    int status;
    bool ended;
  };

  pid_t start(const std::string& role) {
    std::vector<std::string> words = arguments_;
    words.insert(words.end(), {"--gpus", std::to_string(options_.gpus), "--role", role, "--board",
                               std::to_string(board_file_)});
    std::vector<char*> pointers;
    for (std::string& word : words)
      pointers.push_back(word.data());
    pointers.push_back(nullptr);
    std::fflush(stdout);
    const pid_t process = fork();
    if (process == 0) {
      execv("/proc/self/exe", pointers.data());
      _exit(127);
    }
    if (process < 0) {
      std::fprintf(stderr, "gpu-all-reduce: fork: %s\n", std::strerror(errno));
      std::exit(1);
    }
    return process;
  }

  [[nodiscard]] bool running() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return !child.ended; });
  }

  void reap(const char* name) {
    for (Child& child : children_) {
      if (child.ended || waitpid(child.process, &child.status, WNOHANG) != child.process) continue;
      child.ended = true;
      if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) continue;
      const bool first = good_;
      good_ = false;
      // A child that exits with 1 has said why.
      if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 1) continue;
      board_->ended.store(1);
      if (!first) continue;
      say(WIFSIGNALED(child.status)
              ? text("%s: ended by signal %d (%s)", name, WTERMSIG(child.status),
                     strsignal(WTERMSIG(child.status)))
              : text("%s: ended with status %d", name, WEXITSTATUS(child.status)));
      say_where();
    }
  }

  /// Whether no rank has begun a step for long. The link's probe has no steps, and no need.
  bool stalled() {
    uint64_t steps = 0;
    for (const Board::Place& place : board_->places)
      steps += place.step.load();
    if (steps != last_steps_) {
      last_steps_ = steps;
      moved_at_ = Clock::now();
    }
    return seconds_since(moved_at_) > kStallSeconds;
  }

  void give_up(const char* name, const std::string& why) {
    say(text("%s: killed: %s", name, why.c_str()));
    say_where();
    good_ = false;
    end_all();
  }

  void end_all() {
    for (Child& child : children_) {
      if (child.ended) continue;
      kill(child.process, SIGKILL);
      waitpid(child.process, &child.status, 0);
      child.ended = true;
    }
  }

  void say_where() const {
    for (uint32_t rank = 0; rank < options_.gpus; ++rank) {
      const Board::Place& place = board_->places[rank];
      if (place.where[0] == '\0') continue;
      say(text("    rank %u was in step %u: %s", rank, place.step.load(), place.where));
    }
  }

  static void say(const std::string& words) {
    std::fprintf(stderr, "gpu-all-reduce: %s\n", words.c_str());
  }

  const Options& options_;
  const std::vector<std::string> arguments_;
  const Clock::time_point begin_;
  int board_file_ = -1;
  Board* board_ = nullptr;
  std::vector<Child> children_;
  bool good_ = true;
  uint64_t last_steps_ = 0;
  Clock::time_point moved_at_;
};

/// Also sets options.gpus.
void find_gpus(Options& options) {
  int found = 0;
  const cudaError_t error = cudaGetDeviceCount(&found);
  if (error != cudaSuccess || found == 0) {
    std::fprintf(stderr, "gpu-all-reduce: no CUDA device: %s (%s)\n", cudaGetErrorString(error),
                 cudaGetErrorName(error));
    std::exit(1);
  }
  const auto usable = std::min(static_cast<uint32_t>(found), kMaxRanks);
  if (options.gpus == 0) options.gpus = usable;
  if (options.gpus > usable || usable < 2) {
    std::fprintf(stderr, "gpu-all-reduce: needs %u CUDA devices, found %d\n",
                 std::max(options.gpus, 2U), found);
    std::exit(1);
  }
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> words{};
  std::strftime(words.data(), words.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return words.data();
}

/// The environment that changes what is measured.
std::string environment_json() {
  std::string list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view words = *entry;
    const bool counts = words.starts_with("NCCL_") || words.starts_with("CUDA_") ||
                        (words.starts_with("WEFT_") && !words.starts_with("WEFT_SECRET"));
    if (!counts) continue;
    if (!list.empty()) list += ", ";
    list += json_string(words);
  }
  return "[" + list + "]";
}

void describe_machine(const Options& options, const std::vector<std::string>& arguments) {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int runtime = 0;
  CHECK(cudaRuntimeGetVersion(&runtime));
  const Loaded<NvmlApi> nvml;
  const std::string driver = nvml.find() != nullptr ? nvml.get().driver_version() : "unknown";
  utsname system{};
  uname(&system);
  std::string command;
  for (const std::string& word : arguments)
    command += (command.empty() ? "" : " ") + word;

  std::printf("%u x %s, driver %s, CUDA %d.%d, %s, %s\n", options.gpus, properties.name,
              driver.c_str(), runtime / 1000, runtime % 1000 / 10, options.type.name,
              date().c_str());
  append_json(
      options,
      text("{\"kind\": \"machine\", \"device\": %s, \"devices\": %u, "
           "\"multiprocessors\": %d, \"l2_bytes\": %d, \"driver\": %s, \"cuda\": "
           "\"%d.%d\", \"kernel\": %s, \"commit\": %s, \"date\": \"%s\", \"command\": %s, "
           "\"environment\": %s}",
           json_string(properties.name).c_str(), options.gpus, properties.multiProcessorCount,
           properties.l2CacheSize, json_string(driver).c_str(), runtime / 1000, runtime % 1000 / 10,
           json_string(system.release).c_str(), json_string(options.commit).c_str(), date().c_str(),
           json_string(command).c_str(), environment_json().c_str()));
}

int supervise(Options options, const std::vector<std::string>& arguments) {
  find_gpus(options);
  // Multicast takes a switch's resources from everybody on the host.
  if (!options.multicast) setenv("NCCL_NVLS_ENABLE", "0", 1);
  if (!options.json_file.empty() && truncate(options.json_file.c_str(), 0) != 0 &&
      errno != ENOENT) {
    std::fprintf(stderr, "gpu-all-reduce: %s: %s\n", options.json_file.c_str(),
                 std::strerror(errno));
    return 1;
  }
  try {
    describe_machine(options, arguments);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "gpu-all-reduce: %s\n", failure.what.c_str());
    return 1;
  }
  const Clock::time_point begin = Clock::now();
  Supervisor supervisor(options, arguments);
  bool good = true;
  if (options.limits) good &= supervisor.run("link", {"link"});
  for (const std::string& mode : options.modes) {
    std::vector<std::string> roles;
    if (mode == "thread") roles = {"thread"};
    for (uint32_t rank = 0; mode == "process" && rank < options.gpus; ++rank)
      roles.push_back(std::to_string(rank));
    std::printf("\n");
    good &= supervisor.run((mode + " mode").c_str(), roles);
  }
  std::printf("\n%s; %.1f s\n", good ? "all good" : "THERE WERE FAILURES", seconds_since(begin));
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.role.empty()) return run_child(options);
  return supervise(options, {argv, argv + argc});
}
