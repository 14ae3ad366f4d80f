// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/property/api/cases.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>

#include "tests/integration/api/handles.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using Random = std::mt19937_64;

// The standard's distributions differ between libraries; this does not.
std::uint64_t below(Random& random, std::uint64_t end) {
  return random() % end;
}

bool one_in(Random& random, std::uint64_t n) {
  return below(random, n) == 0;
}

template <typename Choices>
auto any_of(Random& random, const Choices& choices) {
  return choices[below(random, std::size(choices))];
}

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

constexpr std::array<const char*, std::size(kSubjects)> kNames = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast",    "reduce",           "all_to_all",
    "gather",     "scatter",    "all_to_all_v",   "all_gather_v", "reduce_scatter_v", "send_recv",
    "mix"};

// Odd numbers of ranks are where blocks do not come out even, and few ranks leave time for more
// cases.
constexpr std::uint32_t kRanks[] = {1, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 11, 13, 15, 16};
// Small steps bring the borders of chunks to small sizes.
constexpr std::size_t kSteps[] = {4 * kKiB,  4 * kKiB,  4 * kKiB,  8 * kKiB,
                                  16 * kKiB, 32 * kKiB, 128 * kKiB};
constexpr std::uint32_t kChannels[] = {0, 1, 2, 3, 5, 8};
constexpr std::size_t kDirectBytes[] = {0, 1 * kKiB, 4 * kKiB, 64 * kKiB};
constexpr std::uint32_t kMostOfDirect = 8;  // ranks that write to each other directly
constexpr std::size_t kPrimes[] = {2, 3, 5, 7, 11, 13, 31, 61, 127, 251, 509, 1021, 2039};
constexpr std::size_t kPageBytes = 4 * kKiB;
constexpr std::size_t kChannelBytes = 64 * kKiB;  // from where one more channel pays

// Elements, around all borders that there are.
std::size_t draw_count(Random& random, std::size_t width, std::size_t most, const World& world) {
  const std::size_t ranks = world.ranks;
  const auto near = [&](std::size_t count) { return count + below(random, 3) - (count > 0); };
  const auto drawn = [&]() -> std::size_t {
    const std::size_t each = one_in(random, 2) ? ranks : 1;
    switch (below(random, 16)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
      case 3:
        return any_of(random, kPrimes);
      case 4:
      case 5:
        return near(ranks * (1 + below(random, 64)));
      case 6:
      case 7:
      case 8:
      case 9:  // steps, and chunks of up to half of the buffer's eight
        return near(world.step_bytes / width * (1 + below(random, 9)) * each);
      case 10:
      case 11:
        return near(kPageBytes / width * (1 + below(random, 4)));
      case 12:
        return near(kChannelBytes / width * (1 + below(random, 3)) * each);
      case 13:
        return near(world.direct_bytes / width);
      case 14:
        return most - below(random, std::min<std::size_t>(3, most + 1));
      default:
        return below(random, most + 1) >> below(random, 10);
    }
  };
  // What is too large is drawn again: few borders fit where there are many ranks.
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (const std::size_t count = drawn(); count <= most) return count;
  }
  return below(random, most + 1);
}

// Bytes of a call for one rank, in the larger of its buffers: 16 MiB where ranks are so few that
// this is bearable, now and then; else of all ranks together 1 MiB, seldom 8, very seldom 16:
// all channels of a case hold a quarter of it at most.
constexpr std::size_t kLargest = 16 * kMiB;
constexpr std::uint32_t kFewRanks = 3;

std::size_t draw_most_bytes(Random& random, std::uint32_t ranks) {
  const std::uint64_t luck = below(random, 250);
  if (luck < 3 && ranks <= kFewRanks) return kLargest;
  if (luck == 0) return kLargest / ranks;
  return (luck < 8 ? 8 * kMiB : kMiB) / ranks;
}

Shape draw_shape(Random& random, Kind kind, const World& world, std::size_t most_bytes) {
  Shape shape{.kind = kind};
  shape.type = static_cast<weft_data_type>(below(random, WEFT_FLOAT8_E5M2 + 1));
  if (reduces(kind)) shape.reduction = static_cast<weft_reduction>(below(random, WEFT_AVG + 1));
  if (reduces(kind) && shape.reduction == WEFT_SUM && one_in(random, 2)) {
    shape.premultiplied = one_in(random, 2) ? Premultiplied::kNow : Premultiplied::kAtCall;
  }
  if (has_root(kind)) shape.root = static_cast<std::uint32_t>(below(random, world.ranks));
  shape.in_place = one_in(random, 2) && can_be_in_place(kind);
  if (one_in(random, 2)) shape.shift = below(random, 16);
  if (one_in(random, 2)) shape.recv_shift = below(random, 16);
  shape.values = one_in(random, 4) ? Values::kWhole : Values::kAny;
  shape.omit_unused = one_in(random, 4);
  shape.count = 1;
  const std::size_t bytes_for_each = width_of(shape.type) * shape.most_elements(world.ranks);
  const std::size_t most = most_bytes / bytes_for_each;
  shape.count = draw_count(random, width_of(shape.type), most, world);
  // All else that is drawn is much smaller.
  if (most_bytes == kLargest && one_in(random, 2)) shape.count = most - below(random, 3);
  return shape;
}

