// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a transport says about itself and about its peers, and what it refuses.
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

TEST_F(TransportTest, EntryIsComplete) {
  EXPECT_EQ(entry->magic, WEFT_PLUGIN_MAGIC);
  EXPECT_EQ(entry->struct_size, sizeof(weft_plugin_descriptor));
  EXPECT_EQ(entry->draft, WEFT_PLUGIN_DRAFT);
  EXPECT_EQ(entry->abi_version, WEFT_PLUGIN_ABI_VERSION);
  EXPECT_LE(entry->abi_oldest, entry->abi_version);
  EXPECT_EQ("weft-" + std::string(entry->id) + ".so",
            std::filesystem::path(plugin_path()).filename().string());
  EXPECT_STRNE(entry->version, "");
  EXPECT_STRNE(entry->vendor, "");
  EXPECT_STRNE(entry->description, "");
  for (std::uint32_t i = 0; i < entry->parameter_count; ++i) {
    const auto& parameter =
        *reinterpret_cast<const weft_parameter*>(reinterpret_cast<const char*>(entry->parameters) +
                                                 std::size_t{i} * entry->parameter_stride);
    EXPECT_EQ(parameter.struct_size, sizeof(weft_parameter));
    EXPECT_STRNE(parameter.name, "");
    EXPECT_STRNE(parameter.help, "");
    EXPECT_LE(parameter.minimum, parameter.maximum) << parameter.name;
  }
}

TEST_F(TransportTest, OffersTheInterfaceThatItLists) {
  ASSERT_EQ(entry->interface_count, 1U);
  EXPECT_STREQ(entry->interfaces->id, WEFT_TRANSPORT_INTERFACE);
  EXPECT_EQ(entry->get_interface(left->plugin(), "weft.net/1-draft.8"), nullptr);
  const weft_transport_interface& table = left->table();
  EXPECT_EQ(table.struct_size, sizeof(weft_transport_interface));
  EXPECT_NE(table.open, nullptr);
  EXPECT_NE(table.close, nullptr);
  EXPECT_NE(table.peer_info, nullptr);
  EXPECT_NE(table.can_connect, nullptr);
  EXPECT_NE(table.prepare, nullptr);
  EXPECT_NE(table.connection_blob, nullptr);
  EXPECT_NE(table.connect, nullptr);
  EXPECT_NE(table.describe, nullptr);
  EXPECT_NE(table.close_connection, nullptr);
  EXPECT_NE(table.abort, nullptr);
}

TEST_F(TransportTest, OpenRefusesIncompleteInformation) {
  const Key key = default_key();
  weft_transport_open_info info{};
  info.struct_size = sizeof(info);
  info.rank = 2;
  info.ranks = 2;
  info.key = key.data();
  info.key_size = key.size();
  info.host_id = "h";
  auto* const untouched = reinterpret_cast<weft_transport*>(&info);
  weft_transport* out = untouched;
  const std::uint64_t before = left->host().error_count();
  EXPECT_EQ(left->table().open(left->plugin(), &info, &out), WEFT_ERROR_INVALID_ARGUMENT);
  info.rank = 0;
  info.struct_size = offsetof(weft_transport_open_info, communicator);
  EXPECT_EQ(left->table().open(left->plugin(), &info, &out), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(out, untouched);
  EXPECT_EQ(left->host().error_count(), before + 2);
}

TEST_F(TransportTest, ConnectsToItsLike) {
  const Bytes info = right->peer_info();
  EXPECT_LE(info.size(), 64U * 1024);
  const weft_can_connect answer = left->can_connect(1, info);
  EXPECT_NE(answer.capabilities & WEFT_TRANSPORT_CAN_CONNECT, 0U) << answer.reason;
  EXPECT_STRNE(answer.reason, "");
  EXPECT_EQ(info, right->peer_info());
}

TEST_F(TransportTest, SaysNoWithAReason) {
  const weft_can_connect answer = left->can_connect(1, right->peer_info(), false, false);
  EXPECT_EQ(answer.capabilities, 0U);
  EXPECT_TRUE(std::string_view(answer.reason).starts_with("other ")) << answer.reason;
}

TEST_F(TransportTest, RefusesDamagedPeerInformation) {
  const Bytes info = right->peer_info();
  for (std::size_t size = 0; size < info.size(); size += 5) {
    const Bytes shorter(info.begin(), info.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(left->can_connect(1, shorter).capabilities, 0U);
  }
  for (std::size_t i = 0; i < info.size(); ++i) {
    Bytes damaged = info;
    damaged[i] ^= static_cast<std::uint8_t>(1U << (i % 8));
    EXPECT_EQ(left->can_connect(1, damaged).capabilities, 0U) << "byte " << i;
  }
  Bytes longer = info;
  longer.push_back(0);
  EXPECT_EQ(left->can_connect(1, longer).capabilities, 0U);
}

TEST_F(TransportTest, WritesOnlyWhatTheCallerKnows) {
  const Bytes info = right->peer_info();
  weft_peer peer{};
  peer.struct_size = sizeof(peer);
  peer.rank = 1;
  peer.same_process = 1;
  peer.same_host = 1;
  peer.info = as_blob(info);
  weft_can_connect answer{};
  std::memset(static_cast<void*>(&answer), 0x5A, sizeof(answer));
  answer.struct_size = offsetof(weft_can_connect, bandwidth_mbps);
  ASSERT_EQ(left->table().can_connect(left->transport(), &peer, &answer), WEFT_OK);
  EXPECT_EQ(answer.struct_size, offsetof(weft_can_connect, bandwidth_mbps));
  EXPECT_EQ(answer.bandwidth_mbps, UINT64_C(0x5A5A5A5A5A5A5A5A));

  const Pair pair = connected(1);
  weft_protocol_view view{};
  std::memset(static_cast<void*>(&view), 0x5A, sizeof(view));
  view.struct_size = offsetof(weft_protocol_view, head);
  ASSERT_EQ(left->table().describe(pair.send, WEFT_PROTOCOL_SIMPLE, &view), WEFT_OK);
  EXPECT_EQ(view.struct_size, offsetof(weft_protocol_view, head));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.head), UINT64_C(0x5A5A5A5A5A5A5A5A));
  close(pair);
}

