// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/units.h"

#include <limits>

#include <gtest/gtest.h>

namespace weft {
namespace {

using std::chrono::nanoseconds;

std::string refused(const Result<std::int64_t>& result) {
  return result ? "accepted" : result.error().what();
}
std::string refused(const Result<nanoseconds>& result) {
  return result ? "accepted" : result.error().what();
}

TEST(Units, ReadBytes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("8"), 8);
  EXPECT_EQ(parse_bytes("8B"), 8);
  EXPECT_EQ(parse_bytes("4KiB"), 4096);
  EXPECT_EQ(parse_bytes("4 MiB"), 4 << 20);
  EXPECT_EQ(parse_bytes("3GiB"), std::int64_t{3} << 30);
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(Units, RefuseBytes) {
  EXPECT_EQ(refused(parse_bytes("")),
            "\"\" is no size; write a whole number and B, KiB, MiB or GiB");
  EXPECT_EQ(refused(parse_bytes("-1")),
            "\"-1\" is no size; write a whole number and B, KiB, MiB or GiB");
  EXPECT_EQ(refused(parse_bytes("4KB")),
            "\"4KB\" has the unknown unit \"KB\"; use B, KiB, MiB or GiB");
  EXPECT_EQ(refused(parse_bytes("1.5MiB")),
            "\"1.5MiB\" has the unknown unit \".5MiB\"; use B, KiB, MiB or GiB");
  EXPECT_EQ(refused(parse_bytes("9223372036854775808")), "\"9223372036854775808\" is too large");
  EXPECT_EQ(refused(parse_bytes("8589934592GiB")), "\"8589934592GiB\" is too large");
}

TEST(Units, PrintBytes) {
  EXPECT_EQ(print_bytes(0), "0B");
  EXPECT_EQ(print_bytes(1000), "1000B");
  EXPECT_EQ(print_bytes(1024), "1KiB");
  EXPECT_EQ(print_bytes(1536 << 10), "1536KiB");
  EXPECT_EQ(print_bytes(std::int64_t{2} << 30), "2GiB");
}

TEST(Units, ReadDurations) {
  EXPECT_EQ(parse_duration("5ns"), nanoseconds(5));
  EXPECT_EQ(parse_duration("5us"), nanoseconds(5'000));
  EXPECT_EQ(parse_duration("5ms"), nanoseconds(5'000'000));
  EXPECT_EQ(parse_duration("60s"), std::chrono::seconds(60));
  EXPECT_EQ(parse_duration("2 min"), std::chrono::minutes(2));
  EXPECT_EQ(parse_duration("1h"), std::chrono::hours(1));
}

TEST(Units, RefuseDurations) {
  EXPECT_EQ(refused(parse_duration("60")), "\"60\" has no unit; use ns, us, ms, s, min or h");
  EXPECT_EQ(refused(parse_duration("60 parsecs")),
            "\"60 parsecs\" has the unknown unit \"parsecs\"; use ns, us, ms, s, min or h");
  EXPECT_EQ(refused(parse_duration("soon")),
            "\"soon\" is no duration; write a whole number and ns, us, ms, s, min or h");
  EXPECT_EQ(refused(parse_duration("99999999h")), "\"99999999h\" is too large");
}

TEST(Units, PrintDurations) {
  EXPECT_EQ(print_duration(nanoseconds(0)), "0s");
  EXPECT_EQ(print_duration(std::chrono::seconds(60)), "60s");
  EXPECT_EQ(print_duration(std::chrono::seconds(90)), "90s");
  EXPECT_EQ(print_duration(std::chrono::minutes(2)), "2min");
  EXPECT_EQ(print_duration(std::chrono::hours(1)), "60min");
  EXPECT_EQ(print_duration(std::chrono::hours(2)), "2h");
  EXPECT_EQ(print_duration(nanoseconds(1'500'000)), "1500us");
}

TEST(Units, ReadIntegers) {
  EXPECT_EQ(parse_integer("-3"), -3);
  EXPECT_EQ(refused(parse_integer("3x")), "\"3x\" is no whole number");
  EXPECT_EQ(refused(parse_integer("")), "\"\" is no whole number");
  EXPECT_EQ(refused(parse_integer("0x10")), "\"0x10\" is no whole number");
}

}  // namespace
}  // namespace weft
