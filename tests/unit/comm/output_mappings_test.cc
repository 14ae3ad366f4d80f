// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Outputs that ranks of other processes write to, on a device that is host memory: what is offered
// when, what becomes of memory that is freed, made anew or refused, and of letters that lie. Ranks
// are objects here, whose letters the test carries; as processes they are in
// tests/integration/outputs.
#include "core/comm/output_mappings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host/host_memory.h"
#include "core/device/shared_place.h"
#include "tests/device/lane_model.h"
#include "tests/support/forked_child.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/piece_device.h"

namespace weft {
namespace {

using test::PieceDevice;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kPiece = kExportGrain;
constexpr std::uint64_t kMost = 8 * kPiece;
constexpr std::size_t kBytes = 4096;  // of an output
/// More than the looks after which a mapping may make room.
constexpr int kLong = 70;
/// And where numbers are short.
constexpr int kLongOfNumbers = 1100;
/// After so long ranks that have not answered are asked again, the first time.
constexpr std::chrono::seconds kPatient(2);

/// Memory that whatever is asked takes some of: it is out after so many times.
struct Scarce {
  void take() {
    if (left == 0) throw std::bad_alloc();
    --left;
  }
  std::uint32_t left = UINT32_MAX;
};

class ScarceDevice : public PieceDevice {
 public:
  weft_result find_piece(const void* address, MemoryPiece* out) override {
    memory.take();
    return PieceDevice::find_piece(address, out);
  }
  weft_result export_piece(const MemoryPiece& piece, int* descriptor) override {
    memory.take();
    return PieceDevice::export_piece(piece, descriptor);
  }
  Scarce memory;
};

class OutputMappingsTest : public testing::Test {
 protected:
  struct Rank {
    ScarceDevice device;
    OutputMap map{};
    std::uint64_t ended = 0;
    std::uint64_t number = 0;
    bool has_failed = false;
    bool is_woken = false;
    std::unique_ptr<OutputMappings> mappings;
  };
  struct Carried {
    std::uint32_t from;
    std::uint32_t to;
    std::vector<std::byte> text;
  };

  void SetUp() override { start(3); }
  void start(std::uint32_t ranks) {
    for (std::uint32_t i = 0; i < ranks; ++i) {
      auto rank = std::make_unique<Rank>();
      Rank* const own = rank.get();
      auto witness = ProcessWitness::create();
      ASSERT_TRUE(witness);
      own->mappings = std::make_unique<OutputMappings>(
          OutputSurroundings{
              .runtime = own->device,
              .log = log_,
              .rank = i,
              .pids = std::vector<std::uint64_t>(ranks, static_cast<std::uint64_t>(getpid())),
              .most_bytes = most_bytes_,
              .map = &own->map,
              .ended = &own->ended,
              .post =
                  [this, i, own](std::uint32_t to, std::vector<std::byte> text) {
                    own->device.memory.take();
                    letters_.push_back({.from = i, .to = to, .text = std::move(text)});
                    ++posted_;
                  },
              .brings =
                  [this, i](std::uint32_t to) {
                    return std::ranges::any_of(letters_, [=](const Carried& letter) {
                      return letter.from == i && letter.to == to;
                    });
                  },
              .wake = [own] { own->is_woken = true; },
              .has_failed =
                  [own] {
                    own->device.memory.take();
                    return own->has_failed;
                  },
              .now = [this] { return now_; }},
          std::move(*witness));
      ranks_.push_back(std::move(rank));
    }
  }
  [[nodiscard]] Rank& rank(std::size_t i) { return *ranks_[i]; }

  /// An output of its own for each rank, of so many pieces.
  std::vector<std::byte*> place_all(std::size_t pieces = 1) {
    std::vector<std::byte*> outputs;
    for (const auto& rank : ranks_) {
      std::byte* const at = rank->device.reserve_addresses(pieces * kPiece);
      for (std::size_t i = 0; i < pieces; ++i)
        rank->device.map(at + i * kPiece, kPiece);
      outputs.push_back(at);
    }
    return outputs;
  }

  void work() {
    for (const auto& rank : ranks_)
      rank->mappings->work();
  }
  bool deliver_one() {
    if (letters_.empty()) return false;
    const Carried letter = std::move(letters_.front());
    letters_.pop_front();
    rank(letter.to).mappings->take(letter.from, letter.text);
    return true;
  }
  /// The background, until nothing is left to do.
  void settle() {
    do {
      work();
      while (deliver_one()) {
      }
      work();
    } while (!letters_.empty());
  }

