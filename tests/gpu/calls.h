// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is run on a team, whoever drives it: tests on threads and ranks in processes of their own.
#pragma once

#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {

/// All kinds of calls of one type, in all places, up to options().largest. `few`: of ranks that
/// take turns on one device, where a call takes long.
void run_calls(Team& team, const Type& type, bool few);
/// The sizes of a transport: small ones to 4 MiB.
void run_transport_calls(Team& team);

/// A communicator's first call ever is captured.
void capture_first_use(Team& team);
/// So are the first that take many channels, of which others make use later.
void capture_many_channels_first(Team& team);
/// Several graphs and eager calls by turns.
void replay_alternately(Team& team);
/// A thousand replays, one after the other without a pause, each with inputs of its own; some of
/// them eager calls if `mixed`.
void replay_often(Team& team, const Type& type, bool mixed);

/// "p2p", "shm" or "net", which is net-socket, and alone.
using LayoutAndTransport = std::tuple<Layout, std::string>;
[[nodiscard]] inline Settings settings_of(const std::string& transport) {
  Settings settings{{"transports.order", transport}};
  if (transport == "net") settings.emplace_back("transports.net", "net-socket");
  return settings;
}
inline std::string layout_and_transport_name(
    const testing::TestParamInfo<LayoutAndTransport>& info) {
  return std::get<0>(info.param).name() + "_" + std::get<1>(info.param);
}

#define SKIP_UNLESS_POSSIBLE(layout) \
  if (!(layout).possible()) \
  GTEST_SKIP() << "needs " << ((layout).one_device ? 1 : (layout).ranks) << " CUDA devices, and " \
               << device_count() << " are here"

#define SKIP_ON_HOST() \
  if (options().host) GTEST_SKIP() << "of CUDA devices alone"

/// 1, 2 and 4 ranks on as many devices, and 2 and 4 on one.
inline const std::array kLayouts{Layout{1, false}, Layout{2, false}, Layout{4, false},
                                 Layout{2, true}, Layout{4, true}};
/// Those with peers.
inline const std::array kPairs{Layout{2, false}, Layout{4, false}, Layout{2, true},
                               Layout{4, true}};

struct ModeAndLayout {
  Mode mode;
  Layout layout;
  [[nodiscard]] std::string name() const {
    return (mode == Mode::kThreads ? "Threads" : "OneThread") + layout.name();
  }
};
inline std::ostream& operator<<(std::ostream& out, const ModeAndLayout& how) {
  return out << how.name();
}
/// By threads and by one thread, all layouts.
inline std::vector<ModeAndLayout> modes_and_layouts() {
  std::vector<ModeAndLayout> all;
  for (const Layout& layout : kLayouts) {
    all.push_back({Mode::kThreads, layout});
    all.push_back({Mode::kOneThread, layout});
  }
  return all;
}
inline std::string mode_and_layout_name(const testing::TestParamInfo<ModeAndLayout>& info) {
  return info.param.name();
}

template <class Parameter>
std::string layout_name(const testing::TestParamInfo<Parameter>& info) {
  return info.param.name();
}

}  // namespace weft::gpu_test
