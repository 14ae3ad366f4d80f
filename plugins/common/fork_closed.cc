// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "plugins/common/fork_closed.h"

#include <algorithm>
#include <mutex>
#include <pthread.h>
#include <utility>
#include <vector>

#include "plugins/common/owned.h"

namespace weft::plugins {
namespace {

struct Descriptors {
  std::mutex mutex;
  std::vector<int> open;  // guarded by mutex
};

// One list of all instances of the plugin, since a fork copies all of them. Never destroyed: a fork
// may come late.
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

int ForkClosedFd::release() {
  if (fd_ >= 0) {
    Descriptors& list = descriptors();
    const std::scoped_lock lock(list.mutex);
    const auto found = std::ranges::find(list.open, fd_);
    if (found != list.open.end()) list.open.erase(found);
  }
  return std::exchange(fd_, -1);
}

// Gone from the list before it is closed: its number may be another one's then.
void ForkClosedFd::reset(int fd) {
  OwnedFd taken(fd);
  const OwnedFd before(release());
  if (fd < 0) return;
  Descriptors& list = descriptors();
  const std::scoped_lock lock(list.mutex);
  list.open.push_back(fd);
  fd_ = taken.release();
}

}  // namespace weft::plugins