struct BadRequest {
  const char* name;
  void (*spoil)(weft_connection_request*, weft_protocol_request*);
  weft_result code = WEFT_ERROR_INVALID_ARGUMENT;
};

class BadRequestTest : public TransportTest, public testing::WithParamInterface<BadRequest> {};

// The first request of the batch is good: all or none.
TEST_P(BadRequestTest, IsRefusedWithTheWholeBatch) {
  const std::uint64_t descriptors = count_descriptors();
  for (const weft_direction direction : {WEFT_DIRECTION_RECV, WEFT_DIRECTION_SEND}) {
    std::array<weft_protocol_request, 4> protocols{};
    for (weft_protocol_request& one : protocols) {
      one = {sizeof(weft_protocol_request), WEFT_PROTOCOL_SIMPLE, 8, 4096};
    }
    protocols[3].protocol = WEFT_PROTOCOL_LL;
    std::array<weft_connection_request, 2> requests{};
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].struct_size = sizeof(weft_connection_request);
      requests[i].direction = direction;
      requests[i].peer = 0;
      requests[i].number = i;
      requests[i].protocols = &protocols[2 * i];
      requests[i].protocol_count = 1;
      requests[i].protocol_stride = sizeof(weft_protocol_request);
    }
    GetParam().spoil(&requests[1], &protocols[2]);
    auto* const untouched = reinterpret_cast<weft_connection*>(&requests);
    std::array<weft_connection*, 2> out = {untouched, untouched};
    const std::uint64_t errors = right->host().error_count();
    EXPECT_EQ(right->table().prepare(right->transport(), requests.data(),
                                     sizeof(weft_connection_request), 2, out.data()),
              GetParam().code);
    EXPECT_EQ(out[0], untouched);
    EXPECT_EQ(out[1], untouched);
    EXPECT_EQ(right->host().error_count(), errors + 1);
    EXPECT_EQ(right->host().last_error().code, GetParam().code);
  }
  EXPECT_EQ(count_descriptors(), descriptors);
}

using Request = weft_connection_request;
using Wanted = weft_protocol_request;

INSTANTIATE_TEST_SUITE_P(
    Table, BadRequestTest,
    testing::Values(
        BadRequest{"short_request", [](Request* r, Wanted*) { r->struct_size = 16; }},
        BadRequest{"short_protocol", [](Request*, Wanted* p) { p->struct_size = 8; }},
        BadRequest{"direction", [](Request* r, Wanted*) { r->direction = 7; }},
        BadRequest{"peer", [](Request* r, Wanted*) { r->peer = 2; }},
        BadRequest{"no_protocol", [](Request* r, Wanted*) { r->protocol_count = 0; }},
        BadRequest{"null_protocols", [](Request* r, Wanted*) { r->protocols = nullptr; }},
        BadRequest{"many_protocols", [](Request* r, Wanted*) { r->protocol_count = 4; }},
        BadRequest{"unknown_protocol", [](Request*, Wanted* p) { p->protocol = 9; },
                   WEFT_ERROR_UNSUPPORTED},
        BadRequest{"twice",
                   [](Request* r, Wanted* p) {
                     r->protocol_count = 2;
                     p[1].protocol = p[0].protocol;
                   }},
        BadRequest{"no_steps", [](Request*, Wanted* p) { p->steps = 0; }},
        BadRequest{"odd_steps", [](Request*, Wanted* p) { p->steps = 6; }},
        BadRequest{"no_bytes", [](Request*, Wanted* p) { p->step_bytes = 0; }},
        BadRequest{"odd_bytes", [](Request*, Wanted* p) { p->step_bytes = 130; }},
        BadRequest{"huge",
                   [](Request*, Wanted* p) {
                     p->steps = 1U << 31U;
                     p->step_bytes = 1U << 31U;
                   }}),
    [](const testing::TestParamInfo<BadRequest>& info) { return info.param.name; });

}  // namespace
}  // namespace weft::test
