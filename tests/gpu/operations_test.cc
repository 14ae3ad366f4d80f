// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All operations, types and reductions on CUDA buffers, by ranks of this process.
#include "tests/gpu/operations.h"

#include <string>
#include <tuple>

#include "tests/gpu/calls.h"

namespace weft::gpu_test {
namespace {

using OperationCase = std::tuple<ModeAndLayout, Operation>;

class Operations : public testing::TestWithParam<OperationCase> {};
TEST_P(Operations, Calls) {
  const auto& [how, operation] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  Team team(how.mode, how.layout);
  run_operation(team, operation, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Operations,
                         testing::Combine(testing::ValuesIn(modes_and_layouts()),
                                          testing::ValuesIn(kCollectives)),
                         [](const testing::TestParamInfo<OperationCase>& info) {
                           return std::get<0>(info.param).name() + "_of_" +
                                  name_of(std::get<1>(info.param));
                         });

constexpr std::array kTabled{Operation::kAllToAllV, Operation::kAllGatherV,
                             Operation::kReduceScatterV};

class Tables : public testing::TestWithParam<OperationCase> {};
TEST_P(Tables, ByTurns) {
  const auto& [how, operation] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  Team team(how.mode, how.layout);
  run_tables(team, operation, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Tables,
                         testing::Combine(testing::ValuesIn(modes_and_layouts()),
                                          testing::ValuesIn(kTabled)),
                         [](const testing::TestParamInfo<OperationCase>& info) {
                           return std::get<0>(info.param).name() + "_of_" +
                                  name_of(std::get<1>(info.param));
                         });

using TypeCase = std::tuple<ModeAndLayout, Type>;

class Types : public testing::TestWithParam<TypeCase> {};
TEST_P(Types, Calls) {
  const auto& [how, type] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  Team team(how.mode, how.layout);
  run_type(team, type, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Types,
                         testing::Combine(testing::ValuesIn(modes_and_layouts()),
                                          testing::ValuesIn(kAllTypes)),
                         [](const testing::TestParamInfo<TypeCase>& info) {
                           return std::get<0>(info.param).name() + "_" +
                                  std::get<1>(info.param).name;
                         });

class Mix : public testing::TestWithParam<ModeAndLayout> {};
TEST_P(Mix, OneStream) {
  SKIP_UNLESS_POSSIBLE(GetParam().layout);
  Team team(GetParam().mode, GetParam().layout);
  run_mix(team, 1, false);
}
TEST_P(Mix, TwoStreams) {
  SKIP_UNLESS_POSSIBLE(GetParam().layout);
  Team team(GetParam().mode, GetParam().layout);
  run_mix(team, 2, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, Mix, testing::ValuesIn(modes_and_layouts()), mode_and_layout_name);

// ---- each transport ----

class TransportOperations : public testing::TestWithParam<LayoutAndTransport> {};

TEST_P(TransportOperations, Calls) {
  SKIP_UNLESS_POSSIBLE(std::get<0>(GetParam()));
  Team team(Mode::kThreads, std::get<0>(GetParam()), settings_of(std::get<1>(GetParam())));
  run_few_of_each(team);
}
INSTANTIATE_TEST_SUITE_P(Gpu, TransportOperations,
                         testing::Combine(testing::ValuesIn(kPairs),
                                          testing::Values("p2p", "shm", "net")),
                         [](const testing::TestParamInfo<LayoutAndTransport>& info) {
                           return std::get<0>(info.param).name() + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace weft::gpu_test
