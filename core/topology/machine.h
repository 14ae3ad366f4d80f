// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A machine as hwloc sees it: this one or one of an XML file, turned into plain data, or written
// to such a file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <hwloc.h>

#include "core/base/error.h"
#include "core/topology/topology.h"

namespace weft {

struct DestroyMachine {
  void operator()(hwloc_topology_t machine) const { hwloc_topology_destroy(machine); }
};
using Machine = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyMachine>;

/// This machine, also the part that this process may not use: a description that differed between
/// processes with different affinities could not be compared. Takes some 30 ms.
[[nodiscard]] Result<Machine> load_machine();
/// The machine of a text that hwloc (lstopo) or export_machine() wrote. hwloc's parser crashes on
/// some texts that it did not write: import_host() is for foreign ones.
[[nodiscard]] Result<Machine> parse_machine(std::string_view xml);

/// Processors, memory and PCI trees into `host`. NUMA nodes of host bridges come from hwloc, which
/// tells nothing on a machine with one node.
void describe_machine(const Machine& machine, HostInfo& host);
/// The network interfaces that hang on PCI devices; for a machine of a file. Speed, state
/// and addresses are known only if export_machine() wrote it.
[[nodiscard]] std::vector<NicInfo> machine_nics(const Machine& machine);
/// The host name that a file holds; empty where it holds none.
[[nodiscard]] std::string machine_name(const Machine& machine);

/// hwloc's XML of `machine`, with what `nics` knows beyond it, as information of the names
/// "WeftSpeedMbps", "WeftState" ("up", "down") and "WeftAddresses" (between blanks).
[[nodiscard]] Result<std::string> export_machine(const Machine& machine,
                                                 std::span<const NicInfo> nics);

}  // namespace weft
