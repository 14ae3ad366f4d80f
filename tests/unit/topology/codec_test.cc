// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Topology bytes: there and back, and everything that a peer could put into them instead.

#include "core/topology/codec.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What decoding answers to a valid report after `change`.
std::string complaint(const std::function<void(Json&)>& change) {
  Json json = Json::parse(text_of(encode_report(test::sample_report(1, {})).value()));
  change(json);
  const Result<RankReport> report = decode_report(bytes_of(json.dump()));
  return report ? "accepted" : report.error().to_string();
}

TEST(Codec, ReportsSurviveTheTrip) {
  RankReport report = test::sample_report(3, {.host = 2, .process = 4});
  report.rank.pid = std::numeric_limits<std::uint64_t>::max();
  report.rank.device_pci = "0000:81:00.0";
  report.rank.memory_fabric = "fabric-7";
  report.rank.cpus = {{.first = 0, .last = 0}, {.first = 5, .last = kMaxCpus - 1}};
  const auto bytes = encode_report(report);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  const auto back = decode_report(*bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, report);
}

TEST(Codec, TopologiesSurviveTheTrip) {
  Topology topology = test::sample_topology(std::vector<test::Placement>{{0, 0}, {1, 0}, {0, 1}});
  topology.ranks[1].device_id = "0123456789abcdef";
  topology.ranks[1].cpu_limit = 3;
  topology.ranks[1].cpu_group = "0123456789abcdef";
  const auto bytes = encode(topology);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  const auto back = decode(*bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, topology);
  EXPECT_EQ(decode(encode(Topology{}).value()).value(), Topology{});
}

TEST(Codec, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(complaint([](Json&) {}), "accepted");
  EXPECT_THAT(complaint([](Json& j) { j["version"] = 1; }), HasSubstr("\"version\" is not 4"));
  EXPECT_THAT(complaint([](Json& j) { j.erase("host"); }), HasSubstr("\"host\" is missing"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"] = 7; }), HasSubstr("\"rank.\" is not an object"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["rank"] = -1; }), HasSubstr("\"rank.rank\""));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["rank"] = kMaxRanks; }), HasSubstr("rank.rank"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["process"] = ""; }), HasSubstr("is empty"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["memory_fabric"] = "a b"; }),
              HasSubstr("is no fabric id"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["cpus"] = {{3, 2}}; }), HasSubstr("rank.cpus"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["cpus"] = {{0, kMaxCpus}}; }),
              HasSubstr("rank.cpus"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["cpus"] = {{4, 5}, {5, 6}}; }),
              HasSubstr("is not ascending"));
  EXPECT_THAT(complaint([](Json& j) { j["rank"]["cpu_limit"] = 4; }), HasSubstr("rank.cpu_group"));
  for (const auto& [limit, group] : {std::pair(0U, "a"), std::pair(4U, "")}) {
    EXPECT_THAT(complaint([&](Json& j) {
                  j["rank"]["cpu_limit"] = limit;
                  j["rank"]["cpu_group"] = group;
                }),
                HasSubstr("\"rank.cpu_limit\" is none of a control group"));
  }
  EXPECT_THAT(complaint([](Json& j) { j["host"]["cores"] = 1.5; }), HasSubstr("host.cores"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["host_id"] = "a b"; }), HasSubstr("host.host_id"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["host_name"] = "a\nWEFT ERROR"; }),
              HasSubstr("host.host_name"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["host_name"] = std::string(257, 'x'); }),
              HasSubstr("host.host_name"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["nics"][0]["up"] = 1; }),
              HasSubstr("\"host.nics[].up\" is neither true nor false"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["nics"][0]["addresses"] = {1}; }),
              HasSubstr("host.nics[].addresses"));
  EXPECT_THAT(complaint([](Json& j) { j["host"]["nics"][0]["prefixes"] = {24, 64}; }), "accepted");
  EXPECT_THAT(complaint([](Json& j) { j["host"]["nics"][0]["prefixes"] = {24}; }),
              HasSubstr("\"host.nics[].prefixes\" is not one for each address"));
  for (const Json& wrong : {Json(129), Json(-1), Json("24"), Json(1.5)}) {
    EXPECT_THAT(complaint([&](Json& j) { j["host"]["nics"][0]["prefixes"] = {24, wrong}; }),
                HasSubstr("host.nics[].prefixes"));
  }
  EXPECT_THAT(complaint([](Json& j) { j["host"]["nics"] = Json(kMaxNics + 1, j["host"]["nics"]); }),
              HasSubstr("\"host.nics\" is not a list of at most 1024"));
}

