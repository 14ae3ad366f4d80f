// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// That what is expected after a call is what the operation does: each is done here in the plainest
// way, on memory of this process.
#include "bench/gpu/operations.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weft::gpu_bench {

namespace {

constexpr size_t kGuard = 8;
constexpr Inputs kInputs{7, 1000};
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// All ranks' buffers of one set.
class Job {
 public:
  Job(const Operation& operation, uint32_t ranks, size_t bytes, bool in_place, uint64_t set)
      : operation_(operation),
        shape_(shape_of(operation, ranks, bytes, sizeof(float))),
        ranks_(ranks),
        in_place_(in_place),
        set_(set) {
    const size_t elements = bytes / sizeof(float) + kGuard;
    send_.assign(ranks, std::vector<float>(elements, kPoison));
    recv_ = send_;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (const Region& region : regions_before(place(rank))) {
        for (size_t i = 0; i < region.count; ++i)
          buffer(region.in_recv, rank)[region.first + i] = value_of(kInputs, region.origin, set, i);
      }
    }
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// The operation itself, from what lies in the buffers.
  void run() {
    std::vector<std::vector<float>> sent;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const float* const from = buffer(in_place_, rank).data() + place(rank).send_first();
      sent.emplace_back(from, from + shape_.send_count);
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      run_rank(rank, sent);
  }

  void expect_regions() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      std::vector<bool> looked_at(recv_[rank].size());
      for (const Region& region : regions_after(place(rank))) {
        for (size_t i = 0; i < region.count; ++i) {
          const float got = buffer(region.in_recv, rank).at(region.first + i);
          if (region.in_recv) looked_at[region.first + i] = true;
          if (region.content == Content::kPoison) {
            ASSERT_TRUE(std::isnan(got)) << words(rank) << i;
          } else {
            ASSERT_EQ(got, value_of(kInputs, region.origin, set_, i)) << words(rank) << i;
          }
        }
      }
      bool behind = false;
      for (size_t i = 0; i < looked_at.size(); ++i) {
        ASSERT_FALSE(behind && looked_at[i]) << words(rank) << i << " is behind a gap";
        behind = !looked_at[i];
        if (behind) {
          ASSERT_TRUE(std::isnan(recv_[rank][i])) << words(rank) << i;
        }
      }
    }
  }

 private:
  [[nodiscard]] Place place(uint32_t rank) const {
    return {operation_, shape_, rank, ranks_, in_place_};
  }
  std::vector<float>& buffer(bool recv, uint32_t rank) { return recv ? recv_[rank] : send_[rank]; }
  [[nodiscard]] std::string words(uint32_t rank) const {
    return std::string(operation_.name) + " of " + std::to_string(ranks_) + " ranks, " +
           std::to_string(shape_.bytes) + " bytes, " + (in_place_ ? "in" : "out of") +
           " place, rank " + std::to_string(rank) + ", element ";
  }

  void run_rank(uint32_t rank, const std::vector<std::vector<float>>& sent) {
    float* const recv = recv_[rank].data() + place(rank).recv_first();
    const size_t block = shape_.count;
    const uint32_t previous = rank == 0 ? ranks_ - 1 : rank - 1;
    for (size_t i = 0; i < shape_.recv_count; ++i) {
      const size_t of_block = i % block;
      switch (operation_.kind) {
        case OperationKind::kAllReduce:
          recv[i] = sum(sent, i);
          break;
        case OperationKind::kReduce:
          if (rank == kRoot) recv[i] = sum(sent, i);
          break;
        case OperationKind::kReduceScatter:
          recv[i] = sum(sent, rank * block + i);
          break;
        case OperationKind::kAllGather:
          recv[i] = sent[i / block][of_block];
          break;
        case OperationKind::kBroadcast:
          recv[i] = sent[kRoot][i];
          break;
        case OperationKind::kAllToAll:
          recv[i] = sent[i / block][rank * block + of_block];
          break;
        case OperationKind::kSendRecv:
          recv[i] = sent[previous][i];
          break;
      }
    }
  }

  static float sum(const std::vector<std::vector<float>>& sent, size_t index) {
    float result = 0;
    for (const std::vector<float>& each : sent)
      result += each[index];
    return result;
  }

  const Operation& operation_;
  const Shape shape_;
  const uint32_t ranks_;
  const bool in_place_;
  const uint64_t set_;
  std::vector<std::vector<float>> send_, recv_;
};