  /// What ranks do in a call of these outputs of `bytes`: whether it went by them. Then each was
  /// filled by the rank before, which this sees to.
  bool call(const std::vector<std::byte*>& outputs, std::size_t bytes = kBytes, bool ends = true) {
    std::vector<std::uint64_t> offers;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      offers.push_back(rank(i).mappings->offer(outputs[i], bytes));
      if (offers.back() != 0) rank(i).number = rank(i).mappings->number_call();
    }
    const bool all = std::ranges::count(offers, 0U) == 0;
    ++seed_;
    for (std::size_t i = 0; all && i < ranks_.size(); ++i) {
      const std::size_t next = (i + 1) % ranks_.size();
      std::byte* const there = seen(i, next, offers[next], bytes);
      EXPECT_NE(there, nullptr) << "rank " << i;
      if (there == nullptr) continue;
      EXPECT_NE(there, outputs[next]);
      std::memset(there, static_cast<int>(seed_ + i), bytes);
    }
    for (std::size_t i = 0; all && i < ranks_.size(); ++i) {
      const std::size_t before = (i + ranks_.size() - 1) % ranks_.size();
      const auto due = static_cast<std::byte>(seed_ + before);
      EXPECT_EQ(std::count(outputs[i], outputs[i] + bytes, due), static_cast<std::ptrdiff_t>(bytes))
          << "rank " << i;
    }
    for (std::size_t i = 0; ends && i < ranks_.size(); ++i)
      rank(i).ended = rank(i).number;
    return all;
  }
  std::byte* seen(std::size_t by, std::size_t of, std::uint64_t offer, std::size_t bytes) {
    std::atomic<std::uint32_t> abort{0};
    device::testing::LaneMemory memory(abort);
    return device::shared_place(memory, rank(by).map, static_cast<std::uint32_t>(of), offer, bytes);
  }
  int imports() {
    int all = 0;
    for (const auto& rank : ranks_)
      all += rank->device.imports;
    return all;
  }

  Logger log_;
  std::uint64_t most_bytes_ = kMost;
  std::chrono::steady_clock::time_point now_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::deque<Carried> letters_;
  int posted_ = 0;
  std::uint64_t seed_ = 0;
};

TEST_F(OutputMappingsTest, AreOfferedOnceAllHaveMappedThem) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  EXPECT_TRUE(rank(0).is_woken);
  work();
  while (letters_.size() > 1) {
    EXPECT_FALSE(call(outputs));
    deliver_one();
  }
  EXPECT_FALSE(call(outputs));
  deliver_one();
  EXPECT_TRUE(call(outputs));
  EXPECT_EQ(posted_, 12) << "a letter to each other rank, and its answer";
  EXPECT_EQ(imports(), 6);
  EXPECT_EQ(rank(0).mappings->bytes_shared(), kPiece);
  EXPECT_EQ(rank(0).mappings->bytes_mapped(), 2 * kPiece);
  settle();
  EXPECT_EQ(posted_, 12) << "nothing is left to say";
}

// A stretch of pieces is one mapping, of which any part may be an output.
TEST_F(OutputMappingsTest, MayBeginAndEndAnywhereInPieces) {
  const auto begins = place_all(3);
  const auto at = [&](std::size_t offset) {
    std::vector<std::byte*> outputs = begins;
    for (std::byte*& output : outputs)
      output += offset;
    return outputs;
  };
  EXPECT_FALSE(call(at(kPiece / 2), 2 * kPiece));
  settle();
  EXPECT_TRUE(call(at(kPiece / 2), 2 * kPiece));
  EXPECT_TRUE(call(at(16), 3 * kPiece - 16));
  EXPECT_TRUE(call(at(2 * kPiece + 4096), kBytes));
  EXPECT_FALSE(call(at(8), kBytes)) << "no multiple of 16 bytes";
  EXPECT_EQ(imports(), 6);
}

TEST_F(OutputMappingsTest, ThatWereFreedAreNotOffered) {
  const auto outputs = place_all(2);
  EXPECT_FALSE(call(outputs, 2 * kPiece));
  settle();
  EXPECT_TRUE(call(outputs, 2 * kPiece));
  const std::uint64_t before = rank(1).mappings->offer(outputs[1], 2 * kPiece);
  EXPECT_NE(seen(0, 1, before, 2 * kPiece), nullptr);
  rank(1).ended = rank(1).mappings->number_call();
  rank(1).device.unmap(outputs[1] + kPiece);
  EXPECT_EQ(rank(1).mappings->offer(outputs[1], 2 * kPiece), 0U);
  settle();
  EXPECT_EQ(imports(), 4) << "others keep its pages no longer";
  EXPECT_EQ(seen(0, 1, before, 2 * kPiece), nullptr);
  EXPECT_EQ(seen(0, 1, offer_of({.mapping = place_of(before).mapping}), 2 * kPiece), nullptr);
  EXPECT_EQ(rank(1).mappings->bytes_shared(), 0U);
  EXPECT_EQ(rank(0).mappings->bytes_mapped(), 2 * kPiece) << "of rank 2";
}

// Though their program makes no call any more.
TEST_F(OutputMappingsTest, ThatWereFreedGoBackBeforeTheNextCall) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_EQ(imports(), 6);
  for (std::size_t i = 0; i < 3; ++i)
    rank(i).device.unmap(outputs[i]);
  settle();
  EXPECT_EQ(imports(), 0);
}

// At the same addresses, again and again: the memory of before gets nothing.
TEST_F(OutputMappingsTest, ThatAreMadeAnewAreOthers) {
  const auto outputs = place_all();
  std::set<std::uint64_t> offers;
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_FALSE(call(outputs));
    EXPECT_FALSE(call(outputs));
    settle();
    settle();
    EXPECT_TRUE(call(outputs)) << "turn " << turn;
    EXPECT_TRUE(offers.insert(rank(0).mappings->offer(outputs[0], kBytes)).second);
    rank(0).ended = rank(0).mappings->number_call();
    for (std::size_t i = 0; i < 3; ++i) {
      rank(i).device.unmap(outputs[i]);
      rank(i).device.map(outputs[i], kPiece);
    }
  }
  settle();
  EXPECT_EQ(imports(), 0);
}

