// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

/// Names of Weft's threads, which debuggers, top -H and /proc/PID/task/TID/comm show.
#pragma once

#include <cstddef>
#include <pthread.h>

namespace weft {

/// Called by the thread itself, at its begin. The system keeps 15 letters and fails beyond
/// (pthread_setname_np(3)).
template <std::size_t kBytes>
void name_this_thread(const char (&name)[kBytes]) {
  static_assert(kBytes <= 16, "the system keeps no more");
  // Whoever looks for the thread misses its name; nothing else hangs on it.
  (void)pthread_setname_np(pthread_self(), name);
}

}  // namespace weft
