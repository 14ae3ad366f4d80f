// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What shm makes of the words of a peer that knows the secret, and is mad.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/shm/transport.h"
#include "tests/support/fake_host.h"

namespace weft::shm {
namespace {

TEST(ShmReach, AHostNameThatDoesNotEndEndsWithItsRoom) {
  const test::FakeHost host;
  weft_plugin plugin(host.services());
  weft_transport transport(&plugin);
  const std::vector<std::uint8_t> secret(32, 7);
  transport.key = Key(secret);
  transport.info = describe_self(transport, "here");
  PeerInfo said = describe_self(transport, "there");
  said.host.fill('x');
  said.mac = transport.key.sign({signed_part(said)});
  weft_peer peer{};
  peer.struct_size = sizeof(peer);
  peer.same_host = 1;
  peer.info = {.data = &said, .size = sizeof(said)};
  weft_can_connect answer{};
  answer.struct_size = sizeof(answer);
  ASSERT_EQ(judge_peer(transport, peer, &answer), WEFT_OK);
  EXPECT_EQ(answer.capabilities, 0U);
  EXPECT_EQ(std::string(answer.reason), "other host (" + std::string(said.host.size(), 'x') + ")");
}

}  // namespace
}  // namespace weft::shm
