// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// memfd, seals and mappings.
#include "plugins/shm/memory.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

#include "plugins/common/available_memory.h"

namespace weft::shm {
namespace {

using plugins::Host;
using plugins::Mapping;
using plugins::OwnedFd;

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/// Without F_SEAL_SHRINK a peer could cut the file and have this process killed by a SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr const char* kMemoryHint =
    "free memory on this host, or use fewer channels or smaller buffers";

std::string subject(std::uint64_t size, std::uint32_t peer) {
  return std::to_string(size) + " bytes of memory to share with rank " + std::to_string(peer);
}

const char* memfd_hint(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "the sandbox of this process forbids memfd_create: allow it, or leave shm out of "
             "transports.order";
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "raise the system's limit of open files (fs.file-max)";
    default:
      return kMemoryHint;
  }
}

int open_memfd(unsigned more = 0) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | more;
  // Kernels before 6.3 do not know the flag, and later ones may insist on it.
  const int fd = ::memfd_create("weft-shm", flags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return ::memfd_create("weft-shm", flags);
}

/// ftruncate beyond this limit would end the process by a signal.
bool within_file_limit(std::uint64_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         size <= limit.rlim_cur;
}

/// fallocate through signals; 0 or an errno.
int reserve(int descriptor, std::uint64_t size) {
  while (::fallocate(descriptor, 0, 0, static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

std::uint64_t round_up(std::uint64_t size, std::uint64_t to) {
  return (size + to - 1) / to * to;
}

/// Bytes of a huge page where the descriptor's memory is made of such, else 0.
std::uint64_t huge_page_of(int descriptor) {
  struct statfs facts{};
  if (::fstatfs(descriptor, &facts) != 0 || facts.f_type != HUGETLBFS_MAGIC) return 0;
  return static_cast<std::uint64_t>(facts.f_bsize);
}

/// Memory of the host's pool of huge pages; 0 or an errno. A pool without free pages gives a
/// descriptor and refuses the mapping; one that a control group bounds refuses the pages.
int create_huge(std::uint64_t size, SharedMemory* out) {
  SharedMemory memory;
  memory.descriptor.reset(open_memfd(MFD_HUGETLB | MFD_HUGE_2MB));
  if (!memory.descriptor) return errno;
  const int fd = memory.descriptor.get();
  const std::uint64_t page = huge_page_of(fd);
  if (page == 0) return ENOTSUP;
  const std::uint64_t whole = round_up(size, page);
  if (!within_file_limit(whole)) return EFBIG;
  if (::ftruncate(fd, static_cast<off_t>(whole)) != 0) return errno;
  void* address = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return errno;
  memory.mapping = Mapping(address, whole);
  if (const int error = reserve(fd, whole); error != 0) return error;
  ::madvise(address, whole, MADV_DONTFORK);
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return errno;
  *out = std::move(memory);
  return 0;
}

weft_result map(const Host& host, int descriptor, std::uint64_t size, bool hint, std::uint32_t peer,
                Mapping* out) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return host.fail_errno(errno, "shm: cannot map " + subject(size, peer),
                           "raise the limit of address space (ulimit -v), or use fewer channels or "
                           "smaller buffers");
  }
  Mapping mapping(address, size);
  // Hints: a kernel that refuses them costs speed or a little memory.
  if (hint) ::madvise(address, size, MADV_HUGEPAGE);
  ::madvise(address, size, MADV_DONTFORK);
  *out = std::move(mapping);
  return WEFT_OK;
}

}  // namespace

std::optional<HugePages> parse_huge_pages(std::string_view text) {
  if (text == "off") return HugePages::kOff;
  if (text == "try") return HugePages::kTry;
  if (text == "require") return HugePages::kRequire;
  return std::nullopt;
}

weft_result create_memory(const Host& host, std::uint64_t size, HugePages huge_pages,
                          std::uint32_t peer, SharedMemory* out) {
  SharedMemory memory;
  if (huge_pages != HugePages::kOff) {
    const int error = create_huge(size, out);
    if (error == 0) return WEFT_OK;
    if (huge_pages == HugePages::kRequire) {
      return host.fail_errno(error, "shm: no huge pages for " + subject(size, peer),
                             "raise /proc/sys/vm/nr_hugepages, or set shm.huge_pages to try");
    }
    memory.no_huge_pages = error;
  }
  memory.descriptor.reset(open_memfd());
  if (!memory.descriptor) {
    const int error = errno;
    return host.fail_errno(error, "shm: memfd_create for " + subject(size, peer) + " refused",
                           memfd_hint(error));
  }
  if (size > plugins::available_memory()) {
    return host.fail_errno(ENOMEM, "shm: cannot make " + subject(size, peer), kMemoryHint);
  }
  if (!within_file_limit(size)) {
    return host.fail_errno(EFBIG, "shm: cannot make " + subject(size, peer),
                           "raise the limit of file size (ulimit -f)");
  }
  const int fd = memory.descriptor.get();
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return host.fail_errno(errno, "shm: cannot make " + subject(size, peer), kMemoryHint);
  }
  weft_result result = map(host, fd, size, huge_pages == HugePages::kTry, peer, &memory.mapping);
  if (result != WEFT_OK) return result;
  if (const int error = reserve(fd, size); error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
    return host.fail_errno(error, "shm: cannot reserve " + subject(size, peer), kMemoryHint);
  }
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    return host.fail_errno(errno, "shm: cannot seal " + subject(size, peer),
                           "leave shm out of transports.order");
  }
  *out = std::move(memory);
  return WEFT_OK;
}

weft_result map_memory(const Host& host, const OwnedFd& descriptor, std::uint64_t size, bool hint,
                       std::uint32_t peer, Mapping* out) {
  struct stat facts{};
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  const std::uint64_t page = huge_page_of(descriptor.get());
  const std::uint64_t whole = page == 0 ? size : round_up(size, page);
  if (!descriptor || seals < 0 || (seals & kSeals) != kSeals ||
      ::fstat(descriptor.get(), &facts) != 0 ||
      static_cast<std::uint64_t>(facts.st_size) != whole) {
    return host.fail_peer("shm: rank " + std::to_string(peer) +
                          " passed something else than sealed memory of " + std::to_string(whole) +
                          " bytes");
  }
  return map(host, descriptor.get(), whole, hint && page == 0, peer, out);
}

}  // namespace weft::shm
