// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft bench` and `weft explain`: what they print, that they find what is wrong, and that what is
// explained is what runs.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/device/reductions.h"
#include "tests/integration/commands/commands.h"
#include "tools/weft/bench_pattern.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ContainsRegex;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAreArray;

namespace fs = std::filesystem;

std::vector<nlohmann::json> json_lines(const std::string& file) {
  std::vector<nlohmann::json> rows;
  for (const std::string& line : lines_of(read_text(file)))
    rows.push_back(nlohmann::json::parse(line));
  return rows;
}

/// A folder with the tampering plugin alone, and what makes ranks use it.
class Tampering {
 public:
  Tampering() {
    // Copied: others may be allowed to write to a build folder, and then plugins are not loaded.
    const std::string file = folder_.path() + "/weft-net-example.so";
    fs::copy_file(TAMPERING_PLUGIN, file);
    fs::permissions(file, fs::perms(0644));
  }
  [[nodiscard]] Variables variables() const {
    return {{"WEFT_PLUGINS_PATH", folder_.path()},
            {"WEFT_TRANSPORTS_ORDER", "net"},
            {"WEFT_TRANSPORTS_NET", "net-example"}};
  }

 private:
  ScratchFolder folder_;
};

TEST(Bench, ChecksAllReduceAndWritesJson) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/rows.json";
  const Outcome outcome =
      weft_in_job(3, {"bench", "all_reduce", "--min", "8", "--max", "64KiB", "--factor", "16",
                      "--iters", "2", "--warmup", "1", "--check", "--json", file});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
  EXPECT_THAT(lines_with(outcome.out, "# ranks "), SizeIs(3));
  EXPECT_THAT(lines_with(outcome.out, "# memory: rank 0 holds "), SizeIs(1));
  EXPECT_THAT(lines_with(outcome.out, "# ranks 0 and 2: shm: "), SizeIs(1));
  const std::vector<nlohmann::json> rows = json_lines(file);
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const nlohmann::json& row = rows[i];
    EXPECT_EQ(row.at("bytes"), 8U << (4 * (i / 2)));
    EXPECT_EQ(row.at("in_place"), i % 2 == 1);
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_EQ(row.at("ranks"), 3);
    EXPECT_EQ(row.at("operation"), "all_reduce");
    EXPECT_EQ(row.at("type"), "float32");
    EXPECT_EQ(row.at("reduction"), "sum");
    EXPECT_EQ(row.at("peer"), "weft");
    EXPECT_GT(row.at("time_us").get<double>(), 0);
    EXPECT_NEAR(row.at("algbw_gbs").get<double>(),
                row.at("bytes").get<double>() / row.at("time_us").get<double>() / 1e3, 1e-9);
    EXPECT_NEAR(row.at("busbw_gbs").get<double>(), row.at("algbw_gbs").get<double>() * 4 / 3, 1e-9);
    EXPECT_THAT(row.at("transport").get<std::string>(), StartsWith("shm: "));
  }
}

TEST(Bench, TimesWaysOfLessThanAnElementForEachRank) {
  const Outcome outcome = weft_in_job(3, {"bench", "all_gather", "--ways", "--rounds", "1", "--min",
                                          "8", "--max", "8", "--type", "float64", "--iters", "1"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains(testing::HasSubstr("         24 ")));
}

TEST(Bench, TimesEveryWayInTurnWithTheChoice) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/rows.json";
  const Outcome outcome =
      weft_in_job(3, {"bench", "reduce_scatter", "--ways", "--rounds", "2", "--min", "768", "--max",
                      "768KiB", "--factor", "1024", "--iters", "3", "--json", file});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains(testing::EndsWith("  chosen")).Times(2));
  std::map<std::uint64_t, std::vector<std::string>> ways;
  std::map<std::uint64_t, std::string> choices;
  for (const nlohmann::json& row : json_lines(file)) {
    EXPECT_EQ(row.at("operation"), "reduce_scatter");
    EXPECT_EQ(row.at("ranks"), 3);
    EXPECT_THAT(row.at("times_us").get<std::vector<double>>(), Each(testing::Gt(0)));
    EXPECT_THAT(row.at("times_us"), testing::AnyOf(SizeIs(1), SizeIs(2)))
        << "what is far behind is not asked again";
    EXPECT_GT(row.at("predicted_us").get<double>(), 0);
    const std::string way =
        row.at("algorithm").get<std::string>() + " " + row.at("protocol").get<std::string>();
    if (row.at("kind") == "choice") {
      EXPECT_TRUE(choices.emplace(row.at("bytes"), way).second);
    } else {
      ways[row.at("bytes")].push_back(way);
    }
  }
  const std::vector<std::string> large = {"ring simple", "ring ll", "ring ll128", "pat simple"};
  auto small = large;
  small.emplace_back("direct ll");
  EXPECT_THAT(ways[768], UnorderedElementsAreArray(small));
  EXPECT_THAT(ways[768 << 10], UnorderedElementsAreArray(large));
  EXPECT_THAT(choices, SizeIs(2));
  for (const auto& [bytes, choice] : choices)
    EXPECT_THAT(ways[bytes], Contains(choice)) << bytes;
}

