// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The process at the other end: reading its memory, and noticing its end.
#pragma once

#include <cstdint>
#include <mutex>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"
#include "plugins/common/process_identity.h"

namespace weft::shm {

/// Whether this process may read the memory of another: tries it on bytes whose value the other
/// told. False also for reasons of policy (a process that is not dumpable, a sandbox).
bool can_read(const plugins::ProcessIdentity& process, std::uint64_t address, const void* expected,
              std::uint64_t size);

/// Reads from one process again and again. [any-thread]
class PeerReader {
 public:
  /// Copies `size` bytes at `address` of `process`, the one of rank `peer`.
  weft_result read(const plugins::Host& host, const plugins::ProcessIdentity& process,
                   std::uint32_t peer, void* destination, std::uint64_t address,
                   std::uint64_t size);

 private:
  std::mutex mutex_;
  bool opened_ = false;
  bool ended_ = false;
  plugins::OwnedFd watch_;
};

}  // namespace weft::shm