TEST_F(OutputMappingsTest, ThatCannotBeExportedStayUnshared) {
  auto outputs = place_all();
  rank(1).device.unmap(outputs[1]);
  rank(1).device.map(outputs[1], kPiece, false);
  for (int turn = 0; turn < 2 * kLong; ++turn) {
    EXPECT_FALSE(call(outputs));
    settle();
  }
  EXPECT_EQ(rank(1).mappings->last_refusal(), "not to be exported");
  EXPECT_EQ(posted_, 8) << "of ranks 0 and 2";
  // Another piece may be.
  rank(1).device.unmap(outputs[1]);
  rank(1).device.map(outputs[1], kPiece);
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs));
  EXPECT_EQ(rank(1).mappings->last_refusal(), "");
}

// Of a stretch with one such piece the rest may be.
TEST_F(OutputMappingsTest, BesideWhatCannotBeExportedAreShared) {
  const auto outputs = place_all(3);
  rank(1).device.unmap(outputs[1] + kPiece);
  rank(1).device.map(outputs[1] + kPiece, kPiece, false);
  EXPECT_FALSE(call(outputs, 3 * kPiece));
  settle();
  rank(1).is_woken = false;
  const auto offer = [&](std::size_t begin, std::size_t end) {
    return rank(1).mappings->offer(outputs[1] + begin, end - begin);
  };
  for (const auto& [begin, end] :
       {std::pair(kPiece / 2, 2 * kPiece), std::pair(kPiece, kPiece + 64),
        std::pair(2 * kPiece - 64, 3 * kPiece)}) {
    EXPECT_EQ(offer(begin, end), 0U);
    settle();
  }
  EXPECT_FALSE(rank(1).is_woken) << "nobody asks the driver for that again";
  EXPECT_EQ(offer(2 * kPiece, 3 * kPiece), 0U);
  EXPECT_EQ(offer(0, kPiece), 0U);
  settle();
  EXPECT_NE(offer(2 * kPiece, 3 * kPiece), 0U);
  EXPECT_NE(offer(0, kPiece), 0U);
}

TEST_F(OutputMappingsTest, OfNoMemoryOfTheDeviceAreTriedAgainSeldom) {
  auto outputs = place_all();
  rank(2).device.unmap(outputs[2]);
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_EQ(rank(2).mappings->last_refusal(), "nothing is mapped there");
  rank(2).device.map(outputs[2], kPiece);
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_FALSE(call(outputs));
  for (int turn = 0; turn < kLong; ++turn)
    call(outputs);
  settle();
  EXPECT_TRUE(call(outputs));
}

TEST_F(OutputMappingsTest, OfNoDescriptorsAreTriedAgainSeldom) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  {
    const test::NoDescriptors none;
    settle();
  }
  EXPECT_EQ(rank(1).mappings->last_refusal(), "no descriptors");
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_EQ(rank(1).mappings->last_refusal(), "no descriptors");
  for (int turn = 0; turn < kLong; ++turn)
    EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs));
}

// The same lack at one of those that are to map it.
// A child that lives on would else keep the memory, though its owner frees it.
TEST_F(OutputMappingsTest, AreNotKeptByForkedChildren) {
  const auto outputs = place_all(2);
  EXPECT_FALSE(call(outputs, 2 * kPiece));
  work();
  for (const Carried& letter : letters_) {
    const OutputLetter shared = *decode_output_letter(letter.text);
    for (const SharedPiece& piece : shared.pieces) {
      EXPECT_EQ(::fcntl(static_cast<int>(piece.descriptor), F_GETFD), FD_CLOEXEC);
      EXPECT_FALSE(test::is_open_in_children(static_cast<int>(piece.descriptor)));
    }
  }
  settle();
  EXPECT_TRUE(call(outputs, 2 * kPiece)) << "the parent has them still";
}

TEST_F(OutputMappingsTest, ThatOneRankCannotMapForAMomentAreTriedAgainSeldom) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  work();
  while (!letters_.empty()) {
    const bool lacks =
        letters_.front().to == 1 &&
        decode_output_letter(letters_.front().text)->kind == OutputLetter::Kind::kShared;
    const auto none = lacks ? std::make_unique<test::NoDescriptors>() : nullptr;
    deliver_one();
  }
  settle();
  for (const std::size_t owner : {0, 2}) {
    EXPECT_THAT(rank(owner).mappings->last_refusal(),
                AllOf(HasSubstr("rank 1: cannot take a descriptor"), HasSubstr("ulimit -n")));
  }
  EXPECT_FALSE(call(outputs));
  const int before = posted_;
  settle();
  EXPECT_EQ(posted_, before);
  for (int turn = 0; turn < kLong; ++turn)
    EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs));
}

// Where only one of two lacks something that may come.
TEST_F(OutputMappingsTest, ThatOneRankCanNeverMapAreNotTriedAgain) {
  rank(2).device.fails_to_import = true;
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  work();
  while (!letters_.empty()) {
    const bool lacks = letters_.front().to == 1 && letters_.front().from == 0;
    const auto none = lacks ? std::make_unique<test::NoDescriptors>() : nullptr;
    deliver_one();
  }
  settle();
  EXPECT_THAT(rank(0).mappings->last_refusal(), HasSubstr("rank 1: cannot take a descriptor"));
  const int before = posted_;
  for (int turn = 0; turn < kLong; ++turn)
    EXPECT_EQ(rank(0).mappings->offer(outputs[0], kBytes), 0U);
  settle();
  EXPECT_EQ(posted_, before);
}

