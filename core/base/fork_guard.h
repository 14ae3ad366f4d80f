// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Tells a process from the child that it forked, for the price of one load: a page that the kernel
// wipes in children (MADV_WIPEONFORK, Linux 4.14).
#pragma once

#include <cerrno>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/error.h"

namespace weft {

/// Threads: any, after creation.
class ForkGuard {
 public:
  static Result<ForkGuard> create() {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return fail(Error::from_errno(errno, "cannot map a page"));
    ForkGuard guard(static_cast<volatile int*>(page), size);
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
      return fail(Error::from_errno(errno, "cannot mark a page to be wiped in children"));
    }
    *guard.page_ = 1;
    return guard;
  }

  /// True in a process that was forked after create().
  [[nodiscard]] bool in_child() const { return *page_ == 0; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(volatile int* page) const { munmap(const_cast<int*>(page), size); }
  };
  ForkGuard(volatile int* page, std::size_t size) : page_(page, Unmap{size}) {}
  std::unique_ptr<volatile int, Unmap> page_;
};

}  // namespace weft
