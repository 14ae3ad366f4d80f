// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Pre-multiplied sums: what their handles are, and when scalars are read. What comes out of them is
// for the shapes of tests/integration/api/shapes.cc, which all ways of making ranks try.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Premul : public ::testing::Test {
 protected:
  static weft_premul_sum_options options_of(const float& scalar,
                                            weft_scalar_residence residence = WEFT_SCALAR_NOW) {
    weft_premul_sum_options options{};
    options.struct_size = sizeof(options);
    options.type = WEFT_FLOAT32;
    options.residence = residence;
    options.scalar = &scalar;
    return options;
  }
  weft_reduction make(std::size_t rank, const float& scalar,
                      weft_scalar_residence residence = WEFT_SCALAR_NOW) {
    const weft_premul_sum_options options = options_of(scalar, residence);
    weft_reduction made = WEFT_SUM;
    must(context(), weft_reduction_create_premul_sum(comm(rank), &options, &made));
    return made;
  }
  weft_result all_reduce(std::size_t rank, weft_reduction reduction,
                         weft_data_type type = WEFT_FLOAT32) {
    return weft_all_reduce(inputs_[rank].data(), outputs_[rank].data(), inputs_[rank].size(), type,
                           reduction, comm(rank), streams_[rank].get());
  }
  void synchronize() {
    for (const StreamHandle& stream : streams_)
      must(context(), weft_stream_synchronize(stream.get()));
  }
  void expect_refusal(weft_result result, const std::string& text) {
    EXPECT_EQ(result, WEFT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(last_error(context()), text);
  }
  void expect_unknown(weft_result result, weft_reduction made) {
    expect_refusal(result, "reduction " + std::to_string(made) +
                               " is none of this communicator; try: use it with the communicator "
                               "that it was made for, before it is destroyed");
  }
  [[nodiscard]] weft_context* context() const { return context_.get(); }
  [[nodiscard]] weft_comm* comm(std::size_t rank) const { return comms_[rank].get(); }

  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 2);
  std::vector<CommHandle> comms_ = init_all(context_.get(), CommSettings(), 2);
  std::array<std::vector<float>, 2> inputs_ = {std::vector<float>{1, 2, 3}, {10, 20, 30}};
  std::array<std::vector<float>, 2> outputs_ = {std::vector<float>(3), std::vector<float>(3)};
};

TEST_F(Premul, EachRankHasItsOwnScalar) {
  must(context(), all_reduce(0, make(0, 2)));
  must(context(), all_reduce(1, make(1, -0.5F)));
  synchronize();
  for (const auto& output : outputs_)
    EXPECT_THAT(output, ElementsAre(-3, -6, -9));
  EXPECT_THAT(inputs_[0], ElementsAre(1, 2, 3));
}

TEST_F(Premul, AScalarReadNowIsKept) {
  float scalar = 3;
  const std::array made = {make(0, scalar), make(1, scalar)};
  EXPECT_NE(made[0], made[1]);
  EXPECT_GT(made[0], WEFT_AVG);
  scalar = 7;
  for (std::size_t rank = 0; rank < 2; ++rank)
    must(context(), all_reduce(rank, made[rank]));
  synchronize();
  EXPECT_THAT(outputs_[1], ElementsAre(33, 66, 99));
}

// The stream itself writes it between two calls that use it: nobody waits in between.
TEST_F(Premul, AScalarReadAtTheCallIsReadInTheOrderOfTheStream) {
  std::array<float, 2> scalars = {1, 1};
  float next = 5;
  std::array<std::vector<float>, 2> later = {std::vector<float>(3), std::vector<float>(3)};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const weft_reduction made = make(rank, scalars[rank], WEFT_SCALAR_AT_CALL);
    must(context(), all_reduce(rank, made));
    must(context(), weft_broadcast(&next, &scalars[rank], 1, WEFT_FLOAT32, 0, comm(rank),
                                   streams_[rank].get()));
    must(context(), weft_all_reduce(inputs_[rank].data(), later[rank].data(), 3, WEFT_FLOAT32, made,
                                    comm(rank), streams_[rank].get()));
  }
  synchronize();
  EXPECT_THAT(outputs_[0], ElementsAre(11, 22, 33));
  EXPECT_THAT(later[0], ElementsAre(55, 110, 165));
  EXPECT_EQ(later[0], later[1]);
}

