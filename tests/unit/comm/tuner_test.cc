// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks tell one another of their tuners: it comes back, bytes of a peer are not trusted, and
// a difference is named.
#include "core/comm/tuner.h"

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

TunerNotice sample_notice() {
  return {.plugin = "tuner",
          .table = {.version = 1, .hash = 0xfedcba9876543210, .name = "a.yaml"},
          .unusable = {},
          .missing = {}};
}

TEST(TunerNotices, ComeBack) {
  for (const TunerNotice& notice :
       {sample_notice(), TunerNotice{},
        TunerNotice{.plugin = {}, .table = {}, .unusable = "no table", .missing = {}},
        TunerNotice{.plugin = {}, .table = {}, .unusable = {}, .missing = "no file"}}) {
    const auto back = decode_notice(encode_notice(notice));
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->plugin, notice.plugin);
    EXPECT_EQ(back->table.version, notice.table.version);
    EXPECT_EQ(back->table.hash, notice.table.hash);
    EXPECT_EQ(back->table.name, notice.table.name);
    EXPECT_EQ(back->unusable, notice.unusable);
    EXPECT_EQ(back->missing, notice.missing);
  }
}

TEST(TunerNotices, RefuseWhatIsNone) {
  const auto refused = [](const json& document) {
    const auto decoded = decode_notice(encode_document(document));
    return !decoded && decoded.error().code() == WEFT_ERROR_PEER;
  };
  EXPECT_FALSE(refused(json::array({"tuner", 1U, 2U, "a", "", ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2U})));
  EXPECT_TRUE(refused(json::array({"tuner", -1, 2U, "a", "", ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, "2", "a", "", ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2.5, "a", "", ""})));
  EXPECT_TRUE(refused(json::array({1U, 1U, 2U, "a", "", ""})));
  EXPECT_TRUE(refused(json{{"plugin", "tuner"}}));
  EXPECT_TRUE(refused(json::array({std::string(5000, 'x'), 1U, 2U, "a", "", ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2U, std::string(5000, 'x'), "", ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2U, "a", std::string(5000, 'x'), ""})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2U, "a", "", std::string(5000, 'x')})));
  EXPECT_TRUE(refused(json::array({"tuner", 1U, 2U, "a", ""})));
  const std::vector<std::byte> bytes = encode_notice(sample_notice());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_notice(std::span(bytes).first(size))) << size;
}

TEST(TunerNotices, DifferencesAreNamed) {
  std::vector<TunerNotice> notices(3, sample_notice());
  EXPECT_TRUE(check_tuners(notices));
  EXPECT_TRUE(check_tuners({}));
  // The name is for people alone.
  notices[2].table.name = "b.yaml";
  EXPECT_TRUE(check_tuners(notices));
  notices[2].table.hash = 0x1f;
  EXPECT_EQ(check_tuners(notices).error().to_string(),
            "ranks would plan differently: rank 0 by the table a.yaml of plugin tuner (version 1, "
            "hash fedcba9876543210), rank 2 by the table b.yaml of plugin tuner (version 1, hash "
            "000000000000001f); try: install the same plugins and the same table on every host");
  notices[2].unusable = "no table; try: make one";
  EXPECT_EQ(check_tuners(notices).error().to_string(),
            "rank 2 cannot use its tuner: no table; try: make one");
  notices[2].unusable.clear();
  notices[1] = {};
  EXPECT_NE(check_tuners(notices).error().to_string().find("rank 1 by the built-in costs"),
            std::string::npos);
  notices[1].missing = "cannot open a file; try: close others";
  EXPECT_NE(check_tuners(notices).error().to_string().find(
                "rank 1 by the built-in costs (it has no tuner: cannot open a file; try: close "
                "others)"),
            std::string::npos);
  notices[1] = sample_notice();
  notices[1].table.version = 2;
  EXPECT_EQ(check_tuners(notices).error().code(), WEFT_ERROR_CONFIG);
}

}  // namespace
}  // namespace weft
