// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Owned descriptors: closed once, moved, released, replaced; and those of other processes.
#include "core/base/fd.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/foreign_fd.h"

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

/// A process that has a descriptor which others share, until it is told to end.
class Holder {
 public:
  Holder() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const int held = eventfd(7, EFD_CLOEXEC);
      static_cast<void>(!write(ready[1], &held, sizeof(held)));
      while (true)
        pause();
    }
    EXPECT_EQ(read(ready[0], &descriptor_, sizeof(descriptor_)), ssize_t{sizeof(descriptor_)});
    close(ready[0]);
    close(ready[1]);
  }
  ~Holder() { end(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  void end() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] std::uint64_t pid() const { return static_cast<std::uint64_t>(pid_); }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  pid_t pid_ = -1;
  int descriptor_ = -1;
};

TEST(ForeignFd, IsWhatTheOtherProcessHas) {
  Holder holder;
  const auto copied = copy_foreign_fd(holder.pid(), holder.descriptor());
  if (!copied && copied.error().native() == EPERM) {
    GTEST_SKIP() << "this system keeps processes apart: " << copied.error().to_string();
  }
  ASSERT_TRUE(copied) << copied.error().to_string();
  holder.end();
  eventfd_t value = 0;
  ASSERT_EQ(eventfd_read(copied->get(), &value), 0);
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(fcntl(copied->get(), F_GETFD), FD_CLOEXEC);
}

TEST(ForeignFd, WhatIsNotThereHasAName) {
  Holder holder;
  const std::uint64_t pid = holder.pid();
  const auto no_descriptor = copy_foreign_fd(pid, 1 << 20);
  ASSERT_FALSE(no_descriptor);
  EXPECT_THAT(no_descriptor.error().what(),
              testing::HasSubstr("a descriptor of process " + std::to_string(pid)));
  holder.end();
  const auto no_process = copy_foreign_fd(pid, 0);
  ASSERT_FALSE(no_process);
  EXPECT_EQ(no_process.error().native(), ESRCH);
}

}  // namespace
}  // namespace weft
