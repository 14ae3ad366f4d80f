// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Every instruction-set variant of the element loops against plain loops, on random bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/element_loops.h"
#include "core/device/reductions.h"
#include "core/model/operation.h"
#include "tests/support/sanitized.h"

namespace weft::device {
namespace {

std::size_t width_of(std::uint32_t loop) {
  return element_size(static_cast<weft_data_type>(loop / kCombineCount));
}

template <class T>
std::uint64_t combine_bits(std::uint32_t combine, std::uint64_t a, std::uint64_t b) {
  T x;
  T y;
  std::memcpy(&x, &a, sizeof(T));
  std::memcpy(&y, &b, sizeof(T));
  const T all[] = {Sum<T>::combine(x, y), Prod<T>::combine(x, y), Max<T>::combine(x, y),
                   Min<T>::combine(x, y)};
  std::uint64_t bits = 0;
  std::memcpy(&bits, &all[combine], sizeof(T));
  return bits;
}

/// One pair of elements by the plain templates.
std::uint64_t plain(std::uint32_t loop, std::uint64_t a, std::uint64_t b) {
  const std::uint32_t combine = loop % kCombineCount;
  switch (static_cast<weft_data_type>(loop / kCombineCount)) {
    case WEFT_INT8:
      return combine_bits<std::int8_t>(combine, a, b);
    case WEFT_UINT8:
      return combine_bits<std::uint8_t>(combine, a, b);
    case WEFT_INT32:
      return combine_bits<std::int32_t>(combine, a, b);
    case WEFT_UINT32:
      return combine_bits<std::uint32_t>(combine, a, b);
    case WEFT_INT64:
      return combine_bits<std::int64_t>(combine, a, b);
    case WEFT_UINT64:
      return combine_bits<std::uint64_t>(combine, a, b);
    case WEFT_FLOAT16:
      return combine_bits<Float16>(combine, a, b);
    case WEFT_FLOAT32:
      return combine_bits<float>(combine, a, b);
    case WEFT_FLOAT64:
      return combine_bits<double>(combine, a, b);
    case WEFT_BFLOAT16:
      return combine_bits<Bfloat16>(combine, a, b);
    case WEFT_FLOAT8_E4M3:
      return combine_bits<Float8E4M3>(combine, a, b);
    case WEFT_FLOAT8_E5M2:
      return combine_bits<Float8E5M2>(combine, a, b);
    default:
      ADD_FAILURE() << "no loop " << loop;
      return 0;
  }
}

bool same(std::uint32_t loop, std::uint64_t got, std::uint64_t wanted) {
  if (got == wanted) return true;
  // Which of two NaNs a sum or a product keeps is the processor's choice.
  switch (static_cast<weft_data_type>(loop / kCombineCount)) {
    case WEFT_FLOAT32:
      return std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(got))) &&
             std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(wanted)));
    case WEFT_FLOAT64:
      return std::isnan(std::bit_cast<double>(got)) && std::isnan(std::bit_cast<double>(wanted));
    case WEFT_FLOAT16:
      return (got & 0x7FFFU) > 0x7C00U && (wanted & 0x7FFFU) > 0x7C00U;
    case WEFT_BFLOAT16:
      return (got & 0x7FFFU) > 0x7F80U && (wanted & 0x7FFFU) > 0x7F80U;
    case WEFT_FLOAT8_E4M3:
      return (got & 0x7FU) == 0x7FU && (wanted & 0x7FU) == 0x7FU;
    case WEFT_FLOAT8_E5M2:
      return (got & 0x7FU) > 0x7CU && (wanted & 0x7FU) > 0x7CU;
    default:
      return false;
  }
}

