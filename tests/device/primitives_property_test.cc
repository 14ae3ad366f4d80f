// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Each primitive by each protocol beside a slow reference: any type, reduction and alignment, from
// no element to several steps, one extent behind the other.
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "core/device/host/host_memory.h"
#include "core/device/primitives_ll.h"
#include "core/device/primitives_simple.h"
#include "tests/device/each_primitive.h"
#include "tests/device/every_type.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

constexpr std::array kProtocols = {Protocol::kSimple, Protocol::kLL, Protocol::kLL128};

constexpr std::uint32_t kSteps = 16;
constexpr std::size_t kMostExtents = 3;
constexpr std::uint32_t kMostStepsOfAnExtent = 5;
static_assert(kMostExtents * kMostStepsOfAnExtent <= kSteps, "nobody takes meanwhile");

/// An extent of the input, and where it goes in the output.
struct Piece {
  Extent from;
  std::uint64_t to;
};

struct Case {
  Does does;
  Protocol protocol;
  weft_reduction reduction = WEFT_SUM;
  std::uint32_t step_bytes = 0;
  std::uint64_t first_step = 0;  ///< Of both connections.
  std::uint64_t input_shift = 0;
  std::uint64_t output_shift = 0;
  bool in_place = false;
  std::vector<Piece> pieces{};
  std::uint64_t elements = 0;  ///< Of all pieces, with one behind each.
};

/// Of all in [first, end) alike: rapidcheck's own range grows case by case.
template <class Number>
Number any_of(Number first, Number end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, end));
}

/// Of extents by elements of `width` bytes.
std::uint64_t any_count(std::uint64_t payload, std::uint64_t width) {
  const std::uint64_t whole = payload / width;
  switch (any_of(0, 4)) {
    case 0:
      return 0;
    case 1:  // less than a line
      return any_of<std::uint64_t>(1, 1 + 15 / width);
    case 2:  // around one step
      return any_of<std::uint64_t>(whole - 1, whole + 2);
    default:
      return any_of<std::uint64_t>(whole, (kMostStepsOfAnExtent - 1) * whole + 2);
  }
}

Case any_case(const Does& does, Protocol protocol, std::uint64_t width) {
  Case made{.does = does, .protocol = protocol};
  made.reduction = any_of<weft_reduction>(WEFT_SUM, WEFT_AVG + 1);
  // The largest are moved in several parts.
  made.step_bytes = *rc::gen::element(256U, 512U, 1024U, 4096U);
  // Slots in any order, and flags of 32 bits that begin again.
  made.first_step = *rc::gen::element<std::uint64_t>(0, 1, 7, 15, (std::uint64_t{1} << 31U) - 3,
                                                     (std::uint64_t{1} << 32U) - 5);
  made.input_shift = any_of<std::uint64_t>(0, 17);
  made.output_shift = any_of<std::uint64_t>(0, 17);
  made.in_place = *rc::gen::arbitrary<bool>();
  const auto extents = any_of<std::size_t>(1, kMostExtents + 1);
  for (std::size_t i = 0; i < extents; ++i) {
    const Extent from{.offset = made.elements,
                      .count = any_count(step_payload(protocol, made.step_bytes), width)};
    made.pieces.push_back({.from = from, .to = from.offset});
    made.elements += from.count + 1;
  }
  if (!made.in_place && takes_two_places(does.name)) {
    for (Piece& piece : made.pieces)
      piece.to = made.elements - piece.from.offset - piece.from.count;
  }
  return made;
}

/// What comes of element `i` of the input: only what is written to an output is an average yet.
template <class T>
T due(const Case& of, std::uint64_t i) {
  if (!of.does.reads || !of.does.receives)
    return sample<T>(of.does.receives ? 0 : 1, i, of.reduction);
  const bool finished = of.does.writes || of.reduction != WEFT_AVG;
  return expected_sample<T>(2, i, finished ? of.reduction : weft_reduction{WEFT_SUM});
}

