// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Identity of a process from /proc, and its end from a pidfd.
#include "plugins/common/process_identity.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::plugins {
namespace {

/// The first bytes of a small file of /proc; empty if it cannot be read.
std::string read_small(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 1024> bytes{};
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  return count > 0 ? std::string(bytes.data(), static_cast<std::size_t>(count)) : std::string();
}

/// Field 22 of /proc/PID/stat. The name of the program, field 2, may hold blanks and parentheses.
std::uint64_t start_time(const std::string& pid) {
  const std::string text = read_small("/proc/" + pid + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::string_view rest = std::string_view(text).substr(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return 0;
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t value = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

}  // namespace

std::uint64_t namespace_inode(const std::string& name) {
  struct stat facts{};
  return ::stat(("/proc/self/ns/" + name).c_str(), &facts) == 0 ? facts.st_ino : 0;
}

ProcessIdentity this_process() {
  ProcessIdentity identity;
  const std::string boot_id = read_small("/proc/sys/kernel/random/boot_id");
  std::copy_n(boot_id.begin(), std::min(boot_id.size(), identity.boot_id.size() - 1),
              identity.boot_id.begin());
  identity.pid_namespace = namespace_inode("pid");
  identity.start_time = start_time("self");
  identity.pid = static_cast<std::uint64_t>(::getpid());
  return identity;
}

OwnedFd watch_process(const ProcessIdentity& process, bool* ended) {
  *ended = false;
  const ProcessIdentity here = this_process();
  if (process.pid_namespace != here.pid_namespace || process.boot_id != here.boot_id) return {};
  // By number: the header of older C libraries declares the function for C alone.
  OwnedFd fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!fd) {
    *ended = errno == ESRCH;
    return {};
  }
  // The descriptor holds whoever has the pid now; its start time says whether that is the peer.
  const std::uint64_t start = start_time(std::to_string(process.pid));
  if (start != 0 && process.start_time != 0 && start != process.start_time) {
    *ended = true;
    return {};
  }
  return fd;
}

bool has_ended(const OwnedFd& process) {
  if (!process) return false;
  pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace weft::plugins
