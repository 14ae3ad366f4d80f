// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Machines of files from elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/topology/topology.h"

namespace weft {

/// The machine of a file that export_host() (see discover.h) or lstopo wrote, with `host_id`, or
/// one made from its host name where that is empty. Errors name the file.
///
/// Files are not trusted: after check_xml() hwloc reads them in a forked child, which may take
/// 10 s of processor time and whose death is an error as any other; what it found comes back as a
/// report of a peer would. Blocks for that long. No other thread may be needed by malloc: for
/// tools and tests.
[[nodiscard]] Result<HostInfo> import_host(const std::string& path, std::string_view host_id);

}  // namespace weft