TEST_F(OutputMappingsTest, ThatOneRankCannotMapAreUsedByNone) {
  rank(2).device.fails_to_import = true;
  const auto outputs = place_all();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_FALSE(call(outputs));
    settle();
  }
  EXPECT_THAT(rank(0).mappings->last_refusal(), HasSubstr("rank 2: it cannot map anything"));
  EXPECT_EQ(imports(), 2) << "of rank 2's by ranks 0 and 1";
  EXPECT_EQ(rank(0).mappings->bytes_shared(), 0U);
  const int before = posted_;
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_EQ(posted_, before);
}

// While its own call may still be written to, a rank does not even ask.
TEST_F(OutputMappingsTest, AreRevokedOnceTheirCallsHaveEnded) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs, kBytes, false));
  const int before = posted_;
  rank(0).device.unmap(outputs[0]);
  for (std::size_t i : {1, 2})
    rank(i).ended = rank(i).number;
  settle();
  EXPECT_EQ(posted_, before);
  EXPECT_EQ(imports(), 6);
  rank(0).ended = rank(0).number;
  settle();
  EXPECT_EQ(imports(), 4);
}

// Even if the owner has revoked it too early: an unmapped page would be this rank's fault.
TEST_F(OutputMappingsTest, StayMappedWhileOwnKernelsMayWriteThere) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs, kBytes, false));
  rank(0).device.unmap(outputs[0]);
  rank(0).ended = rank(0).number;
  rank(1).ended = rank(1).number;
  settle();
  EXPECT_EQ(rank(1).device.imports, 1);
  EXPECT_EQ(rank(2).device.imports, 2) << "its kernel has not ended";
  EXPECT_EQ(rank(0).mappings->bytes_shared(), kPiece) << "so it still counts";
  rank(2).ended = rank(2).number;
  settle();
  EXPECT_EQ(rank(2).device.imports, 1);
  EXPECT_EQ(rank(0).mappings->bytes_shared(), 0U);
}

TEST_F(OutputMappingsTest, AreBoundedAndMakeRoom) {
  std::vector<std::vector<std::byte*>> all;
  for (std::uint64_t i = 0; i < kMost / kPiece; ++i) {
    all.push_back(place_all());
    EXPECT_FALSE(call(all.back()));
    settle();
    EXPECT_TRUE(call(all.back()));
  }
  EXPECT_EQ(rank(0).mappings->bytes_shared(), kMost);
  const auto more = place_all();
  EXPECT_FALSE(call(more));
  settle();
  EXPECT_FALSE(call(more)) << "the others are in use";
  EXPECT_THAT(rank(0).mappings->last_refusal(), HasSubstr("buffers.outputs_mapped is"));
  for (int turn = 0; turn < kLong; ++turn) {
    EXPECT_EQ(call(more), false);
    for (std::size_t i = 1; i < all.size(); ++i)
      EXPECT_TRUE(call(all[i]));
  }
  settle();
  EXPECT_TRUE(call(more)) << "in place of the one that nobody asked for";
  EXPECT_EQ(rank(0).mappings->bytes_shared(), kMost);
  EXPECT_EQ(imports(), static_cast<int>(6 * kMost / kPiece));
  EXPECT_FALSE(call(all[0]));
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_TRUE(call(all[i]));
}

TEST_F(OutputMappingsTest, LargerThanTheBoundAreNotShared) {
  const auto outputs = place_all(kMost / kPiece + 1);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_FALSE(call(outputs, kMost + 16));
    settle();
  }
  EXPECT_EQ(posted_, 0);
  EXPECT_FALSE(call(outputs, kMost));
  settle();
  EXPECT_TRUE(call(outputs, kMost)) << "a part of them may be";
}

TEST_F(OutputMappingsTest, OfManyPiecesAreNotShared) {
  std::byte* const at = rank(0).device.reserve_addresses((kMostSharedPieces + 1) * kPiece);
  for (std::size_t i = 0; i <= kMostSharedPieces; ++i)
    rank(0).device.map(at + i * kPiece, kPiece);
  EXPECT_EQ(rank(0).mappings->offer(at, (kMostSharedPieces + 1) * kPiece), 0U);
  settle();
  EXPECT_THAT(rank(0).mappings->last_refusal(), HasSubstr("more than 64 pieces"));
  EXPECT_EQ(posted_, 0);
}

TEST_F(OutputMappingsTest, OfMoreThanThereAreNumbersComeAndGo) {
  std::byte* const at = rank(0).device.reserve_addresses(kPiece);
  rank(0).device.map(at, kPiece, false);
  // Refused ones are forgotten for the sake of others.
  std::byte* const many = rank(0).device.reserve_addresses(2 * kMostMappings * kPiece);
  for (std::size_t i = 0; i < std::size_t{2} * kMostMappings; ++i) {
    rank(0).device.map(many + i * kPiece, kPiece, false);
    EXPECT_EQ(rank(0).mappings->offer(many + i * kPiece, kBytes), 0U);
    settle();
  }
  rank(0).device.map(at, kPiece);
  EXPECT_EQ(rank(0).mappings->offer(at, kBytes), 0U);
  settle();
  EXPECT_NE(rank(0).mappings->offer(at, kBytes), 0U);
}

