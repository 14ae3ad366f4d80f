// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A program's own memory on a CUDA device, reached by the devices of other ranks of the host. As
// for connections all comes from the host's memory service.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include <plugin_api/transport.h>

#include "plugins/common/fork_closed.h"
#include "plugins/common/hand_over.h"
#include "plugins/common/host.h"
#include "plugins/common/key.h"
#include "plugins/common/segment.h"

namespace weft::p2p {

/// What a rank tells of a buffer. Travels, not trusted.
struct BufferBlob {
  std::uint64_t magic = 0;
  std::uint64_t communicator = 0;
  std::uint32_t rank = 0;
  weft_memory_sharing sharing = WEFT_SHARING_NONE;  ///< How it travels.
  std::uint64_t offset = 0;                         ///< Bytes, in its allocation.
  std::uint64_t size = 0;
  plugins::HandOverPlace place;
  std::array<std::uint8_t, 128> ticket{};
};
static_assert(std::has_unique_object_representations_v<BufferBlob>);

}  // namespace weft::p2p

/// This rank's own, exported, or a peer's. [one-thread]
struct weft_shared_buffer {
  explicit weft_shared_buffer(const weft::plugins::Host& services) : host(services) {}
  weft_shared_buffer(const weft_shared_buffer&) = delete;
  weft_shared_buffer& operator=(const weft_shared_buffer&) = delete;
  ~weft_shared_buffer();

  /// Makes the blob of [address, address + size), but for what the transport knows alone: who and
  /// where it is. `allowed`: the ways in which it may travel.
  weft_result share(void* address, std::uint64_t size, weft_memory_sharing allowed);
  /// Has the descriptor of what a blob tells of come, if it travels so; WEFT_IN_PROGRESS until
  /// then.
  weft_result fetch(const weft::p2p::BufferBlob& from, std::uint32_t own_rank,
                    const weft::plugins::Key& key);
  /// Reaches what has been fetched.
  weft_result reach(const weft::p2p::BufferBlob& from, std::int32_t device, void** address);

  /// Whether `peer` has yet to take the descriptor.
  [[nodiscard]] bool awaits(std::uint32_t peer) const {
    return descriptor && !takers.contains(peer);
  }

  const weft::plugins::Host host;
  // Exported.
  weft::p2p::BufferBlob blob;
  weft_buffer_export described{};
  weft::plugins::ForkClosedFd descriptor;
  std::set<std::uint32_t> takers;
  // Imported.
  weft::plugins::Taker taker;
  weft::plugins::ForkClosedFd fetched;
  std::optional<weft_memory> memory;
};
