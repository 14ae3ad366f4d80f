// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors that forked children close: memory of a device stays allocated while any process has
// one of it, and a child that never calls exec would keep its copy for as long as it lives. The
// core has its own; plugins include nothing of it.
#pragma once

namespace weft::plugins {

/// Closes its descriptor when destroyed, and in each child that the process forks meanwhile, which
/// may not use this object; -1 is "none". Any thread, but one at a time.
class ForkClosedFd {
 public:
  ForkClosedFd() = default;
  ForkClosedFd(const ForkClosedFd&) = delete;
  ForkClosedFd& operator=(const ForkClosedFd&) = delete;
  ~ForkClosedFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// From now on it is the caller's, and children get it.
  [[nodiscard]] int release();
  /// Takes a descriptor over, whether there is memory for that or not.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace weft::plugins