// Kernels of others may still be at it: all stays as it is.
TEST_F(OutputMappingsTest, OfCallsThatFailedStay) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_TRUE(call(outputs));
  rank(0).device.unmap(outputs[0]);
  rank(0).has_failed = true;
  settle();
  EXPECT_EQ(imports(), 6);
  rank(0).has_failed = false;
  rank(1).has_failed = true;
  settle();
  EXPECT_EQ(rank(1).device.imports, 2);
  EXPECT_NE(rank(1).map.entries[0][0].generation, 0U) << "a kernel may be about to look";
  EXPECT_EQ(rank(2).device.imports, 1);
}

TEST_F(OutputMappingsTest, GoWithTheirRank) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  settle();
  EXPECT_EQ(rank(1).device.imports, 2);
  rank(1).mappings.reset();
  EXPECT_EQ(rank(1).device.imports, 0);
}

TEST_F(OutputMappingsTest, AskForLettersThatComeTwice) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  work();
  while (!letters_.empty()) {
    letters_.push_front(letters_.front());
    deliver_one();
    deliver_one();
  }
  EXPECT_TRUE(call(outputs));
  EXPECT_EQ(imports(), 6);
  rank(0).device.unmap(outputs[0]);
  for (work(); !letters_.empty(); work()) {
    letters_.push_front(letters_.front());
    deliver_one();
    deliver_one();
  }
  EXPECT_EQ(imports(), 4);
  EXPECT_EQ(rank(0).mappings->bytes_shared(), 0U);
}

// A rank had no descriptors for a moment, and what it wrote to another one is lost.
TEST_F(OutputMappingsTest, AskAgainWhereLettersAreLost) {
  using Kind = OutputLetter::Kind;
  const auto lose = [&](Kind kind, std::uint32_t from, std::uint32_t to) {
    const auto lost = std::erase_if(letters_, [&](const Carried& letter) {
      return letter.from == from && letter.to == to &&
             decode_output_letter(letter.text)->kind == kind;
    });
    EXPECT_EQ(lost, 1U);
  };
  for (const auto& [from, to] : {std::pair(0U, 1U), std::pair(1U, 0U)}) {
    const auto outputs = place_all();
    const int before = imports();
    EXPECT_FALSE(call(outputs));
    // What rank 0 shares is lost, then what rank 1 says to that.
    work();
    if (from == 1) {
      while (letters_.front().from != from)
        deliver_one();
    }
    lose(from == 0 ? Kind::kShared : Kind::kTaken, from, to);
    settle();
    EXPECT_FALSE(call(outputs));
    EXPECT_EQ(imports(), before + (from == 0 ? 5 : 6));
    int posted = posted_;
    settle();
    EXPECT_EQ(posted_, posted) << "not yet";
    now_ += kPatient;
    settle();
    EXPECT_EQ(posted_, posted + 2) << "one is asked again, and answers";
    EXPECT_TRUE(call(outputs));
    EXPECT_EQ(imports(), before + 6);
    now_ += 10 * kPatient;
    settle();
    EXPECT_EQ(posted_, posted + 2) << "all have answered";

    // What rank 0 revokes, then what rank 1 says to that.
    rank(0).device.unmap(outputs[0]);
    rank(0).mappings->work();
    if (from == 1) {
      deliver_one();
      rank(1).mappings->work();
    }
    lose(from == 0 ? Kind::kRevoked : Kind::kReturned, from, to);
    settle();
    EXPECT_EQ(imports(), before + (from == 0 ? 5 : 4));
    EXPECT_NE(rank(0).mappings->bytes_shared(), 0U);
    posted = posted_;
    settle();
    EXPECT_EQ(posted_, posted);
    now_ += kPatient;
    settle();
    EXPECT_EQ(posted_, posted + 2);
    EXPECT_EQ(imports(), before + 4);
    EXPECT_EQ(rank(0).mappings->bytes_shared(), 0U);
    for (std::size_t i : {1, 2})
      rank(i).device.unmap(outputs[i]);
    settle();
  }
}

// One that is stopped has its letter once it goes on.
TEST_F(OutputMappingsTest, AskNobodyAgainToWhomLettersAreOnTheirWay) {
  const auto outputs = place_all();
  EXPECT_FALSE(call(outputs));
  work();
  EXPECT_EQ(posted_, 6);
  for (int turn = 0; turn < 10; ++turn) {
    now_ += 10 * kPatient;
    work();
  }
  EXPECT_EQ(posted_, 6);
  settle();
  EXPECT_TRUE(call(outputs));
}

// Ever more seldom: it may have left.
TEST_F(OutputMappingsTest, AskOneThatNeverAnswersSeldom) {
  const auto outputs = place_all();
  EXPECT_EQ(rank(0).mappings->offer(outputs[0], kBytes), 0U);
  for (int half_second = 0; half_second < 1200; ++half_second) {
    rank(0).mappings->work();
    letters_.clear();
    now_ += std::chrono::milliseconds(500);
  }
  EXPECT_GT(posted_, 2 * 10);
  EXPECT_LT(posted_, 2 * 20) << "in ten minutes";
}

