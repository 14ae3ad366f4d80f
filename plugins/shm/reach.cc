// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which ranks share memory with this one, and why others do not.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>

#include "plugins/shm/transport.h"

namespace weft::shm {
namespace {

std::string user_text(std::uint64_t user) {
  return "user " + std::to_string(user);
}

/// Why the two cannot share memory; empty if they can.
std::string obstacle(const weft_transport& transport, const weft_peer& peer, PeerInfo* theirs) {
  const std::string name = "rank " + std::to_string(peer.rank);
  if (peer.same_host == 0) return "other host";
  if (peer.info.size != sizeof(*theirs) || peer.info.data == nullptr) {
    return "peer information of " + name + " has " + std::to_string(peer.info.size) +
           " bytes instead of " + std::to_string(sizeof(*theirs)) +
           ": another version of this plugin?";
  }
  std::memcpy(static_cast<void*>(theirs), peer.info.data, sizeof(*theirs));
  if (theirs->magic != kPeerInfoMagic || theirs->rank != peer.rank ||
      !transport.key.verify(theirs->mac, {signed_part(*theirs)})) {
    return "peer information of " + name + " is damaged or made with another secret";
  }
  const PeerInfo& own = transport.info;
  if (theirs->host_hash != own.host_hash) {
    // Whether or not it ends.
    const std::string_view room(theirs->host.data(), theirs->host.size());
    return "other host (" + std::string(room.substr(0, room.find('\0'))) + ")";
  }
  if (theirs->process.boot_id != own.process.boot_id) {
    return "same host id, but another running kernel: two hosts with one WEFT_HOST_ID?";
  }
  if (theirs->network_namespace != own.network_namespace) {
    return "other network namespace, which Unix sockets do not cross";
  }
  if (theirs->user_namespace != own.user_namespace) return "other user namespace";
  if (theirs->user != own.user) {
    return name + " runs as " + user_text(theirs->user) + ", this one as " + user_text(own.user);
  }
  return {};
}

/// Why this rank cannot read the other's memory, with which it shares a host; empty if it can.
std::string obstacle_to_single_copy(const weft_transport& transport, const PeerInfo& theirs) {
  // A pid means another process there, or none.
  if (theirs.process.pid_namespace != transport.info.process.pid_namespace) {
    return "other pid namespace";
  }
  return obstacle_to_reading(theirs.process, theirs.probe_address, theirs.probe.data(),
                             theirs.probe.size());
}

}  // namespace

PeerInfo describe_self(const weft_transport& transport, const char* host_id) {
  const std::string_view host = host_id;
  PeerInfo info;
  info.magic = kPeerInfoMagic;
  info.rank = transport.rank;
  info.process = plugins::this_process();
  info.network_namespace = plugins::namespace_inode("net");
  info.user_namespace = plugins::namespace_inode("user");
  info.user = ::geteuid();
  info.probe_address = std::bit_cast<std::uint64_t>(transport.probe.data());
  info.probe = transport.probe;
  info.host_hash = transport.key.sign({std::as_bytes(std::span(host))});
  std::copy_n(host.begin(), std::min(host.size(), info.host.size() - 1), info.host.begin());
  info.mac = transport.key.sign({signed_part(info)});
  return info;
}

weft_result judge_peer(const weft_transport& transport, const weft_peer& peer,
                       weft_can_connect* out) {
  PeerInfo theirs;
  std::string reason = obstacle(transport, peer, &theirs);
  weft_can_connect answer{};
  answer.locality = WEFT_LOCALITY_HOST;
  if (reason.empty()) {
    answer.capabilities = WEFT_TRANSPORT_CAN_CONNECT;
    const std::string unread = obstacle_to_single_copy(transport, theirs);
    if (unread.empty()) answer.capabilities |= WEFT_TRANSPORT_SINGLE_COPY;
    reason =
        unread.empty() ? "same host, single copy possible" : "same host, no single copy: " + unread;
  }
  reason.copy(answer.reason, sizeof(answer.reason) - 1);
  plugins::write_out(answer, out);
  return WEFT_OK;
}

}  // namespace weft::shm