/// One rank of a ring of three, in this thread: rank 0 has sent before, rank 2 receives afterwards.
class Neighbours {
 public:
  explicit Neighbours(const Case& of, weft_data_type type)
      : of_(of),
        task_{.type = type, .reduction = of.reduction, .count = of.elements},
        reduction_(best_element_loops(), type, of.reduction, 2),
        world_(
            {.ranks = 3, .steps = kSteps, .step_bytes = of.step_bytes, .protocol = of.protocol}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Link& link = world_.link(rank);
      link.head() = link.tail() = of.first_step;
      link.sender_cursor().step = link.receiver_cursor().step = of.first_step;
      link.sender_cursor().seen_head = link.receiver_cursor().seen_tail = of.first_step;
    }
  }

  void run(std::uint32_t rank, const Does& does, const void* input, void* output) {
    const WorkItem item = world_.items(rank, task_, 0, input, output)[0];
    if (of_.protocol == Protocol::kSimple) {
      return run<SimplePrimitives<SingleLane, HostMemory, HostReduction>>(item, does);
    }
    if (of_.protocol == Protocol::kLL) {
      return run<LinePrimitives<Protocol::kLL, SingleLane, HostMemory, HostReduction>>(item, does);
    }
    run<LinePrimitives<Protocol::kLL128, SingleLane, HostMemory, HostReduction>>(item, does);
  }
  /// That `rank` has sent all, or nothing, and that the next one has received it.
  void check_link(std::uint32_t rank, bool used) {
    std::uint64_t end = of_.first_step;
    const std::uint64_t payload = step_payload(of_.protocol, of_.step_bytes);
    const std::uint64_t width = element_size(task_.type);
    for (const Piece& piece : of_.pieces)
      end += used ? (piece.from.count * width + payload - 1) / payload : 0;
    Link& link = world_.link(rank);
    RC_ASSERT(link.tail() == end);
    RC_ASSERT(link.head() == end);
    RC_ASSERT(link.sender_cursor().step == end);
    RC_ASSERT(link.receiver_cursor().step == end);
  }

 private:
  template <class Primitives>
  void run(const WorkItem& item, const Does& does) {
    Primitives primitives(lane_, memory_, item, reduction_, element_size(task_.type), does.receives,
                          does.sends);
    for (const Piece& piece : of_.pieces)
      RC_ASSERT(run_primitive(primitives, does.name, piece.from, piece.to));
    RC_ASSERT(primitives.finish().end == KernelEnd::kDone);
  }

  const Case& of_;
  const Task task_;
  const HostReduction reduction_;
  RingWorld world_;
  std::atomic<std::uint32_t> failed_{0};
  Launch launch_;
  Waiter waiter_;
  SingleLane lane_;
  HostMemory memory_{best_element_loops(), waiter_, launch_, failed_};
};

template <class T>
void check_case(const Case& of) {
  constexpr T kUntouched{77};  // no result of samples
  constexpr std::uint64_t kGuard = 17;
  const auto with_guards = [&](std::uint64_t shift) {
    return std::vector<T>(shift + of.elements + kGuard, kUntouched);
  };
  std::vector<T> arriving = with_guards(0);
  std::vector<T> input = with_guards(of.input_shift);
  const std::uint64_t output_shift = of.in_place ? of.input_shift : of.output_shift;
  std::vector<T> output = with_guards(output_shift);
  for (std::uint64_t i = 0; i < of.elements; ++i) {
    arriving[i] = sample<T>(0, i, of.reduction);
    const T own = sample<T>(1, i, of.reduction);
    if (of.in_place || !of.does.holds) input[of.input_shift + i] = own;
    if (of.in_place || of.does.holds) output[output_shift + i] = own;
  }
  std::vector<T> passed_on = with_guards(0);

  std::vector<T> due_output = output;
  std::vector<T> due_passed_on = passed_on;
  for (const Piece& piece : of.pieces) {
    for (std::uint64_t i = 0; i < piece.from.count; ++i) {
      const T value = due<T>(of, piece.from.offset + i);
      if (of.does.writes) due_output[output_shift + piece.to + i] = value;
      if (of.does.sends) due_passed_on[piece.from.offset + i] = value;
    }
  }

  Neighbours ring(of, kTypeOf<T>);
  if (of.does.receives) ring.run(0, kSend, arriving.data(), nullptr);
  const std::vector<T> input_before = input;
  ring.run(1, of.does, (of.in_place ? output : input).data() + of.input_shift,
           output.data() + output_shift);
  if (of.does.sends) ring.run(2, kRecv, nullptr, passed_on.data());
  RC_ASSERT(output == due_output);
  RC_ASSERT(passed_on == due_passed_on);
  RC_ASSERT(input == input_before);
  ring.check_link(0, of.does.receives);
  ring.check_link(1, of.does.sends);
}

class PrimitivesProperty : public ::testing::TestWithParam<std::tuple<Does, Protocol>> {};

TEST_P(PrimitivesProperty, DoesWhatTheReferenceDoes) {
  const Does does = std::get<0>(GetParam());
  const Protocol protocol = std::get<1>(GetParam());
  EXPECT_TRUE(rc::check("any type, reduction, alignment and size", [&] {
    int left = any_of(0, 12);
    for_each_type([&]<class T>() {
      if (left-- == 0) check_case<T>(any_case(does, protocol, sizeof(T)));
    });
  }));
}

INSTANTIATE_TEST_SUITE_P(All, PrimitivesProperty,
                         ::testing::Combine(::testing::ValuesIn(kPrimitives),
                                            ::testing::ValuesIn(kProtocols)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_by_" +
                                  std::string(protocol_name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace weft::device::testing
