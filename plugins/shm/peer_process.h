// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The process at the other end: reading its memory, and noticing its end.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"
#include "plugins/common/process_identity.h"

namespace weft::shm {

/// Why this process cannot read the memory of another, empty if it can: tries it on bytes whose
/// value the other told. Names nobody, so that a rank says the same of all its peers.
std::string obstacle_to_reading(const plugins::ProcessIdentity& process, std::uint64_t address,
                                const void* expected, std::uint64_t size);

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
