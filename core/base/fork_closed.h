// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors that a forked child closes: peers learn from the end of a connection that a process
// died, and would not while a child of it holds the other copy; and memory of a device stays
// allocated while any process has a descriptor of it.
#pragma once

#include <memory>
#include <utility>

#include "core/base/fd.h"

namespace weft {

/// As long as this lives, every child that the process forks closes its copy of a descriptor. The
/// child's objects keep the number, so it must not destroy them: Weft refuses all calls there. Made
/// after the descriptor, gone before it. Any thread.
class ClosedInChildren {
 public:
  explicit ClosedInChildren(int descriptor);
  ~ClosedInChildren();
  ClosedInChildren(const ClosedInChildren&) = delete;
  ClosedInChildren& operator=(const ClosedInChildren&) = delete;

 private:
  const int descriptor_;
};

/// A descriptor with that promise.
class ForkClosedFd {
 public:
  explicit ForkClosedFd(UniqueFd fd)
      : fd_(std::move(fd)), not_in_children_(std::make_unique<ClosedInChildren>(fd_.get())) {}
  ForkClosedFd(ForkClosedFd&&) = default;
  ForkClosedFd& operator=(ForkClosedFd&&) = delete;

  [[nodiscard]] int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::unique_ptr<ClosedInChildren> not_in_children_;
};

}  // namespace weft
