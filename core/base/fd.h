// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// An owned file descriptor, and room for more of them.
#pragma once

#include <unistd.h>
#include <utility>

namespace weft {

/// Closes its descriptor when destroyed; -1 is "none". Open descriptors with the CLOEXEC flag: a
/// child that inherits a socket hides a peer's death.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// Makes the process's table of descriptors large enough for so many, or for as many as it may
/// have, once and at once. Where a process has several threads Linux doubles it only after all
/// processors have passed a quiet state (expand_fdtable in fs/file.c), for which whoever opens the
/// descriptor that has no room waits 10 to 30 ms, under the eyes of ranks that wait for it.
void make_room_for_descriptors(int count);

}  // namespace weft