/// Ways that these ranks have for a call of that shape; none where nothing is chosen from.
std::vector<weft_call_options> ways_of(const Shape& shape, const World& world) {
  constexpr auto kWay = [](std::int32_t algorithm, std::int32_t protocol) {
    return weft_call_options{.struct_size = sizeof(weft_call_options),
                             .algorithm = algorithm,
                             .protocol = protocol,
                             .max_channels = 0};
  };
  const bool of_blocks = shape.kind == Kind::kAllGather || shape.kind == Kind::kReduceScatter;
  const bool has_tree = shape.kind == Kind::kAllReduce || shape.kind == Kind::kBroadcast ||
                        shape.kind == Kind::kReduce;
  // Sums by rank numbers have few, which depend on more than is known here.
  const bool by_rank = world.deterministic && reduces(shape.kind);
  if (world.ranks == 1 || shape.count == 0 || by_rank || !(of_blocks || has_tree)) return {};
  const std::int32_t own = has_tree ? WEFT_CALL_ALGORITHM_TREE : WEFT_CALL_ALGORITHM_PAT;
  std::vector<weft_call_options> ways = {kWay(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_SIMPLE),
                                         kWay(own, WEFT_CALL_PROTOCOL_SIMPLE),
                                         kWay(own, WEFT_CALL_PROTOCOL_ANY)};
  if (shape.kind == Kind::kAllReduce) {
    ways.push_back(kWay(WEFT_CALL_ALGORITHM_PAT, WEFT_CALL_PROTOCOL_SIMPLE));
  }
  if (world.transport == "net-socket") return ways;
  for (const std::int32_t lines : {WEFT_CALL_PROTOCOL_LL, WEFT_CALL_PROTOCOL_LL128}) {
    ways.push_back(kWay(WEFT_CALL_ALGORITHM_RING, lines));
    if (has_tree) ways.push_back(kWay(own, lines));
  }
  if (world.direct_bytes == 0 || world.ranks > kMostOfDirect) return ways;
  if (shape.kind == Kind::kAllReduce) {
    ways.push_back(kWay(WEFT_CALL_ALGORITHM_TWO_SHOT, WEFT_CALL_PROTOCOL_SIMPLE));
  }
  const bool fits = shape.count * width_of(shape.type) <= world.direct_bytes;
  if (fits && (of_blocks || shape.kind == Kind::kAllReduce)) {
    ways.push_back(kWay(WEFT_CALL_ALGORITHM_DIRECT, WEFT_CALL_PROTOCOL_LL));
  }
  return ways;
}

/// Half of the calls go as the ranks' settings have it; others by any way, on few channels, both.
std::optional<weft_call_options> draw_options(Random& random, const Shape& shape,
                                              const World& world) {
  if (one_in(random, 2)) return std::nullopt;
  weft_call_options options{.struct_size = sizeof(weft_call_options),
                            .algorithm = WEFT_CALL_ALGORITHM_ANY,
                            .protocol = WEFT_CALL_PROTOCOL_ANY,
                            .max_channels = 0};
  const std::vector<weft_call_options> ways = ways_of(shape, world);
  if (!ways.empty() && !one_in(random, 4)) options = any_of(random, ways);
  if (one_in(random, 2)) options.max_channels = 1 + static_cast<std::uint32_t>(below(random, 3));
  return options;
}

std::string options_text(const weft_call_options& options) {
  constexpr std::array kAlgorithms = {"any algorithm", "ring", "tree", "pat", "direct", "two-shot"};
  constexpr std::array kProtocols = {"any protocol", "simple", "ll", "ll128"};
  std::string text = std::string(", as ") +
                     kAlgorithms.at(static_cast<std::size_t>(options.algorithm)) + " with " +
                     kProtocols.at(static_cast<std::size_t>(options.protocol));
  if (options.max_channels != 0) {
    text += " over " + std::to_string(options.max_channels) + " channels at most";
  }
  return text;
}

Part draw_part(Random& random, std::optional<Kind> kind, const World& world,
               std::size_t most_bytes) {
  Part part;
  part.communicator = static_cast<std::uint32_t>(below(random, world.communicators));
  part.stream = static_cast<std::uint32_t>(below(random, world.streams));
  part.seed = random();
  if (kind) {
    part.shape = draw_shape(random, *kind, world, most_bytes);
    part.options = draw_options(random, *part.shape, world);
  } else {
    part.most_messages = one_in(random, 8) ? 1 : one_in(random, 3) ? 3 : 3 * world.ranks;
    // Half of all ranks' is sent, half received; few messages are as large as they may be.
    const std::size_t messages = std::min<std::size_t>(part.most_messages, 4);
    part.most_bytes = std::min(most_bytes, most_bytes * world.ranks / 2 / messages);
  }
  return part;
}

constexpr Kind kKinds[] = {Kind::kAllReduce,  Kind::kAllGather,     Kind::kReduceScatter,
                           Kind::kBroadcast,  Kind::kReduce,        Kind::kAllToAll,
                           Kind::kGather,     Kind::kScatter,       Kind::kAllToAllV,
                           Kind::kAllGatherV, Kind::kReduceScatterV};

std::optional<Kind> kind_of(Subject subject) {
  if (subject == Subject::kSendRecv) return std::nullopt;
  return kKinds[static_cast<std::size_t>(subject)];
}

std::string bytes_text(std::size_t bytes) {
  return bytes % kKiB == 0 ? std::to_string(bytes / kKiB) + "KiB" : std::to_string(bytes) + "B";
}

}  // namespace

const char* name_of(Subject subject) {
  return kNames[static_cast<std::size_t>(subject)];
}

std::optional<Subject> parse_subject(std::string_view name) {
  for (const Subject subject : kSubjects) {
    if (name == name_of(subject)) return subject;
  }
  return std::nullopt;
}

const char* name_of(Tuning tuning) {
  switch (tuning) {
    case Tuning::kWide:
      return "wide";
    case Tuning::kDirect:
      return "direct";
    case Tuning::kTree:
      return "tree";
    case Tuning::kTwoShot:
      return "two-shot";
    case Tuning::kLL:
      return "ll";
    case Tuning::kLL128:
      return "ll128";
    case Tuning::kTreeLL:
      return "tree-ll";
    case Tuning::kTreeLL128:
      return "tree-ll128";
    case Tuning::kDefault:
      break;
  }
  return "default";
}

