// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/net/own_sockets.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace weft::test {

std::set<int> own_sockets(const std::set<int>& before) {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int family = 0;
    socklen_t size = sizeof family;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) continue;
    if ((family == AF_INET || family == AF_INET6) && !before.contains(fd)) found.insert(fd);
  }
  return found;
}

std::set<int> own_connections(const std::set<int>& before) {
  std::set<int> found = own_sockets(before);
  std::erase_if(found, [](int fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0;
  });
  return found;
}

void cut(const std::set<int>& sockets) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &nothing};
  for (const int fd : sockets) {
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }
}

void mend(const std::set<int>& sockets) {
  const int unused = 0;
  for (const int fd : sockets) {
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused), 0);
  }
}

tcp_info info_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  EXPECT_GE(size, offsetof(tcp_info, tcpi_data_segs_out) + sizeof info.tcpi_data_segs_out);
  return info;
}

}  // namespace weft::test
