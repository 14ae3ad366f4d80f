// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Slurm's node lists: "login,node[01-03,7],rack[0-1]n[2-4]" (slurm.conf(5), NodeName).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// The first node that `list` names: "login" of the one above, "node01" of "node[01-03,7]". Nothing
/// for what is no node list, or names a host in more than 253 characters. Only what stands before
/// the first node's end is looked at.
[[nodiscard]] std::optional<std::string> first_node(std::string_view list);

}  // namespace weft
