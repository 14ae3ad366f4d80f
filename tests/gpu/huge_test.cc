// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of more than 4 GiB and 2^32 elements, where what is counted in 32 bits wraps. Inputs repeat
// themselves after a prime number of elements: what is off by a power of two looks wrong, and
// neither inputs nor results have to be kept on the host.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/make_call.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kPeriod = 1'048'573;  // elements
constexpr std::byte kPoison{0xA5};

/// A period of a rank's input, or of the sum of all, twice, so that every window is contiguous.
class Pattern {
 public:
  /// Small whole numbers.
  Pattern(const Type& type, std::uint64_t seed) : width_(type.bytes), twice_(2 * kPeriod * width_) {
    for (std::size_t i = 0; i < kPeriod; ++i)
      put(type, i, static_cast<std::uint32_t>(draw(seed, i) >> 59));
    double_it();
  }
  /// Their sum.
  Pattern(const Type& type, const std::vector<Pattern>& all)
      : width_(type.bytes), twice_(2 * kPeriod * width_) {
    for (std::size_t i = 0; i < kPeriod; ++i) {
      std::uint32_t sum = 0;
      for (const Pattern& one : all)
        sum += one.get(type, i);
      put(type, i, sum);
    }
    double_it();
  }

  [[nodiscard]] std::size_t bytes() const { return kPeriod * width_; }
  /// A whole period that begins `at` bytes into what repeats.
  [[nodiscard]] const std::byte* from(std::size_t at) const { return twice_.data() + at % bytes(); }

 private:
  void put(const Type& type, std::size_t i, std::uint32_t number) {
    if (type.weft == WEFT_FLOAT32) {
      const auto real = static_cast<float>(number);
      std::memcpy(twice_.data() + i * width_, &real, sizeof(real));
    } else {
      twice_[i] = static_cast<std::byte>(number);
    }
  }
  [[nodiscard]] std::uint32_t get(const Type& type, std::size_t i) const {
    if (type.weft != WEFT_FLOAT32) return static_cast<std::uint32_t>(twice_[i]);
    float real = 0;
    std::memcpy(&real, twice_.data() + i * width_, sizeof(real));
    return static_cast<std::uint32_t>(real);
  }
  void double_it() { std::memcpy(twice_.data() + bytes(), twice_.data(), bytes()); }

  std::size_t width_;
  Bytes twice_;
};

/// Device memory with poison behind it, that goes back to the device at once.
class Memory {
 public:
  static constexpr std::size_t kGuard = 4096;

  Memory(const Member& member, std::size_t bytes) : member_(member), bytes_(bytes) {
    const weft_device_kind kind = options().host ? WEFT_DEVICE_HOST : WEFT_DEVICE_CUDA;
    void* memory = nullptr;
    check(weft_memory_allocate(context(), kind, member.device, bytes + kGuard, &memory),
          "weft_memory_allocate");
    memory_ = static_cast<std::byte*>(memory);
    if (options().host) {
      std::memset(memory_, static_cast<int>(kPoison), bytes + kGuard);
    } else {
      CUDA(cudaMemset(memory_, static_cast<int>(kPoison), bytes + kGuard));
    }
  }
  ~Memory() { static_cast<void>(weft_memory_free(context(), memory_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_; }

  /// The block becomes what the pattern is from byte `at` on: a period, then what is there doubled.
  void fill(const Block& block, const Pattern& pattern, std::size_t at) {
    std::byte* const begin = memory_ + block.at;
    std::size_t filled = std::min(block.bytes, pattern.bytes());
    copy(begin, pattern.from(at), filled);
    while (filled < block.bytes) {
      const std::size_t more = std::min(filled, block.bytes - filled);
      copy(begin + filled, begin, more);
      filled += more;
    }
  }
  /// Where the block is not so, in words; else empty.
  [[nodiscard]] std::string differs(const Block& block, const Pattern& pattern,
                                    std::size_t at) const {
    Bytes got(16 * pattern.bytes());
    for (std::size_t done = 0; done < block.bytes; done += got.size()) {
      const std::size_t some = std::min(got.size(), block.bytes - done);
      copy(got.data(), memory_ + block.at + done, some);
      for (std::size_t i = 0; i < some; i += pattern.bytes()) {
        const std::byte* const want = pattern.from(at);
        const std::size_t length = std::min(pattern.bytes(), some - i);
        if (std::memcmp(got.data() + i, want, length) == 0) continue;
        const auto place = std::mismatch(want, want + length, got.data() + i).first;
        return "byte " + std::to_string(done + i + static_cast<std::size_t>(place - want)) +
               " of " + std::to_string(block.bytes) + " is wrong";
      }
    }
    return {};
  }
  [[nodiscard]] bool is_guarded() const {
    Bytes got(kGuard);
    copy(got.data(), memory_ + bytes_, got.size());
    return std::ranges::all_of(got, [](std::byte each) { return each == kPoison; });
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (options().host) {
      std::memcpy(to, from, bytes);
    } else {
      CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, member_.cuda));
      CUDA(cudaStreamSynchronize(member_.cuda));
    }
  }

