// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The policies for kernels whose lanes share lines of LL128: groups of lanes, each a fiber, and
// memory that keeps a line together as devices do that run such kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/policies.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/symbolic_memory.h"

namespace weft::checker {

/// Lanes that wait until all of them are there, again and again.
class Meeting {
 public:
  Meeting(Fibers& fibers, std::uint32_t lanes) : fibers_(&fibers), lanes_(lanes) {}
  /// Of all lanes: whether one says so. Once all have stopped, what the lane says itself.
  bool any(bool flag);
  /// What the lane says that leads.
  std::uint64_t told(bool leads, std::uint64_t value);

 private:
  void wait_for_all();

  Fibers* fibers_;
  std::uint32_t lanes_;
  std::uint32_t arrived_ = 0;
  std::uint64_t phase_ = 0;
  Waiters waiters_;
  // By the number of the meeting: who is late still reads those of the one before.
  bool flags_[2] = {false, false};
  std::uint64_t told_[2] = {0, 0};
};

/// What the lanes of one group share.
struct LaneTeam {
  /// `gang` lanes go on together: a multiple of 8 that divides `lanes`.
  LaneTeam(Fibers& fibers, std::uint32_t lanes, std::uint32_t gang);
  const std::uint32_t size;
  const std::uint32_t gang;
  Meeting all;
  std::vector<Meeting> gangs;
  std::vector<Meeting> eights;
};

class FiberLane {
 public:
  FiberLane(LaneTeam& team, std::uint32_t lane) : team_(team), lane_(lane) {}
  [[nodiscard]] std::uint32_t rank() const { return lane_; }
  [[nodiscard]] std::uint32_t size() const { return team_.size; }
  [[nodiscard]] bool leader() const { return lane_ == 0; }
  void sync() { team_.all.any(false); }
  std::uint64_t broadcast(std::uint64_t value) { return team_.all.told(leader(), value); }
  bool any(bool flag) { return team_.all.any(flag); }
  [[nodiscard]] std::uint32_t gang_size() const { return team_.gang; }
  bool any_of_gang(bool flag) { return team_.gangs[lane_ / team_.gang].any(flag); }
  static void gather_gang() {}  // looks gather lanes by themselves
  /// Of the eight that share a line.
  bool any_of_eight(bool flag) { return team_.eights[lane_ / kWideLineLanes].any(flag); }

 private:
  LaneTeam& team_;
  const std::uint32_t lane_;
};

/// A lane's memory. Words come one by one, in any order, the flag last.
class WideMemory : public SymbolicMemory {
 public:
  using SymbolicMemory::SymbolicMemory;
  void store_wide(FiberLane& group, std::byte* to, device::Line share, bool last);
  [[nodiscard]] device::Line load_wide(FiberLane& group, const std::byte* from, std::uint64_t flag,
                                       bool last);
};

/// As SymbolicReduction. Words of lines behind the last element are zeros, and stay so.
class WideReduction {
 public:
  WideReduction(SymbolicMemory& memory, bool averages, bool premultiplies)
      : memory_(&memory), averages_(averages), premultiplies_(premultiplies) {}

  static constexpr std::uint32_t element_bytes() { return sizeof(Value); }
  [[nodiscard]] bool premultiplies() const { return premultiplies_; }
  [[nodiscard]] std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) const;
  [[nodiscard]] std::uint64_t finish_payload(std::uint64_t payload) const;
  [[nodiscard]] std::uint64_t premultiply_payload(std::uint64_t payload) const;
  // Kernels ask the type for these: see World::running.
  [[nodiscard]] static std::uint64_t load_payload(const std::byte* from, std::uint64_t bytes);
  static void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes);

 private:
  SymbolicMemory* memory_;
  bool averages_;
  bool premultiplies_;
};

static_assert(device::wide_line_memory<WideMemory, FiberLane>);

/// One lane of a kernel.
struct WideCall {
  FiberLane& group;
  WideMemory& memory;
  const WorkItem& item;
  const WideReduction& reduction;
  std::uint32_t rank;
  std::uint32_t part;
  std::uint32_t parts;
};
using WideKernel = std::function<KernelOutcome(const WideCall& call)>;

/// The product's.
[[nodiscard]] KernelOutcome run_wide_kernel(const WideCall& call);

}  // namespace weft::checker
