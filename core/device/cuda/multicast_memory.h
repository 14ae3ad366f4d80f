// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory of several devices behind one address, through the switches of NVLink: the driver's
// multicast objects (CUDA Driver API, "Multicast Object Management"; from CUDA 12.1 on). Written by
// the documentation and compiled; nobody has run it on hardware.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/device/cuda/driver_memory.h"

namespace weft::device::cuda {

/// The functions of DeviceRuntime about multicast, of one device. Threads: every member from any.
class MulticastMemory {
 public:
  explicit MulticastMemory(std::int32_t device) : device_(device) {}
  MulticastMemory(const MulticastMemory&) = delete;
  MulticastMemory& operator=(const MulticastMemory&) = delete;
  /// No kernel of any device in its teams runs any more.
  ~MulticastMemory();

  [[nodiscard]] bool has_multicast() const;
  weft_result begin(std::uint32_t devices, std::size_t bytes, MulticastTeam** out,
                    MemoryTicket* ticket);
  weft_result join(const MemoryTicket& ticket, MulticastTeam** out);
  weft_result map(MulticastTeam* team, MulticastView* out);
  void end(MulticastTeam* team, bool may_be_used);

 private:
  /// This device's place in a team.
  struct Place {
    MappedMemory all;  ///< The team: its handle, and the address that stands for all devices.
    MappedMemory own;  ///< This device's memory.
    bool bound = false;
  };
  void give_back(const Place& place) const;
  weft_result add(const MappedMemory& team, MulticastTeam** out);

  const std::int32_t device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> kept_;  // guarded by mutex_: ended while used
};

}  // namespace weft::device::cuda