// A reader that refused gets it once more when its owner has closed the descriptors: what has their
// numbers by then is another piece.
TEST_F(OutputMappingsTest, ThatAreSharedOnceMoreThanRevokedAreNotKept) {
  const auto outputs = place_all();
  EXPECT_EQ(rank(0).mappings->offer(outputs[0], kBytes), 0U);
  work();
  const Carried shared = letters_.front();
  EXPECT_EQ(shared.to, 1U);
  rank(1).device.fails_to_import = true;
  for (int i = 0; i < 4; ++i)
    deliver_one();
  ASSERT_EQ(decode_output_letter(letters_.front().text)->kind, OutputLetter::Kind::kRevoked);
  rank(1).device.fails_to_import = false;
  std::byte* const at = rank(0).device.reserve_addresses(kPiece);
  rank(0).device.map(at, kPiece);
  MemoryPiece piece;
  ASSERT_EQ(rank(0).device.find_piece(at, &piece), WEFT_OK);
  int descriptor = -1;
  ASSERT_EQ(rank(0).device.export_piece(piece, &descriptor), WEFT_OK);
  const UniqueFd other(descriptor);
  OutputLetter again = *decode_output_letter(shared.text);
  again.pieces[0].descriptor = static_cast<std::uint32_t>(descriptor);
  rank(1).mappings->take(0, encode_output_letter(again));
  EXPECT_EQ(rank(1).device.imports, 1);
  settle();
  EXPECT_EQ(imports(), 0);
  EXPECT_EQ(rank(1).mappings->bytes_mapped(), 0U);
  EXPECT_EQ(rank(0).mappings->bytes_shared(), 0U);
  EXPECT_EQ(rank(0).mappings->offer(outputs[0], kBytes), 0U);
}

// Whatever there is no memory for: nothing leaves the reactor's thread, and it comes later.
TEST_F(OutputMappingsTest, WithoutMemoryComeLater) {
  std::uint32_t most = 0;
  for (std::size_t of = 0; of < 3; ++of) {
    for (std::uint32_t calls = 0;; ++calls) {
      ASSERT_LT(calls, 100U);
      const auto outputs = place_all();
      EXPECT_FALSE(call(outputs));
      bool any = false;
      const auto work_without = [&] {
        Scarce& memory = rank(of).device.memory;
        memory.left = calls;
        EXPECT_NO_THROW(rank(of).mappings->work());
        any = any || memory.left == 0;
        memory.left = UINT32_MAX;
      };
      work_without();
      settle();
      now_ += kPatient;
      settle();
      EXPECT_TRUE(call(outputs)) << "rank " << of << ", after " << calls;
      EXPECT_EQ(imports(), 6);
      for (std::size_t i = 0; i < 3; ++i)
        rank(i).device.unmap(outputs[i]);
      // The one revokes, the others take that, and it returns theirs.
      work_without();
      work();
      while (deliver_one()) {
      }
      work_without();
      settle();
      now_ += kPatient;
      settle();
      EXPECT_EQ(imports(), 0) << "rank " << of << ", after " << calls;
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(rank(i).mappings->bytes_shared(), 0U);
        EXPECT_EQ(rank(i).mappings->bytes_mapped(), 0U);
      }
      if (!any) break;
      most = std::max(most, calls);
    }
  }
  EXPECT_GT(most, 4U);
}

/// Of two ranks the first has more outputs than numbers, each of some pieces.
class ManyOutputMappings : public OutputMappingsTest {
 protected:
  void SetUp() override {
    most_bytes_ = 512 * kPiece;
    start(2);
  }
  std::byte* place(std::size_t pieces) {
    std::byte* const at = rank(0).device.reserve_addresses(pieces * kPiece);
    for (std::size_t i = 0; i < pieces; ++i)
      rank(0).device.map(at + i * kPiece, kPiece);
    return at;
  }
  bool is_offered(const std::byte* output, std::size_t bytes = kBytes) {
    const std::uint64_t offer = rank(0).mappings->offer(output, bytes);
    if (offer != 0) rank(0).ended = rank(0).mappings->number_call();
    return offer != 0;
  }
};

// As others copy descriptors, few are open at a time.
TEST_F(ManyOutputMappings, ShareFewPiecesAtATime) {
  std::vector<std::pair<std::byte*, std::size_t>> outputs;
  for (const std::size_t pieces :
       {std::size_t{30}, std::size_t{34}, std::size_t{1}, kMostSharedPieces})
    outputs.emplace_back(place(pieces), pieces * kPiece);
  for (const auto& [output, bytes] : outputs)
    EXPECT_FALSE(is_offered(output, bytes));
  const auto pieces_under_way = [&] {
    std::size_t pieces = 0;
    for (const Carried& letter : letters_)
      pieces += decode_output_letter(letter.text)->pieces.size();
    return pieces;
  };
  work();
  work();
  EXPECT_EQ(pieces_under_way(), 64U);
  EXPECT_EQ(letters_.size(), 2U);
  // Nobody waits for the timer.
  for (int turn = 0; turn < 20; ++turn) {
    rank(0).is_woken = false;
    while (deliver_one()) {
    }
    if (!rank(0).is_woken) break;
    rank(0).mappings->work();
    EXPECT_LE(pieces_under_way(), kMostSharedPieces);
  }
  for (const auto& [output, bytes] : outputs)
    EXPECT_TRUE(is_offered(output, bytes));
}

