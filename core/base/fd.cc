// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/fd.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

namespace weft {

void make_room_for_descriptors(int count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto most = static_cast<int>(std::min(static_cast<rlim_t>(count), limit.rlim_cur));
  const UniqueFd any(epoll_create1(EPOLL_CLOEXEC));
  // A copy as high up as that needs the room; without it the table grows when it has to.
  const UniqueFd highest(fcntl(any.get(), F_DUPFD_CLOEXEC, most - 1));
}

}  // namespace weft