TEST(Codec, BoundsTheTreeOfAMachine) {
  const auto with_pci = [](const std::string& text) {
    return complaint([&](Json& j) { j["host"]["pci"] = Json::parse(text); });
  };
  EXPECT_EQ(with_pci(R"([[0,"r",1,0],[1,"b",0,2],[2,"n",1,1],[0,"s",null,0]])"), "accepted");
  EXPECT_THAT(with_pci(R"([[2,"n",0,0]])"), HasSubstr("no forest")) << "its own parent";
  EXPECT_THAT(with_pci(R"([[0,"r",0,0],[2,"n",2,0]])"), HasSubstr("no forest"));
  EXPECT_THAT(with_pci(R"([[0,"r",0,0],[2,"n",0,0],[3,"g",1,0]])"), HasSubstr("no forest"));
  EXPECT_THAT(with_pci(R"([[0,"r",0,0],[2,"n",null,0]])"), HasSubstr("no forest"));
  EXPECT_THAT(with_pci(R"([[0,"r",0,1]])"), HasSubstr("no forest"));
  EXPECT_THAT(with_pci(R"([[4,"r",0,0]])"), HasSubstr("host.pci"));
  EXPECT_THAT(with_pci(R"([[0,"r",0,257]])"), HasSubstr("host.pci"));
  EXPECT_THAT(with_pci(R"([[0,7,0,0]])"), HasSubstr("\"host.pci\" is not text"));
  EXPECT_THAT(with_pci(R"([[0,"r",0]])"), HasSubstr("host.pci"));
  EXPECT_THAT(with_pci(R"([7])"), HasSubstr("host.pci"));
  EXPECT_THAT(
      complaint([](Json& j) { j["host"]["pci"] = Json(kMaxPciNodes + 1, {0, "r", nullptr, 0}); }),
      HasSubstr("\"host.pci\" is not a list of at most 1024"));
  const auto with_nodes = [](const std::string& text) {
    return complaint([&](Json& j) { j["host"]["numa_nodes"] = Json::parse(text); });
  };
  EXPECT_EQ(with_nodes("[[0,5,[[0,3]]],[2,0,[]]]"), "accepted");
  EXPECT_THAT(with_nodes("[[1,5,[]],[1,5,[]]]"), HasSubstr("\"host.numa_nodes\" is not ascending"));
  EXPECT_THAT(with_nodes("[[0,5,[[3,2]]]]"), HasSubstr("host.numa_nodes"));
  EXPECT_THAT(with_nodes("[[0,5,7]]"), HasSubstr("host.numa_nodes"));
  EXPECT_THAT(with_nodes("[[0,-5,[]]]"), HasSubstr("host.numa_nodes"));
  EXPECT_THAT(with_nodes("[[65536,5,[]]]"), HasSubstr("host.numa_nodes"));
  EXPECT_THAT(with_nodes("2"), HasSubstr("host.numa_nodes"));
}

TEST(Codec, KeepsUnknownApartFromFalse) {
  RankReport report = test::sample_report(0, {});
  report.host.nics[0].up.reset();
  report.host.nics[1].up = false;
  const RankReport back = decode_report(encode_report(report).value()).value();
  EXPECT_EQ(back, report);
}

TEST(Codec, RefusesNonsense) {
  EXPECT_FALSE(decode_report({}));
  EXPECT_FALSE(decode_report(bytes_of("null")));
  EXPECT_FALSE(decode_report(bytes_of("[]")));
  EXPECT_FALSE(decode_report(bytes_of("\xff\xfe\x00")));
  EXPECT_THAT(complaint([](Json& j) { j["rank"] = Json::object(); }), HasSubstr("rank"));
  EXPECT_THAT(complaint([](Json& j) { j["host"] = Json::array(); }), HasSubstr("host"));
  const auto good = encode(test::one_host(2)).value();
  Json topology = Json::parse(reinterpret_cast<const char*>(good.data()),
                              reinterpret_cast<const char*>(good.data()) + good.size());
  topology["ranks"] = {1};
  const auto refused = decode(bytes_of(topology.dump()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("ranks"));
}

TEST(Codec, SurvivesDeepNestingAndLargeInput) {
  EXPECT_FALSE(decode_report(bytes_of(std::string(kMaxReportBytes, '['))));
  const std::string half(kMaxReportBytes / 2, '[');
  EXPECT_FALSE(decode_report(bytes_of(half + std::string(kMaxReportBytes / 2, ']'))));
  const auto large = decode_report(bytes_of(std::string(kMaxReportBytes + 1, ' ')));
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().to_string(), HasSubstr("1048577 bytes, 1048576 are allowed"));
}

TEST(Codec, RefusesRanksOutOfOrderAndHostsThatDoNotExist) {
  const Topology good = test::one_host(2);
  Topology topology = good;
  topology.ranks[1].rank = 0;
  EXPECT_FALSE(encode(topology));
  topology = good;
  topology.ranks[1].host = 1;
  EXPECT_FALSE(encode(topology));
}

TEST(Codec, DoesNotEncodeWhatItWouldNotDecode) {
  RankReport report = test::sample_report(0, {});
  report.host.host_id.clear();
  const auto bytes = encode_report(report);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code(), WEFT_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft
