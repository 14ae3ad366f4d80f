// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The host device, acting as if switches joined the memory of the ranks of this process: what a
// communicator needs of a GPU with multicast, without one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <sys/eventfd.h>
#include <vector>

#include "core/device/host/host_device.h"
#include "core/model/multicast.h"
#include "tests/support/forked_child.h"

namespace weft::test {

/// Threads: as DeviceRuntime; the members that tests set are set before ranks join.
class MulticastDevice : public device::HostDevice {
 public:
  enum class Step : std::uint8_t { kNone, kBegin, kJoin, kMap };
  Step fails_at = Step::kNone;        ///< The first time that it comes there.
  std::atomic<int> teams{0};          ///< Places in teams that have not ended.
  bool forks = false;                 ///< A process as each rank joins a team.
  std::atomic<int> in_children{0};    ///< Of those processes, how many had the team's descriptor.
  std::atomic<int> left_to_peers{0};  ///< Of those that have, how many may still have been used.

  [[nodiscard]] bool has_multicast() const override { return true; }
  [[nodiscard]] std::string_view last_failure(std::int64_t* native) override {
    *native = 7;
    return "the switch said no";
  }
  weft_result begin_multicast(std::uint32_t devices, std::size_t bytes, MulticastTeam** out,
                              MemoryTicket* ticket) override {
    if (fails(Step::kBegin)) return WEFT_ERROR_DEVICE;
    const std::scoped_lock lock(mutex_);
    auto& team = teams_[++count_];
    team = std::make_shared<Team>();
    team->bytes = (bytes + 127) / 128 * 128;
    team->devices = devices;
    std::memcpy(ticket->bytes.data(), &count_, sizeof(count_));
    ticket->descriptor = ::eventfd(0, EFD_CLOEXEC);
    return add(team, out);
  }
  weft_result join_multicast(const MemoryTicket& ticket, MulticastTeam** out) override {
    if (fails(Step::kJoin)) return WEFT_ERROR_DEVICE;
    std::uint64_t number = 0;
    std::memcpy(&number, ticket.bytes.data(), sizeof(number));
    const std::scoped_lock lock(mutex_);
    const auto team = teams_.find(number);
    if (team == teams_.end() || ::eventfd_write(ticket.descriptor, 1) != 0) {
      return WEFT_ERROR_PEER;  // No ticket of this device, or another descriptor than that.
    }
    if (forks && is_open_in_children(ticket.descriptor)) ++in_children;
    return add(team->second, out);
  }
  weft_result map_multicast(MulticastTeam* member, MulticastView* out) override {
    if (fails(Step::kMap)) return WEFT_ERROR_DEVICE;
    const std::scoped_lock lock(mutex_);
    const Member& own = *as_member(member);
    Team& team = *own.team;
    if (team.each.size() != team.devices) return WEFT_ERROR_INTERNAL;
    void* memory = nullptr;
    if (const weft_result made = allocate(team.bytes, &memory); made != WEFT_OK) return made;
    team.each[own.place] = static_cast<std::byte*>(memory);
    *out = {.own = team.each[own.place],
            .all = nullptr,
            .each = team.each.data(),
            .ranks = team.devices,
            .bytes = team.bytes};
    return WEFT_OK;
  }
  void end_multicast(MulticastTeam* member, bool may_be_used) override {
    const std::scoped_lock lock(mutex_);
    const std::unique_ptr<Member> own(as_member(member));
    --teams;
    if (may_be_used) {
      ++left_to_peers;
      kept_.push_back(own->team->each[own->place]);
    } else {
      release(own->team->each[own->place]);
    }
  }
  ~MulticastDevice() override {
    for (std::byte* memory : kept_)
      release(memory);
  }

 private:
  struct Team {
    std::size_t bytes = 0;
    std::uint32_t devices = 0;
    std::vector<std::byte*> each;  // by the order in which they joined
  };
  struct Member {
    std::shared_ptr<Team> team;
    std::size_t place = 0;
  };
  // MulticastTeam is never defined: its address stands for a member.
  static Member* as_member(MulticastTeam* member) { return reinterpret_cast<Member*>(member); }

  bool fails(Step step) { return fails_at == step && !failed_.exchange(true); }
  weft_result add(const std::shared_ptr<Team>& team, MulticastTeam** out) {
    if (team->each.size() == team->devices) return WEFT_ERROR_PEER;
    team->each.reserve(team->devices);  // what views point to stays
    team->each.push_back(nullptr);
    *out =
        reinterpret_cast<MulticastTeam*>(new Member{.team = team, .place = team->each.size() - 1});
    ++teams;
    return WEFT_OK;
  }

  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::uint64_t count_ = 0;                               // guarded by mutex_, as all below
  std::map<std::uint64_t, std::shared_ptr<Team>> teams_;  // by the number in tickets
  std::vector<std::byte*> kept_;
};

}  // namespace weft::test