  const Member& member_;
  const std::size_t bytes_;
  std::byte* memory_ = nullptr;
};

/// An operation, and the way it goes.
struct Huge {
  const char* name;
  Operation operation;
  Type type = kUint8;
  Settings settings = {};
  bool in_windows = false;
};
std::ostream& operator<<(std::ostream& out, const Huge& huge) {
  return out << huge.name;
}

/// How a collective is named in settings.
Settings way(const std::string& operation, const char* algorithm, const char* protocol) {
  return {{"collectives." + operation + ".algorithm", algorithm},
          {"collectives." + operation + ".protocol", protocol}};
}

const std::vector<Huge>& all_huge() {
  static const std::vector<Huge> kAll{
      {.name = "all_reduce", .operation = Operation::kAllReduce},
      {.name = "all_reduce_of_float32", .operation = Operation::kAllReduce, .type = kFloat32},
      {.name = "all_reduce_by_a_tree",
       .operation = Operation::kAllReduce,
       .settings = way("all_reduce", "tree", "simple")},
      {.name = "all_reduce_by_ll",
       .operation = Operation::kAllReduce,
       .settings = way("all_reduce", "ring", "ll")},
      {.name = "all_reduce_by_a_two_shot",
       .operation = Operation::kAllReduce,
       .settings = way("all_reduce", "two-shot", "simple")},
      {.name = "all_reduce_by_rank",
       .operation = Operation::kAllReduce,
       .settings = {{"collectives.deterministic", "true"}}},
      {.name = "broadcast", .operation = Operation::kBroadcast},
      {.name = "reduce", .operation = Operation::kReduce},
      {.name = "all_gather", .operation = Operation::kAllGather},
      {.name = "all_gather_by_pat",
       .operation = Operation::kAllGather,
       .settings = way("all_gather", "pat", "simple")},
      {.name = "all_gather_in_windows", .operation = Operation::kAllGather, .in_windows = true},
      {.name = "reduce_scatter", .operation = Operation::kReduceScatter},
      {.name = "reduce_scatter_in_windows",
       .operation = Operation::kReduceScatter,
       .settings = {{"windows.reduce_from", "1"}},
       .in_windows = true},
      {.name = "all_to_all", .operation = Operation::kAllToAll},
      {.name = "gather", .operation = Operation::kGather},
      {.name = "scatter", .operation = Operation::kScatter},
      {.name = "all_gather_v", .operation = Operation::kAllGatherV},
      {.name = "reduce_scatter_v", .operation = Operation::kReduceScatterV},
      {.name = "all_to_all_v", .operation = Operation::kAllToAllV},
      {.name = "exchange", .operation = Operation::kExchange},
      {.name = "all_reduce_by_shm",
       .operation = Operation::kAllReduce,
       .settings = settings_of("shm")},
      {.name = "all_reduce_over_a_net",
       .operation = Operation::kAllReduce,
       .settings = settings_of("net")},
      {.name = "exchange_over_a_net",
       .operation = Operation::kExchange,
       .settings = settings_of("net")}};
  return kAll;
}

using LayoutAndHuge = std::tuple<Layout, Huge>;

class HugeCalls : public testing::TestWithParam<LayoutAndHuge> {
 protected:
  /// More than 4 GiB, and of single bytes more than 2^32, in the smaller of a rank's buffers.
  static Call call_of(const Huge& huge, const Layout& layout) {
    const std::size_t count = (std::size_t{1} << 32) / huge.type.bytes + 12'347;
    Call call{.operation = huge.operation, .type = huge.type, .count = count, .root = 1};
    if (huge.operation == Operation::kAllToAll) call.count = count / 2;
    if (has_tables(huge.operation)) call.table = 2;
    if (huge.operation == Operation::kExchange) {
      for (std::uint32_t rank = 0; rank < layout.ranks; ++rank)
        call.messages.push_back(
            {.from = rank, .to = (rank + 1) % layout.ranks, .count = count, .type = huge.type});
    }
    return call;
  }

