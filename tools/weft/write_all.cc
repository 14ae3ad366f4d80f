// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/write_all.h"

#include <cerrno>
#include <cstddef>
#include <poll.h>
#include <unistd.h>

namespace weft::tool {

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      // Our output may be a pipe that somebody else made non-blocking.
      pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
      (void)::poll(&entry, 1, -1);
      continue;
    }
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace weft::tool
