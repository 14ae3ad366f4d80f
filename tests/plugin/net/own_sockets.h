// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sockets that net-socket has made in this process, found from outside of it.
#pragma once

#include <linux/tcp.h>
#include <set>

namespace weft::test {

/// This process's sockets of IPv4 and IPv6, whatever they are for, without those before.
[[nodiscard]] std::set<int> own_sockets(const std::set<int>& before = {});
/// Those of them that have a peer.
[[nodiscard]] std::set<int> own_connections(const std::set<int>& before = {});

/// Nothing reaches these any more, as if the cable between two hosts were cut.
void cut(const std::set<int>& sockets);
/// Ends what cut() began.
void mend(const std::set<int>& sockets);

[[nodiscard]] tcp_info info_of(int fd);

}  // namespace weft::test