// What the templates above do, for numbers of which the result is known.
TEST(Reductions, CombineAsTheyAreCalled) {
  EXPECT_EQ(Sum<std::int8_t>::combine(127, 1), -128);
  EXPECT_EQ(Prod<std::int8_t>::combine(64, 2), -128);
  EXPECT_EQ(Prod<std::int32_t>::combine(-3, 7), -21);
  EXPECT_EQ(Prod<std::uint64_t>::combine(std::uint64_t{1} << 63, 2), 0U);
  EXPECT_EQ(Max<std::int64_t>::combine(-5, -7), -5);
  EXPECT_EQ(Min<std::int64_t>::combine(-5, -7), -7);
  EXPECT_EQ(Max<std::uint8_t>::combine(200, 100), 200);
  EXPECT_EQ(Min<std::uint32_t>::combine(UINT32_MAX, 1), 1U);
  EXPECT_EQ(Prod<double>::combine(0.5, -3), -1.5);
  EXPECT_TRUE(std::isnan(Min<float>::combine(1, NAN)));
  EXPECT_TRUE(std::isnan(Min<double>::combine(NAN, 1)));
  EXPECT_EQ(to_float(Prod<Bfloat16>::combine(from_float<Bfloat16>(3), from_float<Bfloat16>(-4))),
            -12);
  EXPECT_EQ(to_float(Min<Float16>::combine(from_float<Float16>(3), from_float<Float16>(-4))), -4);
  EXPECT_EQ(divide<std::int32_t>(-7, 2), -3);
  EXPECT_EQ(divide<std::uint64_t>(UINT64_MAX, 2), UINT64_MAX / 2);
  EXPECT_EQ(divide<double>(-7, 2), -3.5);
  EXPECT_EQ(to_float(divide(from_float<Float16>(7), 2)), 3.5);
  EXPECT_EQ(to_float(divide(from_float<Float8E4M3>(7), 2)), 3.5);
  EXPECT_EQ(to_float(divide(from_float<Float8E5M2>(-1), 3)), -0.3125);
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
    const std::size_t width = width_of(loop);
    for (const std::uint64_t count : kCounts) {
      for (int round = 0; round < (test::kSanitized ? 6 : 12); ++round) {
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
            std::uint64_t x = 0;
            std::uint64_t y = 0;
            std::uint64_t got = 0;
            std::memcpy(&x, before_a.data() + shift[0] + i * width, width);
            std::memcpy(&y, before_b.data() + shift[1] + i * width, width);
            std::memcpy(&got, output + i * width, width);
            ASSERT_TRUE(same(loop, got, plain(loop, x, y)))
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

TEST_P(Loops, AccumulateAsThePlainLoopAndRoundOnce) {
  constexpr std::size_t kGuard = 64;
  const auto check = [this]<class T>(T /*type*/, weft_data_type type, weft_reduction reduction) {
    const AccumulateLoop loop = GetParam()->accumulate[accumulate_index(type, reduction)];
    for (const std::uint64_t count : {0U, 1U, 7U, 32U, 63U, 64U, 131U, 1500U}) {
      for (const std::uint32_t ranks : {1U, 2U, 3U, 8U}) {
        // The output is one of the inputs, or has a second.
        const bool in_place = ranks == 3;
        const float divisor = reduction == WEFT_SUM && ranks != 2 ? static_cast<float>(ranks) : 1;
        const std::size_t bytes = count * sizeof(T);
        std::vector<std::vector<std::byte>> memory(
            ranks + 2, std::vector<std::byte>((bytes + 2 * kGuard) / 4 * 4));
        std::vector<std::byte*> places;
        for (std::vector<std::byte>& each : memory) {
          fill(each);
          places.push_back(each.data() + random_() % kGuard);
        }
        std::vector<std::vector<std::byte>> before = memory;
        std::byte* const first = places[in_place ? 1 : ranks];
        std::byte* const second = in_place ? nullptr : places[ranks + 1];
        loop(first, second, places.data(), ranks, count, divisor);
        for (std::uint64_t i = 0; i < count; ++i) {
          const auto input = [&](std::uint32_t rank) {
            T element;
            const std::ptrdiff_t shift = places[rank] - memory[rank].data();
            std::memcpy(&element, before[rank].data() + shift + i * sizeof(T), sizeof(T));
            return to_float(element);
          };
          float value = input(0);
          for (std::uint32_t rank = 1; rank < ranks; ++rank)
            value = reduction == WEFT_PROD ? value * input(rank) : value + input(rank);
          const T wanted = from_float<T>(value / divisor);
          for (const std::byte* const output : {first, second}) {
            if (output == nullptr) continue;
            T got;
            std::memcpy(&got, output + i * sizeof(T), sizeof(T));
            ASSERT_TRUE(same(loop_index(type, reduction), got.bits, wanted.bits))
                << GetParam()->name << ' ' << data_type_name(type) << ", " << ranks << " ranks, "
                << count << " elements, " << i << ": " << value / divisor << " gave "
                << to_float(got);
          }
        }
        for (std::size_t each = 0; each < memory.size(); ++each) {
          const bool written = places[each] == first || places[each] == second;
          const std::ptrdiff_t shift = places[each] - memory[each].data();
          if (written) std::memcpy(before[each].data() + shift, places[each], bytes);
          ASSERT_EQ(memory[each], before[each]) << "written outside";
        }
      }
    }
  };
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD}) {
    check(Float16{}, WEFT_FLOAT16, reduction);
    check(Bfloat16{}, WEFT_BFLOAT16, reduction);
    check(Float8E4M3{}, WEFT_FLOAT8_E4M3, reduction);
    check(Float8E5M2{}, WEFT_FLOAT8_E5M2, reduction);
  }
}

/// Every element of a 16-bit type meets -0, which changes nothing but a NaN, and many others.
TEST_P(Loops, ConvertAllHalves) {
  constexpr std::size_t kCount = 0x10000;
  std::vector<std::uint16_t> a(kCount);
  std::vector<std::uint16_t> b(kCount);
  std::vector<std::uint16_t> out(kCount);
  std::vector<std::uint32_t> loops;
  for (const weft_reduction combine : {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN}) {
    loops.push_back(loop_index(WEFT_FLOAT16, combine));
    loops.push_back(loop_index(WEFT_BFLOAT16, combine));
  }
  for (const std::uint32_t id : loops) {
    for (int round = 0; round < (test::kSanitized ? 2 : 8); ++round) {
      for (std::size_t i = 0; i < kCount; ++i) {
        a[i] = static_cast<std::uint16_t>(i);
        b[i] = round == 0 ? 0x8000U : static_cast<std::uint16_t>(random_());
      }
      GetParam()->reduce[id](reinterpret_cast<std::byte*>(out.data()), nullptr,
                             reinterpret_cast<const std::byte*>(a.data()),
                             reinterpret_cast<const std::byte*>(b.data()), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(same(id, out[i], plain(id, a[i], b[i])))
            << GetParam()->name << " loop " << id << std::hex << ": " << a[i] << ' ' << b[i]
            << " gave " << out[i];
      }
    }
  }
}

/// Every pair of elements of 8 bits.
TEST_P(Loops, CombineAllPairsOfFloat8) {
  constexpr std::size_t kCount = 0x10000;
  std::vector<std::uint8_t> a(kCount);
  std::vector<std::uint8_t> b(kCount);
  std::vector<std::uint8_t> out(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<std::uint8_t>(i);
    b[i] = static_cast<std::uint8_t>(i >> 8);
  }
  for (const weft_data_type type : {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2}) {
    for (const weft_reduction combine : {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN}) {
      const std::uint32_t id = loop_index(type, combine);
      GetParam()->reduce[id](reinterpret_cast<std::byte*>(out.data()), nullptr,
                             reinterpret_cast<const std::byte*>(a.data()),
                             reinterpret_cast<const std::byte*>(b.data()), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(same(id, out[i], plain(id, a[i], b[i])))
            << GetParam()->name << " loop " << id << std::hex << ": " << +a[i] << ' ' << +b[i]
            << " gave " << +out[i];
      }
    }
  }
}

TEST_P(Loops, CopyToOneAndToTwo) {
  const CopyLoop copy = GetParam()->copy;
  std::vector<std::byte> source(70000);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 31 >> 3);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 255U, 257U, 1024U, 1279U, 1281U, 65000U}) {
    std::vector<std::byte> first(bytes + 8, std::byte{9});
    std::vector<std::byte> second(bytes + 8, std::byte{9});
    copy(first.data(), second.data(), source.data() + 3, bytes);
    EXPECT_EQ(std::memcmp(first.data(), source.data() + 3, bytes), 0);
    EXPECT_EQ(first[bytes], std::byte{9});
    EXPECT_EQ(second, first);
    std::vector<std::byte> alone(bytes + 8, std::byte{9});
    copy(alone.data(), nullptr, source.data() + 3, bytes);
    EXPECT_EQ(alone, first);
    second.assign(bytes + 8, std::byte{9});
    copy(alone.data(), second.data(), alone.data(), bytes);  // in place
    EXPECT_EQ(alone, first);
    EXPECT_EQ(second, first);
    copy(second.data(), alone.data(), alone.data(), bytes);
    copy(alone.data(), nullptr, alone.data(), bytes);
    EXPECT_EQ(alone, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Loops,
                         ::testing::ValuesIn(element_loop_variants().begin(),
                                             element_loop_variants().end()),
                         [](const auto& info) { return std::string(info.param->name); });

#if defined(__SANITIZE_THREAD__)
constexpr bool kNarrowAlone = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kNarrowAlone = true;
#else
constexpr bool kNarrowAlone = false;
#endif
#else
constexpr bool kNarrowAlone = false;
#endif

// Asked of the system, not of the processor as the table does: of one that is left out nothing else
// tells.
TEST(LoopTable, HasWhatIsBuiltAndRuns) {
  std::set<std::string> flags;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line) && flags.empty();) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    flags = {std::istream_iterator<std::string>(words), {}};
  }
  std::vector<std::string> expected = {"baseline"};
  const auto add = [&](const char* name, std::initializer_list<const char*> needed) {
    const bool runs = std::ranges::all_of(needed, [&](auto flag) { return flags.contains(flag); });
    if (runs && !kNarrowAlone) expected.emplace_back(name);
  };
#ifdef WEFT_LOOPS_AVX2
  add("avx2", {"avx2", "f16c"});
#endif
#ifdef WEFT_LOOPS_AVX512
  add("avx512", {"avx2", "f16c", "avx512f"});
#endif
  std::vector<std::string> names;
  for (const ElementLoops* loops : element_loop_variants())
    names.emplace_back(loops->name);
  EXPECT_EQ(names, expected);
  EXPECT_EQ(best_element_loops().name, expected.back());
}

}  // namespace
}  // namespace weft::device
