// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/fork_closed.h"

#include <algorithm>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <vector>

namespace weft {
namespace {

struct Descriptors {
  std::mutex mutex;
  std::vector<int> open;  // guarded by mutex
};

// The one list of a process, since a fork copies all of it. Never destroyed: a fork may come late.
Descriptors& descriptors() {
  static auto* list = [] {
    auto* made = new Descriptors;
    // Fails only for want of memory; then children keep what they got.
    static_cast<void>(pthread_atfork([] { descriptors().mutex.lock(); },
                                     [] { descriptors().mutex.unlock(); },
                                     [] {
                                       for (const int descriptor : descriptors().open)
                                         ::close(descriptor);
                                       descriptors().open.clear();
                                       descriptors().mutex.unlock();
                                     }));
    return made;
  }();
  return *list;
}

}  // namespace

ClosedInChildren::ClosedInChildren(int descriptor) : descriptor_(descriptor) {
  Descriptors& list = descriptors();
  const std::scoped_lock lock(list.mutex);
  list.open.push_back(descriptor);
}

ClosedInChildren::~ClosedInChildren() {
  Descriptors& list = descriptors();
  const std::scoped_lock lock(list.mutex);
  const auto found = std::ranges::find(list.open, descriptor_);
  if (found != list.open.end()) list.open.erase(found);
}

}  // namespace weft
