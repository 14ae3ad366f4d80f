// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How ranks on CUDA devices make and connect their ends: parts of arenas that a transport has open,
// promised to peers, and theirs, which are opened here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/p2p/transport.h"

namespace weft::p2p {

/// The connections of one prepare call, `made.size()` of them. [one-thread]
weft_result prepare_on_device(weft_transport* transport, const weft_connection_request* requests,
                              std::uint64_t stride,
                              std::vector<std::unique_ptr<weft_connection>>& made);

/// WEFT_IN_PROGRESS until both ends have the other's memory. [one-thread]
weft_result connect_on_device(weft_connection* connection, const weft_blob& bytes);

}  // namespace weft::p2p