TEST(Bench, ChecksEveryTypeAndReduction) {
  // Three reducing operations, twelve types and five reductions, not all triples of them.
  const std::array operations = {"all_reduce", "reduce_scatter", "reduce"};
  const std::array reductions = {"sum", "prod", "max", "min", "avg"};
  std::size_t turn = 0;
  for (const char* type : {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16",
                           "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2"}) {
    for (int i = 0; i < 2; ++i, ++turn) {
      const char* reduction = reductions[(turn + turn / 5) % reductions.size()];
      const Outcome outcome =
          weft_in_job(3, {"bench", operations[turn % 3], "--type", type, "--op", reduction, "--max",
                          "32KiB", "--factor", "64", "--iters", "1", "--warmup", "0", "--check"});
      EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
      EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
      EXPECT_THAT(lines_of(outcome.out),
                  Contains(AllOf(HasSubstr(std::string(" ") + type + " "), HasSubstr(reduction))));
    }
  }
}

TEST(Bench, CountsBlocksAsPartsOfTheWhole) {
  for (const char* operation : {"all_gather", "reduce_scatter"}) {
    const Outcome outcome = weft_in_job(
        3, {"bench", operation, "--min", "1200", "--max", "1200", "--iters", "2", "--check"});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
    EXPECT_THAT(lines_of(outcome.out),
                Contains(ContainsRegex("^ +1200 +100 +float32 +(sum|none) +-1 ")));
  }
}

template <typename T>
double number_of(T element) {
  if constexpr (device::narrow_float<T>) {
    return device::to_float(element);
  } else {
    return static_cast<double>(element);
  }
}

TEST(Bench, RingsWhoseBlocksDiffer) {
  for (const char* operation : {"all_gather_v", "reduce_scatter_v"}) {
    const Outcome outcome =
        weft_in_job(3, {"bench", operation, "--type", "int32", "--min", "1KiB", "--max", "64KiB",
                        "--factor", "64", "--iters", "2", "--warmup", "1", "--check"});
    ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
  }
}

TEST(Bench, GathersAndScatters) {
  for (const char* operation : {"gather", "scatter"}) {
    const ScratchFolder folder;
    const std::string file = folder.path() + "/rows.json";
    const Outcome outcome = weft_in_job(
        3, {"bench", operation, "--type", "uint8", "--root", "2", "--min", "1KiB", "--max", "64KiB",
            "--factor", "64", "--iters", "2", "--warmup", "1", "--check", "--json", file});
    ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
    const std::vector<nlohmann::json> rows = json_lines(file);
    ASSERT_EQ(rows.size(), 4U) << "in place, too";
    EXPECT_EQ(rows.back().at("bytes"), 65535);
    for (const nlohmann::json& row : rows) {
      EXPECT_EQ(row.at("operation"), operation);
      EXPECT_EQ(row.at("root"), 2);
      EXPECT_EQ(row.at("wrong"), 0);
      EXPECT_NEAR(row.at("busbw_gbs").get<double>(), row.at("algbw_gbs").get<double>() * 2 / 3,
                  1e-9);
    }
  }
}

