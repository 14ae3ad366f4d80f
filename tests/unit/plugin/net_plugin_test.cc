// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The wrapper of nets: full tables, stubs, and answers that are looked at.
#include "core/plugin/net_plugin.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using test::error_text;
using testing::StartsWith;

class Nets : public testing::Test {
 protected:
  void SetUp() override { folder_.add("sample"); }
  void TearDown() override { close(); }
  void close() {
    if (net_ != nullptr) plugin_->close(net_);
    net_ = nullptr;
  }
  weft_net* opened(std::string how) {
    close();
    host_ = context_.misbehaving(folder_, std::move(how));
    plugin_ = std::make_unique<NetPlugin>(NetPlugin::wrap(*host_->load("sample").value()).value());
    weft_net_open_info info{};
    info.struct_size = sizeof(info);
    return net_ = plugin_->open(info).value();
  }
  std::string devices_error(std::string how) {
    weft_net* net = opened(std::move(how));
    return error_text(plugin_->devices(net));
  }
  std::string wrap_error(const char* id) {
    folder_.add(id);
    host_ = context_.host(folder_);
    return error_text(NetPlugin::wrap(**host_->load(id)));
  }

  test::Context context_;
  test::PluginFolder folder_;
  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<NetPlugin> plugin_;
  weft_net* net_ = nullptr;
};

TEST_F(Nets, GoThroughTheirLife) {
  weft_net* net = opened("");
  const auto devices = plugin_->devices(net);
  ASSERT_TRUE(devices) << devices.error().to_string();
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ(devices->at(0).name, "none0");
  EXPECT_EQ(devices->at(0).max_message, 4096U);
  const auto listening = plugin_->listen(net, 0);
  ASSERT_TRUE(listening);
  EXPECT_EQ(listening->handle.size(), 4U);
  EXPECT_EQ(plugin_->accept(listening->listener).value(), nullptr);
  const auto connection = plugin_->connect(net, 0, listening->handle);
  ASSERT_TRUE(connection);
  EXPECT_TRUE(plugin_->ready(*connection).value());
  int word = 0;
  weft_net_register_info info{};
  info.struct_size = sizeof(info);
  info.address = &word;
  const auto registration = plugin_->register_memory(*connection, info);
  ASSERT_TRUE(registration);
  plugin_->deregister_memory(*registration);
  weft_net_request* request = nullptr;
  weft_net_send message{};
  EXPECT_EQ(plugin_->table().isend(*connection, &message, &request), WEFT_AGAIN);
  EXPECT_EQ(plugin_->arm(net).value(), 2);
  EXPECT_FALSE(plugin_->next_event(net).value());
  EXPECT_TRUE(plugin_->drain(net).value());
  EXPECT_EQ(plugin_->request_error(*connection, WEFT_ERROR_PEER).to_string(),
            "plugin sample: the peer went away");
  plugin_->abort(net);
  plugin_->close_connection(*connection);
  plugin_->close_listener(listening->listener);
}

TEST_F(Nets, MissingRequiredFunctionsAreNamed) {
  EXPECT_EQ(wrap_error("null-poll"),
            "plugin null-poll: " + folder_.file("null-poll") +
                ": its table for weft.net/1-draft.8 lacks poll; try: update the plugin");
  EXPECT_EQ(wrap_error("cut-table"),
            "plugin cut-table: " + folder_.file("cut-table") +
                ": its table for weft.net/1-draft.8 lacks poll, abort; try: update the plugin");
  EXPECT_EQ(wrap_error("tiny-table"),
            "plugin tiny-table: get_interface gave a table of 4 bytes for weft.net/1-draft.8; try: "
            "update the plugin");
}

