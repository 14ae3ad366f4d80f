// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The greeting of a rank comes back as it was, malformed ones are refused, and differences are
// named.
#include "core/comm/hello.h"

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

Hello sample() {
  return {.version = "0.1.0",
          .agreed_settings = "buffers.step=128KiB\nchannels.max=0\n",
          .report = {std::byte{0}, std::byte{255}, std::byte{'x'}},
          .device_groups = 132,
          .line_bytes = 128,
          .other_communicators = 3,
          .line_peers = {"0000:18:00.0", "0000:2a:00.0"}};
}

TEST(Hello, ComesBack) {
  for (const Hello& hello : {sample(), Hello{}}) {
    const auto back = decode_hello(encode_hello(hello));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->version, hello.version);
    EXPECT_EQ(back->agreed_settings, hello.agreed_settings);
    EXPECT_EQ(back->report, hello.report);
    EXPECT_EQ(back->device_groups, hello.device_groups);
    EXPECT_EQ(back->line_bytes, hello.line_bytes);
    EXPECT_EQ(back->other_communicators, hello.other_communicators);
    EXPECT_EQ(back->line_peers, hello.line_peers);
  }
}

TEST(Hello, RefusesWhatIsNone) {
  const auto refused = [](const json& document) {
    const auto decoded = decode_hello(encode_document(document));
    return !decoded && decoded.error().code() == WEFT_ERROR_PEER;
  };
  const auto report = json::binary({1});
  const auto none = json::array();
  EXPECT_FALSE(refused(json::array({"1", "a=b\n", report, 0, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report})));
  EXPECT_TRUE(refused(json::array({1, "a=b\n", report, 0, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", "text", 0, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, -1, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, std::uint64_t{1} << 32, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, 0, -8, 0, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, 0})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, 0, 8})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, 0, 8, -1, none})));
  EXPECT_TRUE(refused(json::array({"1", "a=b\n", report, 0, 8, 0})));
  EXPECT_TRUE(refused(json{{"version", "1"}}));
  EXPECT_TRUE(refused(json::array({std::string(65'537, 'x'), "", report, 0, 8, 0, none})));
  EXPECT_TRUE(refused(json::array({"", std::string(65'537, 'x'), report, 0, 8, 0, none})));
}

TEST(Hello, BoundsTheListOfDevices) {
  const auto refused = [](const json& peers) {
    const auto report = json::binary({1});
    const auto decoded =
        decode_hello(encode_document(json::array({"1", "a=b\n", report, 0, 8, 0, peers})));
    return !decoded && decoded.error().code() == WEFT_ERROR_PEER;
  };
  EXPECT_FALSE(refused(std::vector<std::string>(kMostLinePeers, "0000:18:00.0")));
  EXPECT_TRUE(refused(std::vector<std::string>(kMostLinePeers + 1, "0000:18:00.0")));
  EXPECT_FALSE(refused(json::array({std::string(kMostLinePeerBytes, '0')})));
  EXPECT_TRUE(refused(json::array({std::string(kMostLinePeerBytes + 1, '0')})));
  EXPECT_TRUE(refused(json::array({""})));
  EXPECT_TRUE(refused(json::array({7})));
  EXPECT_TRUE(refused("0000:18:00.0"));
}

TEST(Hello, SurvivesTruncationFlippedBitsAndDepth) {
  const std::vector<std::byte> bytes = encode_hello(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_hello(std::span(bytes).first(size))) << size;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto decoded = decode_hello(flipped);
    EXPECT_TRUE(decoded || decoded.error().code() == WEFT_ERROR_PEER);
  }
  EXPECT_FALSE(decode_hello(std::vector(std::size_t{4} << 20, std::byte{0x91})));
}

TEST(Hello, NamesTheRankThatDiffers) {
  std::vector<Hello> hellos(3, sample());
  EXPECT_TRUE(check_agreement(hellos));
  EXPECT_TRUE(check_agreement({}));
  hellos[2].version = "0.2.0";
  EXPECT_EQ(check_agreement(hellos).error().to_string(),
            "rank 0 runs weft 0.1.0, rank 2 runs weft 0.2.0; try: install one version of weft on "
            "every host");
  hellos[1].agreed_settings = "buffers.step=64KiB\nchannels.max=0\n";
  const std::string text = check_agreement(hellos).error().to_string();
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("buffers.step"), std::string::npos) << text;
  EXPECT_EQ(check_agreement(hellos).error().code(), WEFT_ERROR_CONFIG);
}

}  // namespace
}  // namespace weft