TEST(Bench, SendsAndReceivesInAGroup) {
  struct Case {
    const char* operation;
    std::uint64_t most_bytes;  // a block has whole elements
    double bus_factor;
  };
  for (const auto& [operation, most_bytes, bus_factor] :
       {Case{"sendrecv", 65536, 1}, Case{"all_to_all", 65532, 2.0 / 3},
        Case{"all_to_all_v", 65532, 2.0 / 3}}) {
    const ScratchFolder folder;
    const std::string file = folder.path() + "/rows.json";
    const Outcome outcome = weft_in_job(
        3, {"bench", operation, "--type", "int32", "--min", "1KiB", "--max", "64KiB", "--factor",
            "64", "--iters", "2", "--warmup", "1", "--check", "--json", file});
    ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
    EXPECT_THAT(lines_of(outcome.out), Contains(ContainsRegex("^ +6553[26] .* +- +- +- +-$")))
        << "what is sent is not received in place";
    const std::vector<nlohmann::json> rows = json_lines(file);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows.back().at("bytes"), most_bytes);
    for (const nlohmann::json& row : rows) {
      EXPECT_EQ(row.at("operation"), operation);
      EXPECT_EQ(row.at("in_place"), false);
      EXPECT_EQ(row.at("wrong"), 0);
      EXPECT_NEAR(row.at("busbw_gbs").get<double>(), row.at("algbw_gbs").get<double>() * bus_factor,
                  1e-9);
      EXPECT_FALSE(row.contains("root"));
      EXPECT_FALSE(row.contains("reduction"));
    }
  }
  const Outcome alone =
      weft_in_job(1, {"bench", "all_to_all", "--max", "64", "--iters", "1", "--check"});
  EXPECT_EQ(alone.exit_status, 0) << alone.describe();
  EXPECT_NE(weft_in_job(1, {"bench", "sendrecv", "--in-place"}).exit_status, 0);
}

// What makes the check right on more ranks than a test can start.
template <typename T>
void check_pattern() {
  for (const std::uint32_t ranks : {2U, 31U, 32U, 33U, 257U, 1000U}) {
    const tool::Pattern<T> pattern(ranks, 1, WEFT_SUM);
    std::vector<bool> heard(ranks);
    // Each rank has its turn at several.
    const std::uint64_t count = std::max(200U, 8 * ranks / tool::kMostSummed<T>);
    for (std::uint64_t index = 0; index < count; ++index) {
      T sum = tool::as_element<T>(0);
      double greatest = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const T element = pattern.contribution(rank, index);
        sum = device::Sum<T>::combine(sum, element);
        greatest += std::abs(number_of(element));
        heard[rank] = heard[rank] || number_of(element) != 0;
      }
      ASSERT_EQ(sum, pattern.reduced(index));
      ASSERT_LE(greatest, 15.0 * tool::kMostSummed<T>);
      if (!std::is_integral_v<T>) {
        ASSERT_LE(greatest, 8.0 * tool::kMostSummed<T>) << "another order might round";
      }
    }
    EXPECT_THAT(heard, Each(true)) << "of " << ranks << " ranks";
  }
}

TEST(Bench, SumsExactlyOnAnyNumberOfRanks) {
  check_pattern<float>();
  check_pattern<device::Float16>();
  check_pattern<device::Bfloat16>();
  check_pattern<device::Float8E4M3>();
  check_pattern<device::Float8E5M2>();
  check_pattern<std::int8_t>();
  check_pattern<std::uint8_t>();
}

TEST(Bench, ChecksBroadcastFromAnyRoot) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/rows.json";
  for (const char* root : {"0", "1", "2"}) {
    const Outcome outcome = weft_in_job(
        3, {"bench", "broadcast", "--root", root, "--type", "int32", "--min", "4", "--max", "4KiB",
            "--factor", "32", "--iters", "1", "--check", "--in-place", "--json", file});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  }
  const std::vector<nlohmann::json> rows = json_lines(file);
  ASSERT_EQ(rows.size(), 9U) << "rows are appended";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("root"), i / 3);
    EXPECT_EQ(rows[i].at("wrong"), 0);
    EXPECT_EQ(rows[i].at("type"), "int32");
    EXPECT_EQ(rows[i].at("in_place"), true);
    EXPECT_FALSE(rows[i].contains("reduction"));
  }
}

/// Reads a plot as any reader of XML does: its title, how many points and lines, and every text.
constexpr const char* kReadPlot = R"(
import sys, xml.etree.ElementTree as xml
svg = '{http://www.w3.org/2000/svg}'
root = xml.parse(sys.argv[1]).getroot()
assert root.tag == svg + 'svg', root.tag
print(root.find(svg + 'title').text)
points = [p for p in root.iter() if p.get('class') == 'point']
circles = [p for p in points if p.tag == svg + 'circle']
lines = list(root.iter(svg + 'polyline'))
print(f'{len(circles)} circles, {len(points) - len(circles)} squares, {len(lines)} lines')
assert sum(len(line.get('points').split()) for line in lines) == len(points)
for p in circles:
    assert 0 < float(p.get('cx')) < float(root.get('width')), p.attrib
    assert 0 < float(p.get('cy')) < float(root.get('height')), p.attrib