TEST_F(Nets, ATableOfAnOlderPluginEndsEarly) {
  folder_.add("short-table");
  host_ = context_.host(folder_);
  const auto plugin = NetPlugin::wrap(**host_->load("short-table"));
  ASSERT_TRUE(plugin) << plugin.error().to_string();
  EXPECT_FALSE(plugin->has("get_error"));
  EXPECT_TRUE(plugin->has("arm"));
  std::array<char, 8> text{};
  EXPECT_EQ(plugin->table().get_error(nullptr, text.data(), text.size()), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(plugin->error(WEFT_ERROR_UNSUPPORTED, "get_error").to_string(),
            "plugin short-table: its weft.net/1-draft.8 has no get_error");
  EXPECT_EQ(plugin->request_error(nullptr, WEFT_ERROR_PEER).to_string(),
            "plugin short-table: a request failed with WEFT_ERROR_PEER and the plugin gave no "
            "reason");
  EXPECT_EQ(plugin->request_error(nullptr, WEFT_OK).to_string(),
            "plugin short-table: poll reported the status 0 for a failed request; try: update the "
            "plugin");
}

TEST_F(Nets, DevicesAreLookedAt) {
  EXPECT_EQ(devices_error("devices-none"),
            "plugin sample: devices gave none, which is an error to say why; try: update the "
            "plugin");
  EXPECT_THAT(devices_error("devices-many"),
              StartsWith("plugin sample: devices gave 18446744073709551615 devices, 112 bytes "
                         "apart, at 0x"));
  EXPECT_THAT(devices_error("device-stride"),
              StartsWith("plugin sample: devices gave 1 devices, 8 bytes apart, at 0x"));
  EXPECT_EQ(devices_error("device-small"),
            "plugin sample: devices gave a device of 8 bytes in a place of 112; try: update the "
            "plugin");
  EXPECT_EQ(devices_error("device-nameless"),
            "plugin sample: devices gave device 0 of 1 without a name; try: update the plugin");
  EXPECT_EQ(devices_error("device-of-itself"),
            "plugin sample: devices gave device 0 of 1 made of device 0; try: update the plugin");
}

TEST_F(Nets, HandlesAreBounded) {
  weft_net* net = opened("handle-empty");
  EXPECT_EQ(error_text(plugin_->listen(net, 0)),
            "plugin sample: listen gave an empty handle; try: update the plugin");
  net = opened("handle-huge");
  EXPECT_EQ(error_text(plugin_->listen(net, 0)),
            "plugin sample: listen gave 5000 bytes, and at most 4096 are allowed; try: update the "
            "plugin");
}

TEST_F(Nets, ConnectionsAreLookedAt) {
  weft_net* net = opened("connect-null");
  EXPECT_EQ(error_text(plugin_->connect(net, 0, {})),
            "plugin sample: connect gave no connection; try: update the plugin");
  net = opened("connect-fails");
  EXPECT_EQ(
      error_text(plugin_->connect(net, 0, {})),
      "plugin sample: cannot connect to 192.0.2.1 (errno 111, Connection refused); try: start "
      "the other end");
  net = opened("accept-null");
  const auto listening = plugin_->listen(net, 0).value();
  EXPECT_EQ(error_text(plugin_->accept(listening.listener)),
            "plugin sample: accept gave no connection; try: update the plugin");
  plugin_->close_listener(listening.listener);
  net = opened("ready-never");
  auto* connection = plugin_->connect(net, 0, {}).value();
  EXPECT_FALSE(plugin_->ready(connection).value());
  plugin_->close_connection(connection);
  net = opened("register-null");
  connection = plugin_->connect(net, 0, {}).value();
  weft_net_register_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(error_text(plugin_->register_memory(connection, info)),
            "plugin sample: register_memory gave no registration; try: update the plugin");
  plugin_->close_connection(connection);
}

TEST_F(Nets, SleepAndEvents) {
  weft_net* net = opened("arm-again");
  EXPECT_EQ(plugin_->arm(net).value(), std::nullopt);
  net = opened("arm-none");
  EXPECT_EQ(error_text(plugin_->arm(net)),
            "plugin sample: arm gave the descriptor -1; try: update the plugin");
  net = opened("event");
  const auto event = plugin_->next_event(net).value();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, WEFT_NET_EVENT_PORT_DOWN);
  EXPECT_EQ(event->text, "none0 is down");
}

}  // namespace
}  // namespace weft
