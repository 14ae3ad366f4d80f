// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Owned descriptors: closed once, moved, released, replaced.
#include "core/base/fd.h"

#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

namespace weft {
namespace {

int open_null() {
  return open("/dev/null", O_RDWR | O_CLOEXEC);
}
bool is_open(int fd) {
  return fcntl(fd, F_GETFD) != -1;
}

TEST(UniqueFd, EmptyOwnsNothing) {
  const UniqueFd fd;
  EXPECT_FALSE(fd);
  EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFd, ZeroIsADescriptor) {
  UniqueFd fd(0);
  EXPECT_TRUE(fd);
  EXPECT_EQ(fd.release(), 0);
}

TEST(UniqueFd, ClosesWhenDestroyed) {
  const int raw = open_null();
  ASSERT_GE(raw, 0);
  {
    const UniqueFd fd(raw);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFd, MovingPassesTheDescriptorOn) {
  const int raw = open_null();
  UniqueFd first(raw);
  UniqueFd second(std::move(first));
  EXPECT_EQ(first.get(), -1);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(second.get(), raw);
  EXPECT_TRUE(is_open(raw));
}

TEST(UniqueFd, MoveAssignmentClosesWhatWasHeld) {
  const int old_raw = open_null();
  const int new_raw = open_null();
  UniqueFd fd(old_raw);
  UniqueFd other(new_raw);
  fd = std::move(other);
  EXPECT_FALSE(is_open(old_raw));
  EXPECT_TRUE(is_open(new_raw));
  EXPECT_EQ(fd.get(), new_raw);
}

TEST(UniqueFd, MovingIntoItselfKeepsIt) {
  const int raw = open_null();
  UniqueFd fd(raw);
  UniqueFd& same = fd;
  fd = std::move(same);
  EXPECT_EQ(fd.get(), raw);
  EXPECT_TRUE(is_open(raw));
}

TEST(UniqueFd, ReleaseGivesItAway) {
  const int raw = open_null();
  {
    UniqueFd fd(raw);
    EXPECT_EQ(fd.release(), raw);
    EXPECT_FALSE(fd);
  }
  EXPECT_TRUE(is_open(raw));
  close(raw);
}

TEST(UniqueFd, ResetClosesAndTakes) {
  const int first = open_null();
  const int second = open_null();
  UniqueFd fd(first);
  fd.reset(second);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  fd.reset();
  EXPECT_FALSE(is_open(second));
  EXPECT_FALSE(fd);
}

}  // namespace
}  // namespace weft
