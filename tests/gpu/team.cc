// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/team.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <ostream>

#include "tests/gpu/reference.h"

namespace weft::gpu_test {
namespace {

std::mutex g_teams_mutex;
std::vector<Team*> g_teams;

}  // namespace

Options& options() {
  static Options options;
  return options;
}

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.name();
}

Team::Team(Mode mode, const Layout& layout, const Settings& settings)
    : mode_(mode), layout_(layout) {
  const char* own = std::getenv("WEFT_RANK");
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    if (mode == Mode::kProcess && std::to_string(rank) != own) continue;
    members_.push_back({.rank = rank, .device = layout.one_device ? 0 : static_cast<int>(rank)});
  }
  Settings all = settings;
  all.insert(all.end(), options().settings.begin(), options().settings.end());
  by_rank_ = std::ranges::count(all, std::pair<std::string, std::string>(
                                         "collectives.deterministic", "true")) != 0;
  if (!options().algorithm.empty()) {
    all.emplace_back("collectives.all_reduce.algorithm", options().algorithm);
  }
  if (!options().protocol.empty()) {
    all.emplace_back("collectives.all_reduce.protocol", options().protocol);
  }
  // Of calls of any size, so that the few bytes of most tests are copied, too.
  if (!options().windows.empty()) {
    for (const char* const from : {"windows.copy_from", "windows.reduce_from"})
      all.emplace_back(from, "1");
    all.emplace_back("windows.staging", "1MiB");  // several pieces of what is tried
  }
  for (Member& member : members_) {
    const Stream stream = open_stream(member.device);
    member.cuda = stream.cuda;
    member.stream = stream.weft;
  }
  join(all);
  const std::scoped_lock lock(g_teams_mutex);
  g_teams.push_back(this);
}

void Team::join(const Settings& settings) {
  CommConfig shared(settings);
  shared.config.device_kind = options().host ? WEFT_DEVICE_HOST : WEFT_DEVICE_CUDA;
  weft_unique_id id{};
  if (mode_ != Mode::kProcess) check(weft_get_unique_id(context(), &id), "weft_get_unique_id");
  issue([&](Member& member) {
    weft_comm_config config = shared.config;
    config.device = member.device;
    if (mode_ == Mode::kProcess) {
      check(weft_comm_init_env(context(), &config, &member.comm), "weft_comm_init_env");
    } else {
      check(weft_comm_init_rank(context(), &config, layout_.ranks, &id, member.rank, &member.comm),
            "weft_comm_init_rank");
    }
  });
}

Team::~Team() {
  leave();
  for (const Member& member : members_)
    close_stream(member.device, {.cuda = member.cuda, .weft = member.stream});
}

void Team::leave() {
  {
    const std::scoped_lock lock(g_teams_mutex);
    std::erase(g_teams, this);
  }
  const auto destroy = [](Member& member) {
    static_cast<void>(weft_comm_destroy(std::exchange(member.comm, nullptr)));
  };
  if (mode_ == Mode::kThreads) {
    on_threads(members_.size(), [&](std::size_t i) { destroy(members_[i]); });
  } else {
    std::ranges::for_each(members_, destroy);
  }
}

void Team::abort_all() {
  const std::scoped_lock lock(g_teams_mutex);
  for (Team* team : g_teams) {
    for (Member& member : team->members_)
      static_cast<void>(weft_comm_abort(member.comm));
  }
}

std::string Team::tell_streams() {
  const std::scoped_lock lock(g_teams_mutex);
  std::string text;
  for (const Team* team : g_teams) {
    for (const Member& member : team->members_) {
      text += "rank " + std::to_string(member.rank) + " of " + team->layout_.name() +
              ": its stream " + state_of({.cuda = member.cuda, .weft = member.stream}) + '\n';
    }
  }
  return text;
}

void Team::each(const Action& action) {
  const auto act = [&](std::size_t i) {
    use_device(members_[i].device);
    action(members_[i]);
  };
  if (mode_ == Mode::kThreads) return on_threads(members_.size(), act);
  for (std::size_t i = 0; i < members_.size(); ++i)
    act(i);
}

void Team::issue(const Action& action) {
  if (mode_ != Mode::kOneThread) return each(action);
  gpu_test::check(weft_group_start(context()), "weft_group_start");
  try {
    each(action);
  } catch (...) {
    static_cast<void>(weft_group_end(context()));
    throw;
  }
  gpu_test::check(weft_group_end(context()), "weft_group_end");
}

void Team::synchronize() {
  each([](Member& member) {
    check(weft_stream_synchronize(member.stream),
          "rank " + std::to_string(member.rank) + ": weft_stream_synchronize");
  });
}

}  // namespace weft::gpu_test