TEST_F(Premul, ScalarsChangeBetweenCalls) {
  std::array<float, 2> scalars = {1, 0};
  const std::array made = {make(0, scalars[0], WEFT_SCALAR_AT_CALL),
                           make(1, scalars[1], WEFT_SCALAR_AT_CALL)};
  for (int turn = 1; turn <= 3; ++turn) {
    scalars[1] = static_cast<float>(turn);
    for (std::size_t rank = 0; rank < 2; ++rank)
      must(context(), all_reduce(rank, made[rank]));
    synchronize();
    EXPECT_EQ(outputs_[0][2], 3 + 30 * static_cast<float>(turn));
    EXPECT_EQ(outputs_[0], outputs_[1]);
  }
}

TEST_F(Premul, CallsMadeBeforeADestroyAreCarriedOut) {
  must(context(), weft_group_start(context()));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const weft_reduction made = make(rank, 2);
    must(context(), all_reduce(rank, made));
    must(context(), weft_reduction_destroy(comm(rank), made));
    expect_unknown(weft_reduction_destroy(comm(rank), made), made);
  }
  must(context(), weft_group_end(context()));
  synchronize();
  EXPECT_THAT(outputs_[1], ElementsAre(22, 44, 66));
}

TEST_F(Premul, HandlesThatDoNotFitAreRefused) {
  const weft_reduction made = make(0, 2);
  expect_unknown(all_reduce(1, made), made);
  expect_unknown(weft_reduction_destroy(comm(1), made), made);
  expect_refusal(all_reduce(0, made, WEFT_INT32),
                 "reduction " + std::to_string(made) +
                     " multiplies float32, but the call is of int32; try: make one for each type");
  must(context(), weft_reduction_destroy(comm(0), made));
  expect_unknown(all_reduce(0, made), made);
  const std::string no_reduction =
      " is no reduction; try: one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG";
  // What stands for made ones inside of the library is none outside.
  for (const weft_reduction number : {-1, WEFT_AVG + 1, 4095})
    expect_refusal(all_reduce(0, number), std::to_string(number) + no_reduction);
  expect_refusal(weft_reduction_destroy(comm(0), WEFT_SUM),
                 std::to_string(WEFT_SUM) + no_reduction);
}

TEST_F(Premul, OptionsAreChecked) {
  const float scalar = 2;
  const weft_premul_sum_options good = options_of(scalar);
  weft_reduction made = WEFT_SUM;
  const auto refused = [&](const weft_premul_sum_options& options, const std::string& text) {
    expect_refusal(weft_reduction_create_premul_sum(comm(0), &options, &made), text);
  };
  EXPECT_EQ(weft_reduction_create_premul_sum(nullptr, &good, &made), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_reduction_destroy(nullptr, made), WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_reduction_create_premul_sum(comm(0), nullptr, &made), "options is NULL");
  expect_refusal(weft_reduction_create_premul_sum(comm(0), &good, nullptr), "out is NULL");
  weft_premul_sum_options bad = good;
  bad.struct_size = 8;
  refused(bad,
          "weft_premul_sum_options.struct_size is 8, less than the 24 of the first version; try: "
          "set it to sizeof(weft_premul_sum_options)");
  bad = good;
  bad.scalar = nullptr;
  refused(bad, "scalar is NULL");
  bad = good;
  bad.type = 99;
  refused(bad, "99 is no element type; try: one of the WEFT_INT8 to WEFT_FLOAT8_E5M2 constants");
  bad = good;
  bad.residence = 2;
  refused(bad,
          "weft_premul_sum_options.residence 2 is none; try: one of WEFT_SCALAR_NOW, "
          "WEFT_SCALAR_AT_CALL");
  EXPECT_EQ(made, WEFT_SUM);
}

// That it is one is compared, not what it multiplies by.
TEST_F(Premul, AnotherReductionOnAnotherRankIsAMismatch) {
  must(context(), all_reduce(0, make(0, 2)));
  must(context(), all_reduce(1, WEFT_SUM));
  EXPECT_EQ(weft_stream_synchronize(streams_[0].get()), WEFT_ERROR_MISMATCH);
  EXPECT_THAT(last_error(context()), AllOf(HasSubstr("all_reduce of 3 float32 by premul_sum"),
                                           HasSubstr("all_reduce of 3 float32 by sum")));
  static_cast<void>(weft_stream_synchronize(streams_[1].get()));
}

}  // namespace
}  // namespace weft::test