TEST_F(ManyOutputMappings, MakeRoomForOthersOnceAllNumbersAreInUse) {
  std::vector<std::byte*> outputs;
  for (std::uint32_t i = 0; i <= kMostMappings; ++i)
    outputs.push_back(place(1));
  std::byte* const last = outputs.back();
  outputs.pop_back();
  for (const std::byte* output : outputs)
    EXPECT_FALSE(is_offered(output));
  settle();
  for (const std::byte* output : outputs)
    EXPECT_TRUE(is_offered(output));
  settle();
  // All are in use, by turns with the last.
  rank(0).is_woken = false;
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_FALSE(is_offered(last));
    settle();
    for (const std::byte* output : outputs)
      EXPECT_TRUE(is_offered(output));
  }
  EXPECT_FALSE(rank(0).is_woken);
  // But one of them that nobody needs any more, once its own call has ended.
  std::byte* const idle = outputs.back();
  outputs.pop_back();
  EXPECT_NE(rank(0).mappings->offer(idle, kBytes), 0U);
  const std::uint64_t number = rank(0).mappings->number_call();
  for (int turn = 0; turn < kLongOfNumbers; ++turn) {
    EXPECT_EQ(rank(0).mappings->offer(last, kBytes), 0U);
    if (turn % 100 != 0) continue;
    for (const std::byte* output : outputs)
      EXPECT_NE(rank(0).mappings->offer(output, kBytes), 0U);
    settle();
  }
  EXPECT_EQ(rank(1).device.imports, static_cast<int>(kMostMappings));
  rank(0).ended = number + 1;
  EXPECT_FALSE(is_offered(last));
  settle();
  EXPECT_EQ(rank(1).device.imports, static_cast<int>(kMostMappings) - 1);
  EXPECT_FALSE(is_offered(last));
  settle();
  EXPECT_TRUE(is_offered(last));
  EXPECT_FALSE(is_offered(idle));
  for (const std::byte* output : outputs)
    EXPECT_TRUE(is_offered(output));
}

/// The first letter that is under way, changed.
class OutputLettersThatLie : public OutputMappingsTest {
 protected:
  OutputLetter first() {
    outputs_ = place_all();
    EXPECT_FALSE(call(outputs_));
    work();
    auto letter = decode_output_letter(letters_.front().text);
    EXPECT_TRUE(letter);
    return letter ? *letter : OutputLetter{};
  }
  /// What its reader answers to it instead.
  std::string answer_to(const OutputLetter& letter) {
    const Carried place = letters_.front();
    letters_.clear();
    rank(place.to).mappings->take(place.from, encode_output_letter(letter));
    if (letters_.empty()) return "no answer";
    const auto answer = decode_output_letter(letters_.front().text);
    EXPECT_EQ(rank(place.to).device.imports, answer->refusal.empty() ? 1 : 0);
    return answer ? answer->refusal : "no letter";
  }
  std::vector<std::byte*> outputs_;
};

TEST_F(OutputLettersThatLie, AboutNothingAreTaken) {
  EXPECT_EQ(answer_to(first()), "");
}

TEST_F(OutputLettersThatLie, AboutTheirProcessAreRefused) {
  OutputLetter letter = first();
  ++letter.pid;
  EXPECT_THAT(answer_to(letter), HasSubstr("is not that of rank"));
}

TEST_F(OutputLettersThatLie, AboutTheirWitnessAreRefused) {
  OutputLetter letter = first();
  letter.witness_bytes[3] ^= std::byte{1};
  EXPECT_THAT(answer_to(letter), HasSubstr("is another one than it was said to be"));
}

TEST_F(OutputLettersThatLie, AboutDescriptorsAreRefused) {
  OutputLetter letter = first();
  letter.pieces[0].descriptor = INT32_MAX;
  EXPECT_THAT(answer_to(letter), HasSubstr("cannot take a descriptor"));
}

TEST_F(OutputLettersThatLie, AboutWhatIsBehindDescriptorsAreRefused) {
  OutputLetter letter = first();
  letter.pieces[0].descriptor = letter.witness;
  EXPECT_THAT(answer_to(letter), HasSubstr("no such piece"));
}

TEST_F(OutputLettersThatLie, AboutMoreThanTheBoundAreRefused) {
  OutputLetter letter = first();
  letter.pieces.assign(kMost / kPiece + 1, letter.pieces[0]);
  EXPECT_THAT(answer_to(letter), HasSubstr("more than buffers.outputs_mapped allows"));
}

TEST_F(OutputLettersThatLie, AboutAnswersChangeNothing) {
  OutputLetter taken = first();
  taken.kind = OutputLetter::Kind::kTaken;
  const Carried place = letters_.front();
  // By one rank for all, of another generation, of another mapping.
  for (int i = 0; i < 3; ++i)
    rank(place.from).mappings->take(place.to, encode_output_letter(taken));
  EXPECT_EQ(rank(place.from).mappings->offer(outputs_[place.from], kBytes), 0U);
  ++taken.generation;
  for (std::uint32_t other = 0; other < 3; ++other)
    rank(place.from).mappings->take(other, encode_output_letter(taken));
  --taken.generation;
  ++taken.mapping;
  for (std::uint32_t other = 0; other < 3; ++other)
    rank(place.from).mappings->take(other, encode_output_letter(taken));
  EXPECT_EQ(rank(place.from).mappings->offer(outputs_[place.from], kBytes), 0U);
  // What was never shared is given back at once.
  letters_.clear();
  taken.kind = OutputLetter::Kind::kRevoked;
  rank(place.to).mappings->take(place.from, encode_output_letter(taken));
  ASSERT_EQ(letters_.size(), 1U);
  EXPECT_EQ(decode_output_letter(letters_.front().text)->kind, OutputLetter::Kind::kReturned);
}