std::string table_text(Tuning tuning) {
  std::string text = "version: 1\nrules:\n";
  if (tuning == Tuning::kDirect) {
    for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter"})
      text += std::string("  - {operation: ") + operation + ", algorithm: direct, use: prefer}\n";
  } else if (tuning == Tuning::kTwoShot) {
    text += "  - {operation: all_reduce, algorithm: two-shot, use: prefer}\n";
  } else if (tuning == Tuning::kLL || tuning == Tuning::kLL128) {
    for (const char* operation :
         {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce"}) {
      text += std::string("  - {operation: ") + operation +
              ", algorithm: ring, protocol: " + name_of(tuning) + ", use: prefer, channels: 64}\n";
    }
  } else if (tuning == Tuning::kTreeLL || tuning == Tuning::kTreeLL128) {
    const std::string protocol = tuning == Tuning::kTreeLL ? "ll" : "ll128";
    for (const char* operation : {"all_reduce", "broadcast", "reduce"}) {
      text += std::string("  - {operation: ") + operation +
              ", algorithm: tree, protocol: " + protocol + ", use: prefer, channels: 64}\n";
    }
  } else if (tuning == Tuning::kWide) {
    for (const char* operation :
         {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce"})
      text += std::string("  - {operation: ") + operation + ", algorithm: ring, channels: 64}\n";
  } else if (tuning == Tuning::kTree) {
    for (const char* operation : {"all_reduce", "broadcast", "reduce"}) {
      text += std::string("  - {operation: ") + operation +
              ", algorithm: tree, use: prefer, channels: 64}\n";
    }
    for (const char* operation : {"all_gather", "reduce_scatter"}) {
      text += std::string("  - {operation: ") + operation +
              ", algorithm: pat, use: prefer, channels: 64}\n";
    }
  } else {
    return "version: 1\n";
  }
  return text;
}

std::vector<std::string> World::settings() const {
  std::vector<std::string> words = only_transport(transport);
  words.insert(words.end(), {"buffers.step", bytes_text(step_bytes), "channels.max",
                             std::to_string(channels), "buffers.direct", bytes_text(direct_bytes),
                             "collectives.deterministic", deterministic ? "true" : "false",
                             // A message that is lost ends the case, and says what was waited for.
                             "timeouts.operation", kSanitized ? "150s" : "30s"});
  return words;
}

std::string World::describe() const {
  std::ostringstream text;
  text << ranks << " ranks by " << transport
       << (place == Place::kThreads     ? ", a thread each"
           : place == Place::kOneThread ? ", in one thread"
                                        : ", a process each");
  if (hosts > 1) text << ", as if on " << hosts << " hosts";
  text << ", buffers.step " << bytes_text(step_bytes) << ", channels.max " << channels
       << ", buffers.direct " << bytes_text(direct_bytes) << ", plans by the table "
       << name_of(tuning) << ", " << communicators << " communicators";
  if (communicators > 1) text << " with ranks " << rotation << " apart";
  text << ", " << streams << (shares_streams ? " streams for all ranks" : " streams a rank") << ", "
       << batch << " cases at a time";
  if (deterministic) text << ", deterministic";
  if (rounds > 1) text << ", " << rounds << " times, captured by some ranks";
  return text.str();
}

std::string Case::describe(const World& world) const {
  std::ostringstream text;
  text << (grouped ? "in a group:" : "outside of a group:");
  for (const Part& part : parts) {
    text << "\n  communicator " << part.communicator << ", stream " << part.stream << ": ";
    if (part.shape) {
      text << part.shape->describe() << (part.options ? options_text(*part.options) : "");
    } else {
      text << "messages" << exchange_of(part, 0, world).describe();
    }
  }
  return text.str();
}

bool Case::is_captured_by(std::uint32_t rank, const World& world) const {
  if (world.rounds == 1) return false;
  Random random(seed + rank);
  return !one_in(random, 3);
}

std::uint64_t world_seed(std::uint64_t run_seed, Subject subject, std::uint64_t n) {
  std::seed_seq parts{run_seed & 0xFFFFFFFFU, run_seed >> 32, static_cast<std::uint64_t>(subject),
                      n};
  Random random(parts);
  const std::uint64_t drawn = random() >> (kNumberBits + 8);
  // Worlds of a run have all tables in turn, from any one on: the seed says which.
  const std::uint64_t turn = run_seed + n;
  return drawn - drawn % std::size(kTunings) + turn % std::size(kTunings);
}

World draw_world(std::uint64_t seed, Subject subject, bool processes) {
  Random random(seed);
  World world;
  world.ranks = any_of(random, kRanks);
  if (processes) {
    world.place = Place::kProcesses;
    world.ranks = std::min<std::uint32_t>(world.ranks, 8);
    world.transport = one_in(random, 2) ? "shm" : "net-socket";
    if (world.transport == "net-socket" && !one_in(random, 3)) {
      world.hosts = 1 + static_cast<std::uint32_t>(below(random, std::min(4U, world.ranks)));
    }
  } else {
    world.place = one_in(random, 2) ? Place::kThreads : Place::kOneThread;
    world.transport = any_of(random, std::to_array({"p2p", "p2p", "shm", "shm", "net-socket"}));
  }
  world.step_bytes = any_of(random, kSteps);
  world.channels = any_of(random, kChannels);
  world.direct_bytes = any_of(random, kDirectBytes);
  world.tuning = kTunings[seed % std::size(kTunings)];
  const bool goes_directly = world.tuning == Tuning::kDirect || world.tuning == Tuning::kTwoShot;
  if (goes_directly && world.direct_bytes == 0) world.direct_bytes = 4 * kKiB;
  world.communicators = one_in(random, subject == Subject::kMix ? 2 : 8) ? 2 : 1;
  if (!processes) world.rotation = static_cast<std::uint32_t>(below(random, world.ranks));
  world.streams = one_in(random, 4) ? 2 : 1;
  world.shares_streams = world.place == Place::kOneThread && one_in(random, 2);
  world.batch = one_in(random, 2) ? 1 : 2 + static_cast<std::uint32_t>(below(random, 5));
  if (one_in(random, 3)) world.rounds = 2 + static_cast<std::uint32_t>(below(random, 2));
  world.deterministic = one_in(random, 4);
  return world;
}

Case draw_case(std::uint64_t seed, Subject subject, const World& world) {
  std::seed_seq parts{seed & 0xFFFFFFFFU, seed >> 32};
  Random random(parts);
  Case drawn{.seed = seed, .grouped = world.shares_streams || one_in(random, 2), .parts = {}};
  const std::size_t most_bytes = draw_most_bytes(random, world.ranks);
  if (subject != Subject::kMix) {
    drawn.parts.push_back(draw_part(random, kind_of(subject), world, most_bytes));
  } else {
    drawn.grouped = true;
    const std::size_t count = 2 + below(random, 5);
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<Kind> kind;
      if (!one_in(random, 3)) kind = any_of(random, kKinds);
      drawn.parts.push_back(draw_part(random, kind, world, most_bytes / 4));
    }
  }
  return drawn;
}

Exchange exchange_of(const Part& part, std::uint32_t rank, const World& world) {
  return Exchange(part.seed, rank, world.ranks, part.most_messages,
                  [&](Random& random, std::size_t width) {
                    return draw_count(random, width, part.most_bytes / width, world);
                  });
}

}  // namespace weft::test
