// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/yaml.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace weft {
namespace {

const Origin kFile{.kind = OriginKind::kFile, .name = "f.yaml", .line = 1, .column = 1};

std::string refused(const std::string& text) {
  const auto node = parse_yaml(text, kFile);
  if (node) return "accepted";
  EXPECT_EQ(node.error().code(), WEFT_ERROR_CONFIG);
  return node.error().to_string();
}

TEST(Yaml, KeepsPlaces) {
  const auto root = parse_yaml("version: 1\nlist:\n  - a\n  - \"b\"\nnothing:\n", kFile);
  ASSERT_TRUE(root) << root.error().to_string();
  ASSERT_EQ(root->kind, YamlKind::kMap);
  ASSERT_EQ(root->entries.size(), 3U);
  EXPECT_EQ(origin_of(root->entries[0].value, kFile).to_string(), "f.yaml:1:10");
  const YamlNode& list = root->entries[1].value;
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(list.items[0].text, "a");
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(origin_of(list.items[1], kFile).to_string(), "f.yaml:4:5");
  EXPECT_EQ(root->entries[2].value.kind, YamlKind::kNull);
  EXPECT_EQ(origin_of(root->entries[2].key, kFile).to_string(), "f.yaml:5:1");
}

TEST(Yaml, EmptyIsNothing) {
  for (const std::string text : {"", "\n\n", "# only a comment\n", "---\n"}) {
    const auto root = parse_yaml(text, kFile);
    ASSERT_TRUE(root) << root.error().to_string();
    EXPECT_EQ(root->kind, YamlKind::kNull);
  }
}

TEST(Yaml, NamesDuplicates) {
  EXPECT_EQ(refused("a: 1\nb: {c: 1, d: 2, c: 3}\na: 2\n"),
            "f.yaml:2:17: duplicate key \"c\"; the first is on line 2\n"
            "f.yaml:3:1: duplicate key \"a\"; the first is on line 1");
}

TEST(Yaml, CountsWhatItDoesNotPrint) {
  std::string text = "a: 1\n";
  for (int i = 0; i < 12; ++i)
    text += "a: 1\n";
  const std::string message = refused(text);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 10);
  EXPECT_TRUE(message.ends_with("\nand 2 more")) << message;
}

TEST(Yaml, RefusesWhatAConfigurationNeverNeeds) {
  EXPECT_EQ(refused("a: &x 1\nb: *x\n"),
            "f.yaml:1:4: anchors and aliases are not accepted; write the value out");
  EXPECT_EQ(refused("a: 1\nb: *x\n").find("f.yaml:2:4: "), 0U);
  EXPECT_EQ(refused("a: &x {b: c}\n"),
            "f.yaml:1:4: anchors and aliases are not accepted; write the value out");
  EXPECT_EQ(refused("a: !!int 1\n"),
            "f.yaml:1:4: the tag \"tag:yaml.org,2002:int\" is not accepted; leave it out");
  EXPECT_EQ(refused("a: 1\n---\nb: 2\n"), "f.yaml:1:1: holds more than one YAML document");
  EXPECT_EQ(refused("? [a, b]\n: 1\n"), "f.yaml:1:3: a list or map is not accepted as a key");
}

TEST(Yaml, RefusesAliasBombs) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last + ", " + last + "]\n";
  }
  EXPECT_EQ(refused(bomb), "f.yaml:1:5: anchors and aliases are not accepted; write the value out");
}

TEST(Yaml, RefusesDepth) {
  EXPECT_EQ(refused(std::string(16, '[') + std::string(16, ']')), "accepted");
  EXPECT_EQ(refused(std::string(17, '[') + std::string(17, ']')),
            "f.yaml:1:17: lists and maps are nested more than 16 deep");
  EXPECT_NE(refused(std::string(100'000, '[')), "accepted");
  EXPECT_NE(refused(std::string(100'000, '{')), "accepted");
  std::string dashes;
  for (int i = 0; i < 10'000; ++i)
    dashes += "- ";
  EXPECT_NE(refused(dashes), "accepted");
}

TEST(Yaml, RefusesSize) {
  EXPECT_EQ(refused(std::string(kMaximumYamlBytes + 1, '\n')), "f.yaml:1:1: larger than 1 MiB");
  EXPECT_EQ(refused(std::string(kMaximumYamlBytes, '\n')), "accepted");
}

TEST(Yaml, NamesThePlaceOfBrokenSyntax) {
  EXPECT_EQ(refused("a: [1, 2\n"), "f.yaml:2:1: not valid YAML: end of sequence flow not found");
  EXPECT_EQ(refused("a: 1\n  b: 2\n").find("f.yaml:2:"), 0U);
  EXPECT_EQ(refused("a: \"\\q\"\n").find("f.yaml:1:"), 0U);
}

}  // namespace
}  // namespace weft