  /// Bytes that are free where all of `ranks` or one of them have their buffers.
  static std::size_t free_memory_of(const Layout& layout) {
    if (options().host) {
      std::ifstream memory("/proc/meminfo");
      std::string name;
      std::size_t kib = 0;
      while (memory >> name && name != "MemAvailable:") {
      }
      memory >> kib;
      return kib * 1024;
    }
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (std::uint32_t device = 0; device < (layout.one_device ? 1 : layout.ranks); ++device) {
      std::size_t free = 0, total = 0;
      use_device(static_cast<int>(device));
      CUDA(cudaMemGetInfo(&free, &total));
      least = std::min(least, free);
    }
    return least;
  }
};

/// Of a side that counts for nothing its guard alone is there.
std::size_t memory_for(const Side& side) {
  return side.counts ? side.extent : 0;
}

/// A rank's buffers.
struct Own {
  Buffers buffers;
  std::unique_ptr<Memory> send, recv;
  weft_window* send_window = nullptr;
  weft_window* recv_window = nullptr;
};

TEST_P(HugeCalls, AreRight) {
  const auto& [layout, huge] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  if (options().host && huge.in_windows) GTEST_SKIP() << "of CUDA devices alone";
  const Call call = call_of(huge, layout);
  std::vector<Own> all(layout.ranks);
  std::size_t total = 0, most = 0;
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    all[rank].buffers = buffers_of(call, layout.ranks, rank);
    const std::size_t bytes =
        memory_for(all[rank].buffers.send) + memory_for(all[rank].buffers.recv);
    total += bytes;
    most = std::max(most, bytes);
  }
  const std::size_t wanted =
      (layout.one_device || options().host ? total : most) + (std::size_t{1} << 30);
  free_memory();
  if (free_memory_of(layout) < wanted) GTEST_SKIP() << "needs " << wanted << " bytes of memory";

  std::vector<Pattern> inputs;
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank)
    inputs.emplace_back(huge.type, options().seed * 17 + rank);
  const Pattern sum(huge.type, inputs);

  Team team(Mode::kThreads, layout, huge.settings);
  team.each([&](Member& member) {
    Own& own = all[member.rank];
    own.send = std::make_unique<Memory>(member, memory_for(own.buffers.send));
    own.recv = std::make_unique<Memory>(member, memory_for(own.buffers.recv));
    std::size_t at = 0;
    for (const Block& block : own.buffers.send.blocks) {
      if (own.buffers.send.counts) own.send->fill(block, inputs[member.rank], at);
      at += block.bytes;
    }
  });
  if (huge.in_windows) {
    team.each([&](Member& member) {
      Own& own = all[member.rank];
      check(weft_window_register(member.comm, own.send->data(), own.buffers.send.extent,
                                 &own.send_window),
            "weft_window_register");
      check(weft_window_register(member.comm, own.recv->data(), own.buffers.recv.extent,
                                 &own.recv_window),
            "weft_window_register");
    });
  }
  team.issue([&](Member& member) {
    const Own& own = all[member.rank];
    make_call(call, own.buffers, {.send = own.send->data(), .recv = own.recv->data()}, member);
  });
  team.synchronize();
  team.each([&](Member& member) {
    Own& own = all[member.rank];
    const Side& side = own.buffers.recv;
    for (std::size_t i = 0; i < own.buffers.due.size() && side.counts; ++i) {
      const Due& due = own.buffers.due[i];
      const std::string wrong =
          own.recv->differs(side.blocks[i], due.from ? inputs[*due.from] : sum, due.at);
      EXPECT_EQ(wrong, "") << "rank " << member.rank << ", block " << i;
    }
    EXPECT_TRUE(own.recv->is_guarded()) << "behind the buffer of rank " << member.rank;
    std::size_t at = 0;
    for (const Block& block : own.buffers.send.blocks) {
      if (own.buffers.send.counts) {
        EXPECT_EQ(own.send->differs(block, inputs[member.rank], at), "") << "what was sent";
      }
      at += block.bytes;
    }
    EXPECT_TRUE(own.send->is_guarded());
  });
  if (!huge.in_windows) return;
  team.each([&](Member& member) {
    check(weft_window_deregister(all[member.rank].send_window), "weft_window_deregister");
    check(weft_window_deregister(all[member.rank].recv_window), "weft_window_deregister");
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, HugeCalls,
                         testing::Combine(testing::Values(Layout{2, false}, Layout{4, false},
                                                          Layout{2, true}),
                                          testing::ValuesIn(all_huge())),
                         [](const testing::TestParamInfo<LayoutAndHuge>& info) {
                           return std::get<0>(info.param).name() + "_" +
                                  std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace weft::gpu_test
