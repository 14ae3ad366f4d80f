// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/reference.h"

#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "core/config/core_parameters.h"
#include "tests/unit/config/support.h"

namespace weft {
namespace {

std::vector<Parameter> whole_table() {
  std::vector<Parameter> table = core_parameters();
  for (Parameter& parameter : plugin_table())
    table.push_back(std::move(parameter));
  return table;
}

TEST(Reference, DocumentationIsUpToDate) {
  std::ifstream file(WEFT_SOURCE_ROOT "/docs/configuration.md");
  ASSERT_TRUE(file) << "docs/configuration.md is missing";
  std::ostringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), markdown_reference(core_parameters()))
      << "run: weft config schema --markdown --core > docs/configuration.md";
}

TEST(Reference, ExampleOfTheDocumentationIsAccepted) {
  const std::string page = markdown_reference(core_parameters());
  const std::string fence = "```yaml\n";
  const std::size_t begin = page.find(fence) + fence.size();
  EXPECT_EQ(refusal(page.substr(begin, page.find("```", begin) - begin)), "accepted");
}

TEST(Reference, MarkdownNamesEveryParameter) {
  const std::string page = markdown_reference(whole_table());
  for (const Parameter& parameter : whole_table()) {
    EXPECT_NE(page.find("`" + parameter.environment_name() + "`"), std::string::npos)
        << parameter.name();
  }
  EXPECT_NE(page.find("\n## net-socket\n"), std::string::npos);
}

TEST(Reference, SchemaHoldsTheTable) {
  const auto schema = nlohmann::json::parse(json_schema(whole_table()));
  EXPECT_EQ(schema["required"], nlohmann::json::array({"version"}));
  EXPECT_EQ(schema["properties"]["version"]["const"], 1);
  EXPECT_EQ(schema["additionalProperties"], false);
  const auto& log = schema["properties"]["log"];
  EXPECT_EQ(log["additionalProperties"], false);
  EXPECT_EQ(log["properties"]["format"]["enum"], nlohmann::json::array({"text", "json"}));
  EXPECT_EQ(log["properties"]["topics"]["properties"]["net"]["enum"].size(), 6U);
  const auto& socket = schema["properties"]["net-socket"]["properties"];
  EXPECT_EQ(socket["streams"]["minimum"], 1);
  EXPECT_EQ(socket["streams"]["maximum"], 16);
  EXPECT_EQ(socket["interfaces"]["type"], "array");
  EXPECT_EQ(schema["properties"]["shm"]["properties"]["huge"]["type"], "boolean");
  const auto& rule = schema["properties"]["transports"]["properties"]["rules"]["items"];
  EXPECT_EQ(rule["required"], nlohmann::json::array({"between", "use"}));
  for (const Parameter& parameter : whole_table()) {
    const auto* node = &schema["properties"][parameter.section];
    std::string_view key = parameter.key;
    while (true) {
      const std::string part(key.substr(0, key.find('.')));
      ASSERT_TRUE((*node)["properties"].contains(part)) << parameter.name();
      node = &(*node)["properties"][part];
      if (key.find('.') == std::string_view::npos) break;
      key.remove_prefix(key.find('.') + 1);
    }
    EXPECT_EQ((*node)["description"], parameter.help);
  }
}

}  // namespace
}  // namespace weft