for text in root.iter(svg + 'text'):
    print(text.text)
)";

std::vector<std::string> shown_by(const std::string& file) {
  const Outcome outcome = run({.arguments = {"python3", "-c", kReadPlot, file},
                               .environment = {{"PYTHONIOENCODING", "utf-8"}},
                               .input = {}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  return lines_of(outcome.out);
}

TEST(Bench, DrawsEveryRow) {
  const ScratchFolder folder;
  const std::string file = folder.write("rows.svg", "an older picture");
  const std::vector<std::string> quick = {"--iters", "1", "--warmup", "0", "--plot", file};
  const auto draw = [&](int ranks, std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), quick.begin(), quick.end());
    const Outcome outcome = weft_in_job(ranks, words, {{"WEFT_TRANSPORTS_ORDER", "shm"}});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    return shown_by(file);
  };
  auto shown = draw(2, {"all_reduce", "--min", "8", "--max", "8KiB", "--factor", "4"});
  ASSERT_GE(shown.size(), 2U);
  EXPECT_EQ(shown[0], "all_reduce, 2 ranks, shm");
  EXPECT_EQ(shown[1], "12 circles, 12 squares, 4 lines");  // six sizes, bandwidth and time
  for (const char* label : {"bus bandwidth (GB/s)", "time of a call (\u00b5s)", "size (bytes)",
                            "8B", "8KiB", "out of place", "in place"}) {
    EXPECT_THAT(shown, Contains(label));
  }
  // What a logarithm does not show is there all the same.
  shown = draw(2, {"broadcast", "--root", "1", "--min", "0", "--max", "64", "--in-place"});
  ASSERT_GE(shown.size(), 2U);
  EXPECT_EQ(shown[0], "broadcast, 2 ranks, shm");
  EXPECT_EQ(shown[1], "12 circles, 0 squares, 2 lines");
  EXPECT_THAT(shown, Contains("0"));
  EXPECT_THAT(shown, Contains(StartsWith("float32, root 1, slowest rank's time, 1 iterations")));
  shown = draw(3, {"sendrecv", "--min", "64", "--max", "256"});
  ASSERT_GE(shown.size(), 2U);
  EXPECT_EQ(shown[0], "sendrecv, 3 ranks, shm");
  EXPECT_EQ(shown[1], "6 circles, 0 squares, 2 lines");
  EXPECT_THAT(shown, Contains(StartsWith("float32, slowest rank's time, 1 iterations")));
  EXPECT_THAT(shown, Not(Contains("in place")));
  shown = draw(1, {"all_reduce", "--min", "64", "--max", "64"});
  ASSERT_GE(shown.size(), 2U);
  EXPECT_EQ(shown[0], "all_reduce, 1 rank, no transport");
  EXPECT_EQ(shown[1], "2 circles, 2 squares, 4 lines");
}

