// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors that a forked child closes: peers learn from the end of a connection that a process
// died, and would not while a child of it holds the other copy.
#pragma once

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

}  // namespace weft
