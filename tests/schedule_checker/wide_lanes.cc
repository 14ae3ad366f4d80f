// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/wide_lanes.h"

#include <cstddef>
#include <cstdint>

#include "core/device/work_item_kernel.h"

namespace weft::checker {

void Meeting::wait_for_all() {
  const std::uint64_t next = phase_ + 1;
  if (++arrived_ != lanes_) {
    static_cast<void>(fibers_->wait(&phase_, next, waiters_));
    return;
  }
  arrived_ = 0;
  flags_[(next + 1) % 2] = false;
  phase_ = next;
  fibers_->raised(&phase_, false, waiters_);
}

bool Meeting::any(bool flag) {
  bool& said = flags_[(phase_ + 1) % 2];
  said = said || flag;
  wait_for_all();
  return fibers_->stopped() ? flag : said;
}

std::uint64_t Meeting::told(bool leads, std::uint64_t value) {
  std::uint64_t& told = told_[(phase_ + 1) % 2];
  if (leads) told = value;
  wait_for_all();
  return fibers_->stopped() ? value : told;
}

LaneTeam::LaneTeam(Fibers& fibers, std::uint32_t lanes, std::uint32_t gang_lanes)
    : size(lanes), gang(gang_lanes), all(fibers, lanes) {
  gangs.assign(lanes / gang, Meeting(fibers, gang));
  eights.assign(lanes / kWideLineLanes, Meeting(fibers, kWideLineLanes));
}

void WideMemory::store_wide(FiberLane& group, std::byte* to, device::Line share, bool last) {
  if (to != nullptr) {
    store_word_of_line(to, share.low);
    if (!last) store_word_of_line(to + sizeof(Value), share.high);
  }
  group.any_of_eight(false);
  if (to != nullptr && last) store_word_of_line(to + sizeof(Value), share.high);
}

device::Line WideMemory::load_wide(FiberLane& group, const std::byte* from, std::uint64_t flag,
                                   bool last) {
  device::Line share{};
  if (from != nullptr && last) share.high = load_line(from).high;
  // All eight load at one time, behind the flag.
  if (!group.any_of_eight(last && share.high == flag) || from == nullptr) return share;
  const device::Line come = load_line(from);
  take_line(from);
  share.low = come.low;
  if (!last) share.high = come.high;
  return share;
}

std::uint64_t WideReduction::combine_payloads(std::uint64_t a, std::uint64_t b) const {
  return a == 0 && b == 0 ? 0 : memory_->combine(a, b);
}

std::uint64_t WideReduction::finish_payload(std::uint64_t payload) const {
  return averages_ && payload != 0 ? memory_->finished(payload) : payload;
}

std::uint64_t WideReduction::premultiply_payload(std::uint64_t payload) const {
  return payload == 0 ? 0 : memory_->premultiplied(payload);
}

std::uint64_t WideReduction::load_payload(const std::byte* from, std::uint64_t /*bytes*/) {
  return World::running->lanes.at(World::running->fibers.current())->load_element(from);
}

void WideReduction::store_payload(std::byte* to, std::uint64_t payload, std::uint64_t /*bytes*/) {
  World::running->lanes.at(World::running->fibers.current())->store_element(to, payload);
}

KernelOutcome run_wide_kernel(const WideCall& call) {
  const DirectPeers& peers = *call.item.direct;
  return peers.ranks == 2
             ? device::run_wide_item<2>(call.group, call.memory, call.item, peers, call.reduction,
                                        call.part, call.parts)
             : device::run_wide_item<kMostDirectRanks>(call.group, call.memory, call.item, peers,
                                                       call.reduction, call.part, call.parts);
}

}  // namespace weft::checker