TEST(Bench, FindsOutFirstWhereItCannotDraw) {
  const Outcome outcome =
      weft_in_job(1, {"bench", "all_reduce", "--max", "8", "--plot", "/nonexistent/rows.svg"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "") << "it began to measure";
  EXPECT_THAT(outcome.err, HasSubstr("weft bench: cannot write /nonexistent/rows.svg (errno 2, No "
                                     "such file or directory)"));
}

/// The command counts no wrong elements, but some where the plugin changes what is sent.
void expect_wrong_elements_are_counted(const Tampering& plugin,
                                       const std::vector<std::string>& words) {
  const Outcome right = weft_in_job(2, words, plugin.variables());
  EXPECT_EQ(right.exit_status, 0) << right.describe();
  EXPECT_THAT(lines_of(right.out), Contains("# Out of bounds values : 0 OK"));

  Variables variables = plugin.variables();
  variables["TAMPER"] = "flip";
  const Outcome wrong = weft_in_job(2, words, variables);
  EXPECT_EQ(wrong.exit_status, 1) << wrong.describe();
  EXPECT_THAT(lines_of(wrong.out),
              Contains(AllOf(StartsWith("# Out of bounds values : "), HasSubstr(" FAILED"))));
}

TEST(Bench, EndsInFailureForAWrongElement) {
  const Tampering plugin;
  using Call = std::pair<const char*, const char*>;
  for (const auto& [operation, type] :
       {Call{"all_reduce", "float32"}, Call{"all_reduce", "float16"},
        Call{"all_reduce", "bfloat16"}, Call{"sendrecv", "int8"}, Call{"all_to_all", "int64"},
        Call{"all_to_all_v", "int8"}, Call{"gather", "float32"}, Call{"scatter", "uint8"},
        Call{"all_gather_v", "int32"}}) {
    expect_wrong_elements_are_counted(
        plugin, {"bench", operation, "--type", type, "--min", "1KiB", "--max", "256KiB", "--factor",
                 "256", "--iters", "1", "--check"});
  }
}

TEST(Bench, EndsInFailureForAWrongElementOfAnyWay) {
  const Tampering plugin;
  const ScratchFolder folder;
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--ways", "--rounds", "1"},
        std::vector<std::string>{"--calibrate", folder.path() + "/table.yaml"}}) {
    std::vector<std::string> words = {"bench", "all_reduce", "--min",   "64KiB",
                                      "--max", "64KiB",      "--iters", "1"};
    words.insert(words.end(), how.begin(), how.end());
    words.emplace_back("--check");
    expect_wrong_elements_are_counted(plugin, words);
  }
}

TEST(Bench, RefusesWhatAnotherOptionLeavesUndone) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/file";
  using Words = std::vector<std::string>;
  for (const Words& both :
       {Words{"--ways", "--plot", file}, Words{"--ways", "--in-place"},
        Words{"--calibrate", file, "--ways"}, Words{"--calibrate", file, "--json", file},
        Words{"--calibrate", file, "--plot", file}, Words{"--calibrate", file, "--in-place"}}) {
    Words words = {"bench", "all_reduce"};
    words.insert(words.end(), both.begin(), both.end());
    const Outcome outcome = weft(words);
    EXPECT_NE(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(outcome.err, HasSubstr("excludes")) << outcome.describe();
  }
}

TEST(Bench, SaysWhyItCannotStart) {
  const Outcome alone = weft({"bench", "all_reduce"});
  EXPECT_EQ(alone.exit_status, 1);
  EXPECT_EQ(alone.err,
            "weft bench: this process is no rank of a job; try: weft run -n 2 -- weft bench "
            "all_reduce\n");
  const Outcome order = weft_in_job(1, {"bench", "all_reduce", "--min", "2KiB", "--max", "1KiB"});
  EXPECT_EQ(order.exit_status, 1);
  EXPECT_THAT(order.err, HasSubstr("--min 2KiB is more than --max 1KiB"));
  const Outcome size = weft_in_job(1, {"bench", "all_reduce", "--min", "8 parrots"});
  EXPECT_EQ(size.exit_status, 1);
  EXPECT_THAT(size.err, HasSubstr("--min 8 parrots: "));
  const Outcome root = weft_in_job(2, {"bench", "broadcast", "--root", "2", "--max", "8"});
  EXPECT_EQ(root.exit_status, 1);
  EXPECT_THAT(root.err, HasSubstr("--root 2 is not a rank of 2"));
  EXPECT_NE(weft_in_job(1, {"bench", "all_reduce", "--type", "float8"}).exit_status, 0);
}

/// What each rank sends, by the plan: from "ranks 0-2, each: 96 messages, 12 MiB", in the words of
/// the plugin that counts.
std::vector<std::string> due_messages(const std::string& explained) {
  static const std::map<std::string, std::uint64_t> units = {
      {"B", 1}, {"KiB", std::uint64_t{1} << 10}, {"MiB", std::uint64_t{1} << 20}};
  std::vector<std::string> due;
  for (const std::string& line : lines_with(explained, "  sends ")) {
    std::istringstream text(line);
    std::string word;
    std::string who;
    std::uint64_t messages = 0;
    std::uint64_t size = 0;
    text >> word >> word >> who;
    if (who.ends_with(',')) text >> word;  // "each:"
    text >> messages >> word >> size >> word;
    const std::size_t dash = who.find('-');
    const std::size_t ranks =
        dash == std::string::npos ? 1 : std::stoul(who.substr(dash + 1)) - std::stoul(who) + 1;
    due.insert(due.end(), ranks,
               "sent " + std::to_string(messages) + " large messages of " +
                   std::to_string(size * units.at(word)) + " bytes in all");
  }
  return due;
}

TEST(Explain, TellsThePlanThatRuns) {
  const Tampering plugin;
  for (const char* channels : {"1", "3"}) {
    Variables variables = plugin.variables();
    variables["WEFT_CHANNELS_MAX"] = channels;
    variables["WEFT_BUFFERS_STEP"] = "64KiB";
    const Outcome explained = weft({"explain", "all_reduce", "8MiB", "-n", "4"}, variables);
    ASSERT_EQ(explained.exit_status, 0) << explained.describe();
    EXPECT_THAT(explained.out,
                StartsWith("all_reduce of 8 MiB: 2097152 x float32, sum, 4 ranks\n"));
    EXPECT_THAT(lines_of(explained.out), Contains("  algorithm   ring"));
    EXPECT_THAT(lines_of(explained.out), Contains(StartsWith("  connection  8 steps of 64 KiB")));
    EXPECT_THAT(lines_of(explained.out), Contains(std::string("  channels    ") + channels));
    const std::vector<std::string> due = due_messages(explained.out);
    EXPECT_EQ(due.size(), 4U) << explained.out;

    const Outcome ran = weft_in_job(4,
                                    {"bench", "all_reduce", "--min", "8MiB", "--max", "8MiB",
                                     "--iters", "1", "--warmup", "0", "--in-place"},
                                    variables);
    ASSERT_EQ(ran.exit_status, 0) << ran.describe();
    // The same transports with the same reasons, for the pairs that the plan joins.
    for (const std::string& line : lines_with(explained.out, "ranks ")) {
      EXPECT_THAT(lines_of(ran.out), Contains("# " + line));
    }
    EXPECT_THAT(lines_with(ran.err, "sent "), UnorderedElementsAreArray(due));
  }
}

TEST(Explain, TellsTheExchangeThatRuns) {
  const Tampering plugin;
  const struct {
    std::string operation;
    std::string first_line;
    std::vector<std::string> rounds;
    std::vector<std::string> options;
    std::vector<std::string> once;  // so that the bench calls it once
  } cases[] = {
      {"all_to_all",
       "all_to_all of 256 KiB: 65536 x float32, for each rank, 4 ranks",
       {"    1   0 -> 1, 1 -> 2, 2 -> 3, 3 -> 0: 256 KiB each",
        "    2   0 -> 2, 1 -> 3, 2 -> 0, 3 -> 1: 256 KiB each",
        "    3   0 -> 3, 1 -> 0, 2 -> 1, 3 -> 2: 256 KiB each"},
       {},
       {}},
      {"all_to_all_v",
       "all_to_all_v of float32: blocks of 512 KiB at most, 4 ranks",
       {"    1   0 -> 1 (174760 B), 1 -> 2 (512 KiB), 2 -> 3 (174760 B), 3 -> 0 (512 KiB)",
        "    2   0 -> 2, 2 -> 0: 349524 B each",
        "    3   0 -> 3 (512 KiB), 1 -> 0 (174760 B), 2 -> 1 (512 KiB), 3 -> 2 (174760 B)",
        "  copies      rank 1: 349524 B to itself", "  copies      rank 3: 349524 B to itself"},
       {},
       {}},
      {"gather",
       "gather of 256 KiB: 65536 x float32, root 1, for each rank, 4 ranks",
       {"    1   0 -> 1: 256 KiB", "    2   3 -> 1: 256 KiB", "    3   2 -> 1: 256 KiB"},
       {"--root", "1"},
       {"--in-place"}},
      {"scatter",
       "scatter of 256 KiB: 65536 x float32, root 1, for each rank, 4 ranks",
       {"    1   1 -> 2: 256 KiB", "    2   1 -> 3: 256 KiB", "    3   1 -> 0: 256 KiB"},
       {"--root", "1"},
       {"--in-place"}},
      {"sendrecv",
       "send of 1 MiB: 262144 x float32, one of each rank, 4 ranks",
       {"    1   0 -> 1, 1 -> 2, 2 -> 3, 3 -> 0: 1 MiB each"},
       {},
       {}},
  };
  for (const auto& one : cases) {
    std::vector<std::string> words = {"explain", one.operation, "1MiB", "-n", "4"};
    words.insert(words.end(), one.options.begin(), one.options.end());
    const Outcome explained = weft(words, plugin.variables());
    ASSERT_EQ(explained.exit_status, 0) << explained.describe();
    EXPECT_THAT(explained.out, StartsWith(one.first_line + "\n"));
    EXPECT_THAT(lines_of(explained.out), Contains("  algorithm   pair"));
    EXPECT_THAT(lines_of(explained.out),
                Contains("  connection  4 steps of 64 KiB, one each way between two ranks"));
    EXPECT_THAT(explained.out, HasSubstr("reason "));
    for (const std::string& round : one.rounds)
      EXPECT_THAT(lines_of(explained.out), Contains(round));
    std::vector<std::string> bench = {"bench", one.operation, "--min", "1MiB",     "--max",
                                      "1MiB",  "--iters",     "1",     "--warmup", "0"};
    bench.insert(bench.end(), one.options.begin(), one.options.end());
    bench.insert(bench.end(), one.once.begin(), one.once.end());
    const Outcome ran = weft_in_job(4, bench, plugin.variables());
    ASSERT_EQ(ran.exit_status, 0) << ran.describe();
    for (const std::string& line : lines_with(explained.out, "ranks "))
      EXPECT_THAT(lines_of(ran.out), Contains("# " + line));
    EXPECT_THAT(lines_with(ran.err, "sent "),
                UnorderedElementsAreArray(due_messages(explained.out)))
        << explained.out;
  }
}