const Operation& named(const char* name) {
  return *find_operation(name);
}

}  // namespace

TEST(BenchOperations, ExpectWhatTheyDo) {
  for (const Operation& operation : kOperations) {
    for (const uint32_t ranks : {2U, 3U, 4U, 7U}) {
      for (const size_t bytes : {8U, 128U, 1000U, 4096U}) {
        for (const bool in_place : {false, true}) {
          if (in_place && !operation.in_place) continue;
          Job job(operation, ranks, bytes, in_place, 3);
          if (job.shape().count == 0) continue;
          job.run();
          ASSERT_NO_FATAL_FAILURE(job.expect_regions());
        }
      }
    }
  }
}

TEST(BenchOperations, SizesAreThoseOfAllBlocks) {
  const Shape gathered = shape_of(named("all_gather"), 4, 1024, 4);
  EXPECT_EQ(gathered.count, 64U);
  EXPECT_EQ(gathered.send_count, 64U);
  EXPECT_EQ(gathered.recv_count, 256U);
  EXPECT_EQ(gathered.bytes, 1024U);
  EXPECT_EQ(shape_of(named("reduce_scatter"), 4, 1024, 4).send_count, 256U);
  EXPECT_EQ(shape_of(named("reduce_scatter"), 4, 1024, 4).recv_count, 64U);
  EXPECT_EQ(shape_of(named("all_to_all"), 4, 1024, 4).recv_count, 256U);
  EXPECT_EQ(shape_of(named("sendrecv"), 4, 1024, 4).count, 256U);
}

TEST(BenchOperations, BlocksAreRoundedDown) {
  EXPECT_EQ(shape_of(named("all_gather"), 3, 1024, 4).bytes, 3U * 336);
  EXPECT_EQ(shape_of(named("all_gather"), 3, 40, 4).bytes, 36U);
  EXPECT_EQ(shape_of(named("all_gather"), 3, 8, 4).count, 0U);
  EXPECT_EQ(shape_of(named("all_reduce"), 3, 8, 4).count, 2U);
}

TEST(BenchOperations, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(named("all_reduce"), 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(named("all_gather"), 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(named("reduce_scatter"), 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(named("all_to_all"), 4), 0.75);
  for (const char* name : {"broadcast", "reduce", "sendrecv"})
    EXPECT_DOUBLE_EQ(bus_factor(named(name), 4), 1);
}

TEST(BenchOperations, InputsDiffer) {
  // Between ranks and cases: else what is left of one case could pass for the next one's.
  const auto same = [](uint32_t seed_a, uint32_t rank_a, uint32_t seed_b, uint32_t rank_b) {
    int equal = 0;
    for (uint64_t i = 0; i < 1000; ++i)
      equal += input_value({seed_a, 1000}, rank_a, i) == input_value({seed_b, 1000}, rank_b, i);
    return equal;
  };
  EXPECT_LT(same(1, 0, 1, 1), 20);
  EXPECT_LT(same(1, 1, 2, 0), 20);
  EXPECT_LT(same(1, 15, 2, 0), 20);
  EXPECT_EQ(same(1, 1, 1, 1), 1000);
}

TEST(BenchOperations, SumsAreExact) {
  // As far as each type counts whole numbers one by one.
  for (const ElementType& type : kTypes) {
    const int digits = type.kind == ElementKind::kFloat32   ? 24
                       : type.kind == ElementKind::kFloat16 ? 11
                                                            : 8;
    EXPECT_LE(static_cast<double>(type.range) * kMaxRanks, std::ldexp(1.0, digits)) << type.name;
  }
}

}  // namespace weft::gpu_bench
