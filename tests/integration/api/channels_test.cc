// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls over many channels, up to the most there are. How many carried a call its plan tells in the
// log. Sends and receives of CPUs have one channel for each pair of ranks, whatever is configured:
// the rank's own worker moves them all.
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/call_options.h"
#include "tests/integration/api/exchange.h"
#include "tests/integration/api/handles.h"
#include "tests/integration/api/standard_error.h"
#include "tests/integration/api/trial.h"

namespace weft::test {
namespace {

/// By transport, ranks and channels.
class ManyChannels
    : public testing::TestWithParam<std::tuple<std::string, std::uint32_t, std::uint32_t>> {
 protected:
  /// A call of all ranks as rings of Simple on at most so many channels; how many say that they
  /// use just as many.
  void run(Kind kind, std::uint32_t channels) {
    const weft_call_options options =
        options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_SIMPLE, channels);
    // As many as each channel must carry to be used, and elements that no number of them divides.
    const Shape shape{.kind = kind,
                      .count = std::size_t{channels} * ranks_ * (kLeastOfAChannel / 4) + 17,
                      .type = WEFT_INT32,
                      .root = has_root(kind) ? ranks_ - 1 : 0,
                      .values = Values::kAny};
    std::vector<std::unique_ptr<Trial>> trials;
    const StandardError written;
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      must(context_.get(), weft_comm_set_call_options(comms_.comm(rank), &options));
      trials.push_back(std::make_unique<Trial>(shape, rank, ranks_, channels));
      must(context_.get(), trials.back()->start(comms_.comm(rank), comms_.stream(rank)));
    }
    must(context_.get(), weft_group_end(context_.get()));
    comms_.synchronize();
    EXPECT_EQ(written.count("all " + std::to_string(channels) + " channels: "), ranks_);
    for (const auto& trial : trials)
      EXPECT_EQ(trial->wrong(), "");
  }

  static constexpr std::size_t kLeastOfAChannel = std::size_t{64} << 10;  // bytes for each rank
  const std::uint32_t ranks_ = std::get<1>(GetParam());
  const std::uint32_t channels_ = std::get<2>(GetParam());
  const ContextHandle context_ = make_telling_context();
  const CommSettings settings_{[this] {
    std::vector<std::string> pairs = only_transport(std::get<0>(GetParam()));
    pairs.insert(pairs.end(), {"channels.max", std::to_string(channels_), "buffers.step", "4KiB"});
    return pairs;
  }()};
  const LocalComms comms_{context_.get(), settings_.get(), ranks_};
};

TEST_P(ManyChannels, CarryCallsTogether) {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    weft_comm_properties found{};
    found.struct_size = sizeof(found);
    must(context_.get(), weft_comm_get_properties(comms_.comm(rank), &found));
    EXPECT_EQ(found.channels, channels_);
  }
  run(Kind::kAllReduce, channels_);
  run(Kind::kBroadcast, channels_);
  run(Kind::kAllReduce, channels_ / 2 + 1);

  std::vector<std::unique_ptr<Exchange>> exchanges;
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    exchanges.push_back(
        std::make_unique<Exchange>(Exchange::all_to_all(rank, ranks_, kLeastOfAChannel * 3 + 5)));
    must(context_.get(), exchanges.back()->start(nullptr, comms_.comm(rank), comms_.stream(rank)));
  }
  must(context_.get(), weft_group_end(context_.get()));
  comms_.synchronize();
  for (const auto& exchange : exchanges)
    EXPECT_EQ(exchange->wrong(), "");
}

INSTANTIATE_TEST_SUITE_P(Wires, ManyChannels,
                         testing::Values(std::tuple("p2p", 3U, 16U), std::tuple("shm", 3U, 33U),
                                         std::tuple("p2p", 2U, 64U),
                                         std::tuple("net-socket", 2U, 64U)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" +
                                              std::to_string(std::get<1>(info.param)) + "_ranks_" +
                                              std::to_string(std::get<2>(info.param)) + "_channels";
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft::test
