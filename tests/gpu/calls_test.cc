// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-reduce and broadcast on CUDA buffers, by ranks of this process, against the host device.
#include "tests/gpu/calls.h"

#include <tuple>

#include "tests/gpu/graphs.h"
#include "tests/gpu/operations.h"

namespace weft::gpu_test {
namespace {

/// Around vectors, a CTA's threads, steps of 128 KiB, the 1 MiB up to which ranks write straight
/// to each other, and what 64 channels take at once.
std::vector<std::size_t> small_counts() {
  if (options().small) return {0, 1, 257, 4093};
  return {0,     1,      2,      3,      5,      7,      8,       31,
          127,   257,    1021,   4093,   16381,  32768,  32771,   65536,
          65537, 131072, 131073, 262144, 262147, 524287, 1048573, 5000011};
}

struct Place {
  bool in_place;
  std::uint32_t send, recv;
};
constexpr std::array<Place, 6> kPlaces{
    {{false, 0, 0}, {false, 1, 0}, {false, 0, 1}, {false, 1, 1}, {true, 0, 0}, {true, 0, 1}}};

void run_small(Team& team, const Type& type, bool few, Seeds& seeds) {
  std::vector<std::size_t> counts = small_counts();
  if (few) counts = {0, 1, 257, 65537};
  const std::uint32_t last = team.layout().ranks - 1;
  for (const std::size_t count : counts) {
    if (count * type.bytes > options().largest) continue;
    const bool large = count > 500000;
    for (const Place& place : kPlaces) {
      // Large calls take a while, on the host above all: without the mixed places.
      if ((few || large) && place.send != place.recv) continue;
      // Sizes that take a while get each place once, not each reduction and root.
      const bool once = few || count > 70000;
      Call call{.type = type,
                .count = count,
                .in_place = place.in_place,
                .send_offset = place.send,
                .recv_offset = place.recv};
      Trial(team, call).run(seeds.next());
      call.reduction = WEFT_MAX;
      if (!once) Trial(team, call).run(seeds.next());
      call.operation = Operation::kBroadcast;
      call.root = seeds.next() % 2 != 0 ? last : 0;
      Trial(team, call).run(seeds.next());
    }
  }
}

void run_specials(Team& team, const Type& type, Seeds& seeds) {
  if (type.weft == WEFT_INT32) return;
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_MAX}) {
    const Call call{.type = type, .reduction = reduction, .count = 4093, .specials = true};
    Trial(team, call).run(seeds.next());
  }
}

void run_large(Team& team, const Type& type, Seeds& seeds) {
  const std::size_t most = options().largest / type.bytes;
  const std::uint32_t last = team.layout().ranks - 1;
  const std::array calls{
      Call{.type = type, .count = most},
      Call{.type = type, .reduction = WEFT_MAX, .count = most - 1, .in_place = true},
      Call{.type = type, .count = most - 3, .send_offset = 1, .recv_offset = 0},
      Call{.operation = Operation::kBroadcast,
           .type = type,
           .count = most - 1,
           .root = last,
           .recv_offset = 1}};
  for (const Call& call : calls)
    Trial(team, call).run(seeds.next());
}

}  // namespace

void run_calls(Team& team, const Type& type, bool few) {
  Seeds seeds;
  run_small(team, type, few, seeds);
  run_specials(team, type, seeds);
  if (!options().small && !few) run_large(team, type, seeds);
}

void run_transport_calls(Team& team) {
  Seeds seeds;
  for (const std::size_t count : {1UL, 257UL, 4093UL, 65537UL, 1048576UL}) {
    if (count * 4 > options().largest) continue;
    for (const bool in_place : {false, true}) {
      Trial(team, {.type = kFloat32, .count = count, .in_place = in_place}).run(seeds.next());
      Trial(team, {.type = kInt32, .reduction = WEFT_MAX, .count = count, .in_place = in_place})
          .run(seeds.next());
      Trial(team, {.operation = Operation::kBroadcast,
                   .type = kInt32,
                   .count = count,
                   .root = team.layout().ranks - 1,
                   .in_place = in_place})
          .run(seeds.next());
    }
  }
}

namespace {

using LayoutAndType = std::tuple<Layout, Type>;

std::string both_names(const testing::TestParamInfo<LayoutAndType>& info) {
  const auto& [layout, type] = info.param;
  return layout.name() + "_" + type.name;
}

class Threads : public testing::TestWithParam<LayoutAndType> {};
TEST_P(Threads, AllCalls) {
  const auto& [layout, type] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Team team(Mode::kThreads, layout);
  run_calls(team, type, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Threads,
                         testing::Combine(testing::ValuesIn(kLayouts), testing::ValuesIn(kTypes)),
                         both_names);

class OneThread : public testing::TestWithParam<LayoutAndType> {};
TEST_P(OneThread, AllCalls) {
  const auto& [layout, type] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Team team(Mode::kOneThread, layout);
  run_calls(team, type, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, OneThread,
                         testing::Combine(testing::ValuesIn(kLayouts), testing::ValuesIn(kTypes)),
                         both_names);

/// One size, far beyond all buffers.
class Long : public testing::TestWithParam<Layout> {};
TEST_P(Long, OneGibibyte) {
  SKIP_UNLESS_POSSIBLE(GetParam());
  Team team(Mode::kThreads, GetParam());
  const std::size_t count = std::size_t{1} << 28;
  Trial(team, {.type = kFloat32, .count = count}).run(options().seed);
  Trial(team, {.type = kInt32, .count = count - 1, .in_place = true, .recv_offset = 1})
      .run(options().seed + 1);
  Trial(team, {.operation = Operation::kBroadcast, .type = kFloat32, .count = count})
      .run(options().seed + 2);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Long, testing::ValuesIn(kLayouts), layout_name<Layout>);

// ---- each transport ----

class Transports : public testing::TestWithParam<LayoutAndTransport> {};

TEST_P(Transports, Calls) {
  const auto& [layout, transport] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Team team(Mode::kThreads, layout, settings_of(std::get<1>(GetParam())));
  std::array<char, 256> pair{};
  weft_comm_describe_pair(team.members()[0].comm, 0, 1, pair.data(), pair.size());
  EXPECT_TRUE(std::string(pair.data()).starts_with(transport)) << pair.data();
  run_transport_calls(team);
}

// A net needs the CPU in each call: such calls are not captured, and nothing is broken by the try.
TEST_P(Transports, CaptureOrSayWhyNot) {
  const auto& [layout, transport] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Team team(Mode::kThreads, layout, settings_of(std::get<1>(GetParam())));
  if (transport != "net" || options().host) return capture_first_use(team);
  Trial trial(team, {.count = 257});
  EXPECT_THROW(Graphs(team, [&](Member& member) { trial.issue(member); }), Unsupported);
  trial.run(options().seed);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Transports,
                         testing::Combine(testing::ValuesIn(kPairs),
                                          testing::Values("p2p", "shm", "net")),
                         layout_and_transport_name);

}  // namespace
}  // namespace weft::gpu_test
