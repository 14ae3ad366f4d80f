// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the header net.h promises of every net, part 1: the entry, instances, devices, and the life
// of a connection.
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/plugin/net/net_rank.h"

namespace weft::test {
namespace {

template <std::size_t kSize>
void expect_padded_text(const char (&text)[kSize]) {
  const std::size_t length = ::strnlen(text, kSize);
  ASSERT_LT(length, kSize) << "the text has no end";
  for (std::size_t i = length; i < kSize; ++i)
    EXPECT_EQ(text[i], 0) << "byte " << i;
}

TEST(NetEntry, DescribesItselfWithoutRunning) {
  const weft_plugin_descriptor& entry = plugin_under_test();
  EXPECT_EQ(entry.magic, WEFT_PLUGIN_MAGIC);
  EXPECT_GE(entry.struct_size, sizeof(weft_plugin_descriptor));
  EXPECT_EQ(entry.draft, static_cast<std::uint32_t>(WEFT_PLUGIN_DRAFT));
  EXPECT_LE(entry.abi_oldest, entry.abi_version);
  expect_padded_text(entry.id);
  expect_padded_text(entry.version);
  expect_padded_text(entry.vendor);
  expect_padded_text(entry.description);
  EXPECT_STRNE(entry.id, "");
  ASSERT_NE(entry.init, nullptr);
  ASSERT_NE(entry.deinit, nullptr);
  ASSERT_NE(entry.get_interface, nullptr);
}

TEST(NetEntry, ListsTheNetInterface) {
  const weft_plugin_descriptor& entry = plugin_under_test();
  bool found = false;
  ASSERT_GE(entry.interface_stride, sizeof(weft_interface));
  for (std::uint32_t i = 0; i < entry.interface_count; ++i) {
    const auto* interface = reinterpret_cast<const weft_interface*>(
        reinterpret_cast<const unsigned char*>(entry.interfaces) +
        std::size_t{i} * entry.interface_stride);
    EXPECT_GE(interface->struct_size, sizeof(weft_interface));
    found |= std::strcmp(interface->id, WEFT_NET_INTERFACE) == 0;
  }
  EXPECT_TRUE(found);
}

TEST(NetEntry, HasAReadableParameterTable) {
  const weft_plugin_descriptor& entry = plugin_under_test();
  for (std::uint32_t i = 0; i < entry.parameter_count; ++i) {
    const auto* parameter = reinterpret_cast<const weft_parameter*>(
        reinterpret_cast<const unsigned char*>(entry.parameters) +
        std::size_t{i} * entry.parameter_stride);
    ASSERT_GE(parameter->struct_size, sizeof(weft_parameter));
    const std::string name = parameter->name;
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
    EXPECT_STRNE(parameter->help, "") << name;
    ASSERT_NE(parameter->unit, nullptr) << name;
    const ParameterValue value = parse_parameter(parameter->type, parameter->default_value);
    if (parameter->type == WEFT_PARAMETER_INTEGER || parameter->type == WEFT_PARAMETER_BYTES) {
      EXPECT_GE(value.number, parameter->minimum) << name;
      EXPECT_LE(value.number, parameter->maximum) << name;
    }
  }
}

TEST(NetEntry, RefusesInterfacesItDoesNotHave) {
  FakeHost host;
  host.use_defaults(plugin_under_test());
  weft_plugin* plugin = nullptr;
  ASSERT_EQ(plugin_under_test().init(host.services(), &plugin), WEFT_OK);
  EXPECT_EQ(plugin_under_test().get_interface(plugin, "weft.nothing/9"), nullptr);
  plugin_under_test().deinit(plugin);
}

TEST(NetTable, HasEveryEntryThatIsNotOptional) {
  NetRank rank;
  ASSERT_EQ(rank.opened(), WEFT_OK) << rank.host().last_error().what;
  const weft_net_interface& api = rank.api();
  EXPECT_GE(api.struct_size, sizeof(weft_net_interface));
  EXPECT_NE(api.close, nullptr);
  EXPECT_NE(api.devices, nullptr);
  EXPECT_NE(api.listen, nullptr);
  EXPECT_NE(api.close_listener, nullptr);
  EXPECT_NE(api.connect, nullptr);
  EXPECT_NE(api.accept, nullptr);
  EXPECT_NE(api.ready, nullptr);
  EXPECT_NE(api.close_connection, nullptr);
  EXPECT_NE(api.register_memory, nullptr);
  EXPECT_NE(api.deregister_memory, nullptr);
  EXPECT_NE(api.isend, nullptr);
  EXPECT_NE(api.irecv, nullptr);
  EXPECT_NE(api.poll, nullptr);
  EXPECT_NE(api.abort, nullptr);
}

TEST(NetDevices, AreDescribedInFull) {
  NetRank rank;
  const weft_net_device* devices = nullptr;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  ASSERT_EQ(rank.api().devices(rank.net(), &devices, &stride, &count), WEFT_OK)
      << rank.host().last_error().what;
  ASSERT_GE(count, 1U);
  ASSERT_GE(stride, sizeof(weft_net_device));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto* device = reinterpret_cast<const weft_net_device*>(
        reinterpret_cast<const unsigned char*>(devices) + i * stride);
    EXPECT_GE(device->struct_size, sizeof(weft_net_device));
    ASSERT_NE(device->name, nullptr);
    EXPECT_STRNE(device->name, "");
    ASSERT_NE(device->pci_path, nullptr);
    EXPECT_NE(
        device->capabilities & (WEFT_NET_HOST_MEMORY | WEFT_NET_CUDA_MEMORY | WEFT_NET_DMABUF), 0U);
    EXPECT_GE(device->max_receives, 1U);
    EXPECT_GE(device->max_requests, 1U);
    EXPECT_GE(device->max_message, 1U << 20);
    EXPECT_EQ(device->member_count == 0, device->members == nullptr);
    if ((device->capabilities & WEFT_NET_CAN_SLEEP) != 0) {
      EXPECT_NE(rank.api().arm, nullptr);
    }
  }
}

TEST(NetDevices, RefuseAnIndexBeyondTheLast) {
  NetRank rank;
  rank.device();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  EXPECT_LT(rank.api().listen(rank.net(), 100000, &handle, &listener), 0);
  EXPECT_EQ(listener, nullptr);
  EXPECT_NE(rank.host().last_error().what, "");
}

TEST(NetInstances, ShareNothing) {
  auto first = std::make_unique<NetRank>();
  NetRank second;
  NetRank third;
  {
    Link link = make_link(*first, second);
    EXPECT_NE(link.sender.get(), nullptr);
  }
  first.reset();
  Link link = make_link(second, third);
  const Bytes data = pattern(100, 1);
  Bytes room(100);
  link.receiver.must_receive(link.sender, room, 1);
  link.sender.must_send(link.receiver, data, 2);
  EXPECT_EQ(await(third, second, 1).status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetListener, GivesASmallHandleAndWaitsWithoutBlocking) {
  NetRank rank;
  rank.device();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(rank.api().listen(rank.net(), 0, &handle, &listener), WEFT_OK);
  EXPECT_GE(handle.size, 1U);
  EXPECT_LE(handle.size, 4096U);
  weft_net_connection* connection = nullptr;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(rank.api().accept(listener, &connection), WEFT_IN_PROGRESS);
  }
  EXPECT_EQ(connection, nullptr);
  rank.api().close_listener(listener);
}

TEST(NetConnect, DoesNotBlockWhileNobodyAccepts) {
  NetRank rank;
  NetRank peer;
  rank.device();
  peer.device();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(peer.api().listen(peer.net(), 0, &handle, &listener), WEFT_OK);
  weft_net_connection* connection = nullptr;
  ASSERT_GE(rank.api().connect(rank.net(), 0, handle, &connection), WEFT_OK);
  ASSERT_NE(connection, nullptr);
  for (int i = 0; i < 100; ++i)
    EXPECT_GE(rank.api().ready(connection), WEFT_OK);
  rank.api().close_connection(connection);
  peer.api().close_listener(listener);
}

TEST(NetConnect, EndsWithAnErrorForAHandleThatIsNone) {
  NetRank rank;
  rank.device();
  for (const std::size_t size : {0U, 1U, 4U, 16U, 28U, 48U, 128U, 300U, 4096U}) {
    const Bytes garbage = pattern(size, size);
    weft_net_connection* connection = nullptr;
    weft_result result =
        rank.api().connect(rank.net(), 0, {garbage.data(), garbage.size()}, &connection);
    // What a peer said, not what this rank did.
    if (result < 0) {
      EXPECT_EQ(result, WEFT_ERROR_PEER) << "a handle of " << size << " random bytes";
    }
    if (result >= 0) {
      ASSERT_NE(connection, nullptr);
      EXPECT_TRUE(eventually([&] {
        result = rank.api().ready(connection);
        return result < 0;
      })) << "a handle of "
          << size << " random bytes";
      rank.api().close_connection(connection);
    }
    EXPECT_LT(result, 0);
    EXPECT_NE(rank.host().last_error().what, "");
  }
}

TEST(NetConnect, LearnsThatTheListenerIsGone) {
  NetRank rank;
  NetRank peer;
  rank.device();
  peer.device();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(peer.api().listen(peer.net(), 0, &handle, &listener), WEFT_OK);
  const auto* bytes = static_cast<const std::uint8_t*>(handle.data);
  const Bytes kept(bytes, bytes + handle.size);
  peer.api().close_listener(listener);

  weft_net_connection* connection = nullptr;
  weft_result result = rank.api().connect(rank.net(), 0, {kept.data(), kept.size()}, &connection);
  if (result >= 0) {
    EXPECT_TRUE(eventually([&] {
      result = rank.api().ready(connection);
      return result < 0;
    }));
    rank.api().close_connection(connection);
  }
  EXPECT_LT(result, 0);
}

TEST(NetListener, MayCloseOnceItHasAccepted) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);  // closes the listener
  const Bytes data = pattern(5000, 3);
  Bytes room(5000);
  link.receiver.must_receive(link.sender, room, 1);
  link.sender.must_send(link.receiver, data, 2);
  EXPECT_EQ(await(b, a, 1).status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetLife, LeavesNoDescriptor) {
  const auto cycle = [] {
    NetRank a;
    NetRank b;
    Link there = make_link(a, b);
    Link back = make_link(b, a);
    const Bytes data = pattern(300000, 5);
    Bytes room(300000);
    there.receiver.must_receive(there.sender, room, 1);
    there.sender.must_send(there.receiver, data, 2);
    EXPECT_EQ(await(b, a, 1).status, WEFT_OK);
    EXPECT_EQ(room, data);
    // Closed in the middle of things: a receive that never ends, a listener that nobody used.
    back.receiver.must_receive(back.sender, room, 3);
    weft_blob handle{};
    weft_net_listener* listener = nullptr;
    ASSERT_EQ(a.api().listen(a.net(), 0, &handle, &listener), WEFT_OK);
    a.api().close_listener(listener);
  };
  cycle();  // what is opened once for the process may stay
  const std::size_t before = open_descriptors();
  cycle();
  cycle();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace weft::test
