// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Every instruction-set variant of the element loops against plain loops, on random bits.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/element_loops.h"

namespace weft::device {
namespace {

std::size_t width_of(LoopId loop) {
  return loop < LoopId::kSumF16 ? 4 : 2;
}

template <class R>
std::uint32_t combine_bits(std::uint32_t a, std::uint32_t b) {
  using T = typename R::Element;
  return R::combine(T{static_cast<std::uint16_t>(a)}, T{static_cast<std::uint16_t>(b)}).bits;
}

std::uint32_t plain(LoopId loop, std::uint32_t a, std::uint32_t b) {
  const auto x = std::bit_cast<float>(a);
  const auto y = std::bit_cast<float>(b);
  const auto i = static_cast<std::int32_t>(a);
  const auto j = static_cast<std::int32_t>(b);
  switch (loop) {
    case LoopId::kSumF32:
      return std::bit_cast<std::uint32_t>(x + y);
    case LoopId::kMaxF32:
      if (std::isnan(x) || std::isnan(y))
        return std::bit_cast<std::uint32_t>(std::isnan(x) ? x : y);
      return std::bit_cast<std::uint32_t>(x > y ? x : y);
    case LoopId::kSumI32:
      return a + b;
    case LoopId::kMaxI32:
      return static_cast<std::uint32_t>(i > j ? i : j);
    case LoopId::kSumF16:
      return combine_bits<Sum<Float16>>(a, b);
    case LoopId::kMaxF16:
      return combine_bits<Max<Float16>>(a, b);
    case LoopId::kSumBf16:
      return combine_bits<Sum<Bfloat16>>(a, b);
    case LoopId::kMaxBf16:
      return combine_bits<Max<Bfloat16>>(a, b);
  }
  return 0;
}

bool same(LoopId loop, std::uint32_t got, std::uint32_t wanted) {
  if (got == wanted) return true;
  // Which of two NaNs a sum keeps is the processor's choice.
  switch (loop) {
    case LoopId::kSumF32:
      return std::isnan(std::bit_cast<float>(got)) && std::isnan(std::bit_cast<float>(wanted));
    case LoopId::kSumF16:
      return (got & 0x7FFFU) > 0x7C00U && (wanted & 0x7FFFU) > 0x7C00U;
    case LoopId::kSumBf16:
      return (got & 0x7FFFU) > 0x7F80U && (wanted & 0x7FFFU) > 0x7F80U;
    default:
      return false;
  }
}

class Loops : public ::testing::TestWithParam<const ElementLoops*> {
 protected:
  std::uint32_t random_bits() {
    constexpr std::uint32_t kSpecial[] = {0,           0x80000000U, 0x7F800000U, 0xFF800000U,
                                          0x7FC00000U, 0xFFC00001U, 0x3F800000U, 0x7FFFFFFFU};
    const auto bits = static_cast<std::uint32_t>(random_());
    return bits % 8 == 0 ? kSpecial[(bits >> 8) % 8] : static_cast<std::uint32_t>(random_());
  }
  void fill(std::vector<std::byte>& bytes) {
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const std::uint32_t bits = random_bits();
      std::memcpy(&bytes[i], &bits, 4);
    }
  }
  std::mt19937_64 random_{20240607};
};

enum class Aliasing { kNone, kFirstIsB, kFirstIsA };

TEST_P(Loops, AgreeWithThePlainLoop) {
  constexpr std::size_t kGuard = 64;
  constexpr std::uint64_t kCounts[] = {0, 1, 3, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1000};
  for (std::uint32_t loop = 0; loop < kLoopCount; ++loop) {
    const auto id = static_cast<LoopId>(loop);
    const std::size_t width = width_of(id);
    for (const std::uint64_t count : kCounts) {
      for (int round = 0; round < 12; ++round) {
        const bool two = round % 2 == 1;
        const auto aliasing = static_cast<Aliasing>(round % 3);
        const std::size_t bytes = count * width;
        std::vector<std::byte> memory[4];
        std::size_t shift[4];
        for (int i = 0; i < 4; ++i) {
          memory[i].resize((bytes + 2 * kGuard + 128) / 4 * 4);
          fill(memory[i]);
          shift[i] = random_() % 65;  // any alignment, element alignment included
        }
        const auto before_a = memory[0];
        const auto before_b = memory[1];
        auto before_first = memory[2];
        auto before_second = memory[3];
        std::byte* a = memory[0].data() + shift[0];
        std::byte* b = memory[1].data() + shift[1];
        std::byte* first = memory[2].data() + shift[2];
        std::byte* second = memory[3].data() + shift[3];
        if (aliasing == Aliasing::kFirstIsB) first = b;
        if (aliasing == Aliasing::kFirstIsA) first = a;
        GetParam()->reduce[loop](first, two ? second : nullptr, a, b, count);
        const auto check = [&](const std::byte* output, const std::vector<std::byte>& whole,
                               const std::vector<std::byte>& before) {
          for (std::uint64_t i = 0; i < count; ++i) {
            std::uint32_t x = 0;
            std::uint32_t y = 0;
            std::uint32_t got = 0;
            std::memcpy(&x, before_a.data() + shift[0] + i * width, width);
            std::memcpy(&y, before_b.data() + shift[1] + i * width, width);
            std::memcpy(&got, output + i * width, width);
            ASSERT_TRUE(same(id, got, plain(id, x, y)))
                << GetParam()->name << " loop " << loop << " count " << count << " element " << i
                << std::hex << ": " << x << ' ' << y << " gave " << got;
          }
          const std::size_t begin = static_cast<std::size_t>(output - whole.data());
          for (std::size_t i = 0; i < whole.size(); ++i) {
            const bool inside = i >= begin && i < begin + bytes;
            ASSERT_TRUE(inside || whole[i] == before[i]) << "written outside";
          }
        };
        if (aliasing == Aliasing::kNone) check(first, memory[2], before_first);
        if (aliasing == Aliasing::kFirstIsB) check(first, memory[1], before_b);
        if (aliasing == Aliasing::kFirstIsA) check(first, memory[0], before_a);
        if (two) {
          check(second, memory[3], before_second);
        } else {
          ASSERT_EQ(memory[3], before_second);
        }
      }
    }
  }
}

/// Every element of a 16-bit type meets -0, which changes nothing but a NaN, and many others.
TEST_P(Loops, ConvertAllHalves) {
  constexpr std::size_t kCount = 0x10000;
  std::vector<std::uint16_t> a(kCount);
  std::vector<std::uint16_t> b(kCount);
  std::vector<std::uint16_t> out(kCount);
  for (const LoopId id : {LoopId::kSumF16, LoopId::kMaxF16, LoopId::kSumBf16, LoopId::kMaxBf16}) {
    for (int round = 0; round < 8; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) {
        a[i] = static_cast<std::uint16_t>(i);
        b[i] = round == 0 ? 0x8000U : static_cast<std::uint16_t>(random_());
      }
      GetParam()->reduce[static_cast<std::size_t>(id)](
          reinterpret_cast<std::byte*>(out.data()), nullptr,
          reinterpret_cast<const std::byte*>(a.data()),
          reinterpret_cast<const std::byte*>(b.data()), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(same(id, out[i], plain(id, a[i], b[i])))
            << GetParam()->name << " loop " << static_cast<int>(id) << std::hex << ": " << a[i]
            << ' ' << b[i] << " gave " << out[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Loops,
                         ::testing::ValuesIn(element_loop_variants().begin(),
                                             element_loop_variants().end()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(LoopTable, TheBestIsTheLastThatRuns) {
  EXPECT_EQ(&best_element_loops(), element_loop_variants().back());
}

TEST(CopyBytes, ToOneAndToTwo) {
  std::vector<std::byte> source(70000);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 31 >> 3);
  for (const std::size_t bytes : {0U, 1U, 16383U, 16384U, 16385U, 65000U}) {
    std::vector<std::byte> first(bytes + 8, std::byte{9});
    std::vector<std::byte> second(bytes + 8, std::byte{9});
    copy_bytes(first.data(), second.data(), source.data() + 3, bytes);
    EXPECT_EQ(std::memcmp(first.data(), source.data() + 3, bytes), 0);
    EXPECT_EQ(first[bytes], std::byte{9});
    EXPECT_EQ(second, first);
    std::vector<std::byte> alone(bytes + 8, std::byte{9});
    copy_bytes(alone.data(), nullptr, source.data() + 3, bytes);
    EXPECT_EQ(alone, first);
    copy_bytes(alone.data(), second.data(), alone.data(), bytes);  // in place
    EXPECT_EQ(alone, first);
  }
}

}  // namespace
}  // namespace weft::device