TEST_F(OutputLettersThatLie, AboutEverythingAreLeftUnread) {
  const auto before = letters_.size();
  first();
  const auto posted = letters_.size();
  rank(0).mappings->take(1, {});
  const std::vector<std::byte> noise(100, std::byte{0x5a});
  rank(0).mappings->take(1, noise);
  rank(0).mappings->take(7, encode_output_letter({.kind = OutputLetter::Kind::kRevoked,
                                                  .mapping = 0,
                                                  .generation = 1,
                                                  .pieces = {},
                                                  .refusal = {}}));
  EXPECT_EQ(letters_.size(), posted);
  EXPECT_EQ(before, 0U);
}

// An offer is a word that another rank's kernel wrote.
TEST_F(OutputMappingsTest, PlacesThatWereNotSharedAreNotFound) {
  const auto outputs = place_all(2);
  EXPECT_FALSE(call(outputs, 2 * kPiece));
  settle();
  const std::uint64_t offer = rank(1).mappings->offer(outputs[1] + 64, kBytes);
  const OutputPlace good = place_of(offer);
  EXPECT_EQ(good.offset, 64U);
  const auto found = [&](const OutputPlace& place, std::size_t bytes = kBytes, std::size_t of = 1) {
    return seen(0, of, offer_of(place), bytes) != nullptr;
  };
  EXPECT_TRUE(found(good));
  EXPECT_TRUE(found({good.mapping, good.generation, 2 * kPiece - kBytes}));
  EXPECT_FALSE(found({good.mapping, good.generation, 2 * kPiece - kBytes + 16}));
  EXPECT_FALSE(found({good.mapping, good.generation, std::uint64_t{1} << 39}));
  EXPECT_FALSE(found(good, SIZE_MAX));
  EXPECT_FALSE(found({good.mapping, good.generation + 1, 0}));
  EXPECT_FALSE(found({good.mapping, 0, 0}));
  EXPECT_FALSE(found({good.mapping + 1, good.generation, 0}));
  EXPECT_FALSE(found({good.mapping + kMostMappings, good.generation, 0}, kBytes, 0));
  EXPECT_FALSE(found({255, good.generation, 0}));
  EXPECT_FALSE(found(good, kBytes, 0)) << "of this rank itself";
  EXPECT_FALSE(found(good, kBytes, kMostDirectRanks));
  EXPECT_EQ(seen(0, 1, kUnwrittenOutput, kBytes), nullptr);
}

TEST(OutputLetter, TravelsWhole) {
  OutputLetter letter{
      .kind = OutputLetter::Kind::kShared,
      .mapping = kMostMappings - 1,
      .generation = kMostGeneration,
      .pid = 77,
      .witness = 5,
      .pieces = {{.descriptor = 3, .bytes = kPiece}, {.descriptor = 9, .bytes = 10 * kPiece}},
      .refusal = {}};
  letter.witness_bytes.fill(std::byte{200});
  EXPECT_EQ(*decode_output_letter(encode_output_letter(letter)), letter);
  const OutputLetter answer{.kind = OutputLetter::Kind::kTaken,
                            .mapping = 0,
                            .generation = 1,
                            .pieces = {},
                            .refusal = "no",
                            .may_pass = true};
  EXPECT_EQ(*decode_output_letter(encode_output_letter(answer)), answer);
}

TEST(OutputLetter, HasBounds) {
  const auto refuses = [](const OutputLetter& letter) {
    return !decode_output_letter(encode_output_letter(letter));
  };
  const OutputLetter good{.kind = OutputLetter::Kind::kShared,
                          .mapping = 1,
                          .generation = 1,
                          .pid = 1,
                          .witness = 1,
                          .pieces = {{.descriptor = 1, .bytes = kPiece}},
                          .refusal = {}};
  EXPECT_FALSE(refuses(good));
  for (const auto& spoil : std::vector<void (*)(OutputLetter&)>{
           [](OutputLetter& letter) { letter.mapping = kMostMappings; },
           [](OutputLetter& letter) { letter.generation = 0; },
           [](OutputLetter& letter) { letter.generation = kMostGeneration + 1; },
           [](OutputLetter& letter) { letter.kind = static_cast<OutputLetter::Kind>(4); },
           [](OutputLetter& letter) { letter.pid = 0; },
           [](OutputLetter& letter) { letter.pid = std::uint64_t{1} << 40; },
           [](OutputLetter& letter) { letter.witness = UINT32_MAX; },
           [](OutputLetter& letter) { letter.pieces.clear(); },
           [](OutputLetter& letter) { letter.pieces[0].bytes = 0; },
           [](OutputLetter& letter) { letter.pieces[0].bytes = kPiece + 1; },
           [](OutputLetter& letter) { letter.pieces[0].bytes = std::uint64_t{1} << 41; },
           [](OutputLetter& letter) { letter.pieces[0].descriptor = UINT32_MAX; },
           [](OutputLetter& letter) {
             letter.pieces.assign(kMostSharedPieces + 1, letter.pieces[0]);
           }}) {
    OutputLetter bad = good;
    spoil(bad);
    EXPECT_TRUE(refuses(bad));
  }
  OutputLetter answer{.kind = OutputLetter::Kind::kTaken,
                      .mapping = 1,
                      .generation = 1,
                      .pieces = {},
                      .refusal = std::string(2000, 'x')};
  EXPECT_EQ(decode_output_letter(encode_output_letter(answer))->refusal.size(), 512U);
  answer.refusal = "a\nb";
  EXPECT_EQ(decode_output_letter(encode_output_letter(answer))->refusal, "a b");
}

}  // namespace
}  // namespace weft
