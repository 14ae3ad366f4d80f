// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of one thread that call with options, for their tests. By which way a call goes its plan
// tells in the log.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/process.h"

namespace weft::test {

inline weft_call_options options_of(std::int32_t algorithm, std::int32_t protocol = 0,
                                    std::uint32_t max_channels = 0) {
  return {.struct_size = sizeof(weft_call_options),
          .algorithm = algorithm,
          .protocol = protocol,
          .max_channels = max_channels};
}

/// A context that writes the plans it makes.
inline ContextHandle make_telling_context() {
  const ScratchFolder folder;
  return make_context(
      folder.write("weft.yaml", "version: 1\nlog: {topics: {schedule: debug}}\n").c_str());
}

/// A communicator of ranks that all belong to one thread.
class CallOptions : public testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 4;
  static constexpr std::size_t kCount = 1000;

  void join(std::vector<std::string> settings) {
    settings.insert(settings.end(), {"timeouts.operation", "60s"});
    comms_ = init_all(context_.get(), CommSettings(settings), kRanks);
    streams_ = make_streams(context_.get(), kRanks);
  }
  void set(std::uint32_t rank, const weft_call_options& options) {
    must(context_.get(), weft_comm_set_call_options(comms_[rank].get(), &options));
  }
  void set_all(const weft_call_options& options) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      set(rank, options);
  }
  void clear_all() {
    for (const CommHandle& comm : comms_)
      must(context_.get(), weft_comm_set_call_options(comm.get(), nullptr));
  }
  /// A call of all ranks, in a group; of each what is wrong with its result.
  struct Round {
    std::vector<std::unique_ptr<Trial>> trials{};
    [[nodiscard]] std::string wrong() const {
      std::string text;
      for (const auto& trial : trials)
        text += trial->wrong();
      return text;
    }
  };
  void note(const Shape& shape, Round& round) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      round.trials.push_back(std::make_unique<Trial>(shape, rank, kRanks, 0));
      must(context_.get(), round.trials.back()->start(comms_[rank].get(), streams_[rank].get()));
    }
  }
  void synchronize() {
    for (const StreamHandle& stream : streams_)
      must(context_.get(), weft_stream_synchronize(stream.get()));
  }
  std::string run(const Shape& shape) {
    Round round;
    must(context_.get(), weft_group_start(context_.get()));
    note(shape, round);
    must(context_.get(), weft_group_end(context_.get()));
    synchronize();
    return round.wrong();
  }
  /// A call of rank 0 alone, which is refused.
  weft_result refused(const Shape& shape) {
    Trial trial(shape, 0, kRanks, 0);
    return trial.start(comms_[0].get(), streams_[0].get());
  }
  /// What ranks hear whose calls differ.
  std::string mismatch(const Shape& shape = kSum) {
    Round round;
    // Together: who starts late is told at once that others have failed.
    must(context_.get(), weft_group_start(context_.get()));
    note(shape, round);
    const bool all_started = weft_group_end(context_.get()) == WEFT_OK;
    std::string texts = all_started ? "" : last_error(context_.get()) + "\n";
    std::vector<weft_result> results;
    for (const StreamHandle& stream : streams_) {
      results.push_back(weft_stream_synchronize(stream.get()));
      texts += last_error(context_.get()) + "\n";
    }
    if (all_started) {
      EXPECT_EQ(std::ranges::count(results, WEFT_ERROR_MISMATCH), kRanks) << texts;
    }
    return texts;
  }

  static constexpr Shape kSum{.kind = Kind::kAllReduce, .count = kCount};
  ContextHandle context_ = make_telling_context();
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
};

}  // namespace weft::test
