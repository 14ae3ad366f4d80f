// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// When the factors of pre-multiplied sums are read, and how long reductions live. What comes out of
// them is for the tests of types.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kCount = 1021;

/// One rank's buffers of float32, each filled with one number.
struct Filled {
  Filled(const Member& member, std::size_t factor_offset)
      : send(member.device, kCount * 4, 0),
        recv(member.device, kCount * 4, 0),
        factor(member.device, 4, factor_offset),
        next(member.device, 4, 0) {}
  static void fill(Zone& zone, float number, const Member& member) {
    Bytes content(zone.size());
    for (std::size_t at = 0; at < content.size(); at += 4)
      std::memcpy(content.data() + at, &number, 4);
    zone.write(content, 1, member.cuda);
  }
  Zone send, recv, factor, next;
};

class Premultiplied : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout);
    ranks_.resize(team_->layout().ranks);
    made_.resize(team_->layout().ranks);
  }

  /// Rank r sends r + 1, by a factor that is 2 at first and can be made 5 by broadcast of `next`.
  void make(weft_scalar_residence residence, std::size_t factor_offset = 0) {
    team_->each([&](Member& member) {
      ranks_[member.rank] = std::make_unique<Filled>(member, factor_offset);
      Filled& own = *ranks_[member.rank];
      Filled::fill(own.send, static_cast<float>(member.rank + 1), member);
      Filled::fill(own.recv, 0, member);
      Filled::fill(own.factor, 2, member);
      Filled::fill(own.next, 5, member);
      const float two = 2;
      const bool now = residence == WEFT_SCALAR_NOW;
      const weft_premul_sum_options options{
          .struct_size = sizeof(options),
          .type = WEFT_FLOAT32,
          .residence = residence,
          .reserved = 0,
          .scalar = now ? static_cast<const void*>(&two) : own.factor.data()};
      check(weft_reduction_create_premul_sum(member.comm, &options, &made_[member.rank]),
            "weft_reduction_create_premul_sum");
    });
  }
  void call(Member& member) {
    Filled& own = *ranks_[member.rank];
    check(weft_all_reduce(own.send.data(), own.recv.data(), kCount, WEFT_FLOAT32,
                          made_[member.rank], member.comm, member.stream),
          "weft_all_reduce");
  }
  void change_factor(Member& member) {
    Filled& own = *ranks_[member.rank];
    check(weft_broadcast(own.next.data(), own.factor.data(), 1, WEFT_FLOAT32, 0, member.comm,
                         member.stream),
          "weft_broadcast");
  }
  void end(Member& member) {
    check(weft_reduction_destroy(member.comm, made_[member.rank]), "weft_reduction_destroy");
  }
  void expect(float factor) {
    team_->synchronize();
    const auto ranks = static_cast<float>(team_->layout().ranks);
    team_->each([&](Member& member) {
      const auto got = ranks_[member.rank]->recv.read(member.cuda);
      for (std::size_t i = 0; i < kCount; ++i) {
        float number = 0;
        std::memcpy(&number, got.data() + i * 4, 4);
        ASSERT_EQ(number, factor * ranks * (ranks + 1) / 2) << "element " << i;
      }
    });
  }

  std::unique_ptr<Team> team_;
  std::vector<std::unique_ptr<Filled>> ranks_;
  std::vector<weft_reduction> made_;
};

TEST_P(Premultiplied, FactorsThatTheStreamItselfWrites) {
  make(WEFT_SCALAR_AT_CALL);
  team_->issue([&](Member& member) { call(member); });
  expect(2);
  // Nobody waits in between.
  team_->issue([&](Member& member) { call(member); });
  team_->issue([&](Member& member) { change_factor(member); });
  team_->issue([&](Member& member) { call(member); });
  expect(5);
}

TEST_P(Premultiplied, FactorsThatAGraphWrites) {
  make(WEFT_SCALAR_AT_CALL);
  team_->issue([&](Member& member) { change_factor(member); });
  team_->synchronize();
  team_->each([&](Member& member) { Filled::fill(ranks_[member.rank]->factor, 2, member); });
  Graphs calls(*team_, [&](Member& member) { call(member); });
  Graphs changes(*team_, [&](Member& member) { change_factor(member); });
  team_->each([&](Member& member) { calls.launch(member); });
  expect(2);
  team_->each([&](Member& member) { changes.launch(member); });
  team_->each([&](Member& member) { calls.launch(member); });
  expect(5);
}

TEST_P(Premultiplied, EndsBeforeItsCallsRan) {
  for (const weft_scalar_residence residence : {WEFT_SCALAR_NOW, WEFT_SCALAR_AT_CALL}) {
    make(residence);
    team_->issue([&](Member& member) {
      call(member);
      end(member);
    });
    expect(2);
  }
}

// "Needs no alignment", wherever it is.
TEST_P(Premultiplied, UnalignedFactors) {
  make(WEFT_SCALAR_AT_CALL, 3);
  team_->issue([&](Member& member) { call(member); });
  expect(2);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Premultiplied, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

}  // namespace
}  // namespace weft::gpu_test