TEST(Explain, TellsThePlanOfBlocksThatDiffer) {
  const Tampering plugin;
  for (const char* operation : {"all_gather_v", "reduce_scatter_v"}) {
    Variables variables = plugin.variables();
    variables["WEFT_CHANNELS_MAX"] = "1";
    variables["WEFT_BUFFERS_STEP"] = "64KiB";
    const Outcome explained = weft({"explain", operation, "2MiB", "-n", "3"}, variables);
    ASSERT_EQ(explained.exit_status, 0) << explained.describe();
    EXPECT_THAT(lines_of(explained.out), Contains("  algorithm   ring"));
    const Outcome ran = weft_in_job(3,
                                    {"bench", operation, "--min", "2MiB", "--max", "2MiB",
                                     "--iters", "1", "--warmup", "0", "--in-place"},
                                    variables);
    ASSERT_EQ(ran.exit_status, 0) << ran.describe();
    EXPECT_THAT(lines_with(ran.err, "sent "),
                UnorderedElementsAreArray(due_messages(explained.out)))
        << explained.out;
  }
}

TEST(Explain, TellsOfManyExchangesByTheirNumber) {
  const Outcome outcome = weft({"explain", "all_to_all", "1MiB", "-n", "24"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains(StartsWith("  rounds      23, ")));
  EXPECT_THAT(lines_of(outcome.out), Contains("    ...  7 more"));
  EXPECT_THAT(lines_of(outcome.out),
              Contains(StartsWith("276 pairs of ranks (0 and 1, 0 and 2, 0 and 3, 0 and 4, ...): "
                                  "shm: ")));
  const Outcome alone = weft({"explain", "gather", "1MiB", "-n", "1"});
  EXPECT_EQ(alone.exit_status, 0) << alone.describe();
  const Outcome root = weft({"explain", "gather", "8", "-n", "2", "--root", "2"});
  EXPECT_EQ(root.exit_status, 1);
  EXPECT_THAT(root.err, HasSubstr("root 2 is not a rank of this communicator of 2"));
}

TEST(Explain, StandsInForEveryOption) {
  const Outcome outcome =
      weft({"explain", "broadcast", "1MiB", "-n", "3", "--type", "int32", "--root", "2"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.out, StartsWith("broadcast of 1 MiB: 262144 x int32"));
  EXPECT_THAT(lines_with(outcome.out, "ranks "), SizeIs(2)) << "the ring ends before its root";
  EXPECT_THAT(outcome.out, HasSubstr("reason "));
  const Outcome wrong = weft({"explain", "all_reduce", "much"});
  EXPECT_EQ(wrong.exit_status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("weft explain: "));
}

TEST(Explain, SpeaksInAJobToo) {
  const Outcome outcome = weft_in_job(2, {"explain", "all_reduce", "4KiB"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_with(outcome.out, "all_reduce of 4 KiB"), SizeIs(1)) << "one rank speaks";
}

}  // namespace
}  // namespace weft::test
