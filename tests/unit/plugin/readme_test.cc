// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Each plugin's page lists its parameters by hand, since it says more of them than their table
// does. Names and defaults are those of the table that the plugin carries.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/plugin/inspect.h"

namespace weft {
namespace {

/// The cells of a row of a table, without the blanks around them.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  for (std::size_t at = 1; at < row.size();) {
    const std::size_t end = std::min(row.find('|', at), row.size());
    std::string cell = row.substr(at, end - at);
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
    cells.push_back(std::move(cell));
    at = end + 1;
  }
  return cells;
}

/// What stands in backquotes.
std::vector<std::string> quoted_in(const std::string& cell) {
  std::vector<std::string> words;
  for (std::size_t at = cell.find('`'); at != std::string::npos;) {
    const std::size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    words.push_back(cell.substr(at + 1, end - at - 1));
    at = cell.find('`', end + 1);
  }
  return words;
}

/// Parameters and their defaults, as the page of `plugin` has them; an empty page for none.
std::map<std::string, std::string> parameters_on_page(const std::string& plugin) {
  std::ifstream page(WEFT_SOURCE_ROOT "/plugins/" + plugin + "/README.md");
  std::map<std::string, std::string> found;
  bool in_section = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) in_section = line == "## Parameters (section `" + plugin + "`)";
    if (!in_section || !line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() < 2) continue;
    std::string value = cells[1];
    std::erase(value, '`');
    // Words for an empty list or text.
    static const std::set<std::string> kEmpty = {"all", "none"};
    if (kEmpty.contains(value)) value.clear();
    for (const std::string& name : quoted_in(cells[0]))
      found[name] = value;
  }
  return found;
}

class PluginPage : public testing::TestWithParam<std::string> {};

TEST_P(PluginPage, HasTheParametersOfThePlugin) {
  const std::string& plugin = GetParam();
  const auto info =
      inspect_plugin(WEFT_BUILD_ROOT "/plugins/" + plugin + "/weft-" + plugin + ".so");
  ASSERT_TRUE(info) << info.error().to_string();
  std::map<std::string, std::string> carried;
  for (const PluginParameterInfo& parameter : info->parameters)
    carried[parameter.name] = parameter.default_value;
  EXPECT_FALSE(carried.empty());
  EXPECT_EQ(parameters_on_page(plugin), carried) << "plugins/" << plugin << "/README.md";
}

INSTANTIATE_TEST_SUITE_P(All, PluginPage, testing::Values("net-socket", "p2p", "shm", "tuner"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft
