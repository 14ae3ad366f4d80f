// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The wrapper of transports: full tables, stubs, and answers that are looked at.
#include "core/plugin/transport_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using test::error_text;
using testing::StartsWith;

class Transports : public testing::Test {
 protected:
  /// Opens the fixture's transport, doing wrong what `how` says.
  void open(std::string how, const char* id = "sample") {
    std::filesystem::remove(folder_.file(id));
    folder_.add(id);
    host_ = context_.misbehaving(folder_, std::move(how));
    plugin_ =
        std::make_unique<TransportPlugin>(TransportPlugin::wrap(*host_->load(id).value()).value());
    info_.struct_size = sizeof(info_);
  }
  weft_transport* opened(std::string how) {
    open(std::move(how));
    return transport_ = plugin_->open(info_).value();
  }
  void TearDown() override {
    if (transport_ != nullptr) plugin_->close(transport_);
  }
  /// What the plugin's answer to can_connect is turned into.
  Result<PairAnswer> pair(std::string how) {
    weft_transport* transport = opened(std::move(how));
    auto answer = plugin_->can_connect(transport, peer_);
    plugin_->close(transport);
    transport_ = nullptr;
    return answer;
  }
  Result<weft_protocol_view> view(std::string how) {
    weft_transport* transport = opened(std::move(how));
    auto connections = plugin_->prepare(transport, std::span(&request_, 1)).value();
    auto described = plugin_->describe(connections[0], asked_);
    plugin_->close_connection(connections[0]);
    plugin_->close(transport);
    transport_ = nullptr;
    return described;
  }

  test::Context context_;
  test::PluginFolder folder_;
  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<TransportPlugin> plugin_;
  weft_transport_open_info info_{};
  weft_transport* transport_ = nullptr;
  weft_peer peer_{sizeof(weft_peer), 1, 0, 1, {nullptr, 0}};
  weft_protocol_request asked_{sizeof(weft_protocol_request), WEFT_PROTOCOL_SIMPLE, 8, 128};
  weft_connection_request request_{
      sizeof(weft_connection_request), WEFT_DIRECTION_SEND, 1, 0, 7, &asked_, 1,
      sizeof(weft_protocol_request)};
};

TEST_F(Transports, GoThroughTheirLife) {
  weft_transport* transport = opened("");
  const auto info = plugin_->peer_info(transport);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size(), 4U);
  const auto pair = plugin_->can_connect(transport, peer_);
  ASSERT_TRUE(pair);
  EXPECT_FALSE(pair->can_connect());
  EXPECT_EQ(pair->reason, "reaches nobody");
  const auto connections = plugin_->prepare(transport, std::span(&request_, 1));
  ASSERT_TRUE(connections);
  const auto blob = plugin_->connection_blob(connections->at(0));
  ASSERT_TRUE(blob);
  EXPECT_EQ(blob->size(), 8U);
  const weft_blob peer{blob->data(), blob->size()};
  EXPECT_TRUE(plugin_->connect(transport, *connections, std::span(&peer, 1)).value());
  const auto described = plugin_->describe(connections->at(0), asked_);
  ASSERT_TRUE(described) << described.error().to_string();
  EXPECT_EQ(described->steps, 8U);
  std::uint32_t done = 0;
  EXPECT_EQ(plugin_->table().progress(transport, 5, &done), WEFT_OK);
  EXPECT_EQ(done, 5U);
  EXPECT_TRUE(plugin_->drain(transport).value());
  plugin_->abort(transport, 1);
  plugin_->close_connection(connections->at(0));
}

TEST_F(Transports, MissingOptionalFunctionsRefuse) {
  weft_transport* transport = opened("");
  EXPECT_FALSE(plugin_->has("read_peer"));
  EXPECT_TRUE(plugin_->has("progress"));
  std::int32_t descriptor = -1;
  const weft_result result = plugin_->table().arm(transport, &descriptor);
  EXPECT_EQ(result, WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(plugin_->error(result, "arm").to_string(),
            "plugin sample: its weft.transport/1-draft.8 has no arm");
  std::byte byte{};
  EXPECT_EQ(error_text(plugin_->read_peer(nullptr, std::span(&byte, 1), 0)),
            "plugin sample: its weft.transport/1-draft.8 has no read_peer");
  weft_shared_buffer* buffer = nullptr;
  EXPECT_EQ(plugin_->table().export_buffer(transport, &byte, 1, nullptr, &buffer),
            WEFT_ERROR_UNSUPPORTED);
  plugin_->table().release_buffer(transport, nullptr);
}

TEST_F(Transports, ATableOfAnOlderPluginEndsEarly) {
  // It ends in the middle of drain: neither that one nor what follows may be read.
  open("", "short-table");
  EXPECT_FALSE(plugin_->has("drain"));
  EXPECT_FALSE(plugin_->has("read_peer"));
  EXPECT_TRUE(plugin_->has("progress"));
  transport_ = plugin_->open(info_).value();
  EXPECT_EQ(plugin_->table().drain(transport_), WEFT_ERROR_UNSUPPORTED);
  EXPECT_TRUE(plugin_->drain(transport_).value());
}

TEST_F(Transports, ExportsWithoutReleaseAreRefused) {
  folder_.add("no-release");
  host_ = context_.host(folder_);
  const auto plugin = host_->load("no-release");
  ASSERT_TRUE(plugin);
  EXPECT_EQ(error_text(TransportPlugin::wrap(**plugin)),
            "plugin no-release: " + folder_.file("no-release") +
                ": its table for weft.transport/1-draft.8 lacks release_buffer; try: update the "
                "plugin");
}

TEST_F(Transports, PluginsWithoutATransportAreRefused) {
  folder_.add("sample-two");
  host_ = context_.host(folder_);
  EXPECT_EQ(error_text(TransportPlugin::wrap(**host_->load("sample-two"))),
            "plugin sample-two: does not offer weft.transport/1-draft.8; try: another plugin; weft "
            "plugin list shows what each offers");
  folder_.add("sample");
  host_ = context_.misbehaving(folder_, "no-table");
  EXPECT_EQ(error_text(TransportPlugin::wrap(**host_->load("sample"))),
            "plugin sample: get_interface gave no table for weft.transport/1-draft.8, which the "
            "plugin lists; try: update the plugin");
}

TEST_F(Transports, ErrorsCarryWhatThePluginSaid) {
  open("open-fails");
  const auto transport = plugin_->open(info_);
  EXPECT_EQ(
      error_text(transport),
      "plugin sample: cannot reach the fabric (errno 111, Connection refused); try: start the "
      "other end");
  EXPECT_EQ(transport.error().code(), WEFT_ERROR_NETWORK);
  EXPECT_EQ(transport.error().source(), ErrorSource::kErrno);
}

TEST_F(Transports, WrongAnswersAreThePluginsDefect) {
  const auto answer = [&](std::string how) {
    open(std::move(how));
    return error_text(plugin_->open(info_));
  };
  EXPECT_EQ(answer("open-null"), "plugin sample: open gave no transport; try: update the plugin");
  EXPECT_EQ(answer("open-positive"),
            "plugin sample: open answered WEFT_AGAIN, which it must not; try: update the plugin");
  EXPECT_EQ(answer("open-unknown"),
            "plugin sample: open answered -99, which is no result; try: update the plugin");
  EXPECT_EQ(answer("open-silent"),
            "plugin sample: open failed with WEFT_ERROR_SYSTEM and gave no reason");
}

TEST_F(Transports, BlobsAreBounded) {
  weft_transport* transport = opened("peer-info-huge");
  EXPECT_EQ(error_text(plugin_->peer_info(transport)),
            "plugin sample: peer_info gave 18446744073709551615 bytes, and at most 65536 are "
            "allowed; try: update the plugin");
  plugin_->close(transport);
  transport = opened("peer-info-null");
  EXPECT_EQ(error_text(plugin_->peer_info(transport)),
            "plugin sample: peer_info gave 4 bytes at NULL; try: update the plugin");
  plugin_->close(transport);
  transport = opened("blob-huge");
  const auto connections = plugin_->prepare(transport, std::span(&request_, 1)).value();
  EXPECT_EQ(error_text(plugin_->connection_blob(connections[0])),
            "plugin sample: connection_blob gave 24577 bytes, and at most 24576 are allowed; "
            "try: update the plugin");
  plugin_->close_connection(connections[0]);
}

TEST_F(Transports, PairAnswersAreLookedAt) {
  EXPECT_EQ(error_text(pair("reason-endless")),
            "plugin sample: can_connect gave a reason that does not end; try: update the plugin");
  EXPECT_EQ(error_text(pair("reason-none")),
            "plugin sample: can_connect said no and gave no reason; try: update the plugin");
  EXPECT_EQ(error_text(pair("locality-unknown")),
            "plugin sample: can_connect gave the locality 17, which is none; try: update the "
            "plugin");
}

TEST_F(Transports, HalfAPreparationIsTakenBack) {
  weft_transport* transport = opened("prepare-half");
  const std::array requests = {request_, request_, request_};
  EXPECT_EQ(error_text(plugin_->prepare(transport, requests)),
            "plugin sample: prepare gave fewer than the 3 connections that were asked for; try: "
            "update the plugin");
}

TEST_F(Transports, ConnectTakesItsTime) {
  weft_transport* transport = opened("connect-slow");
  EXPECT_FALSE(plugin_->connect(transport, {}, {}).value());
  plugin_->close(transport);
  transport = opened("connect-again");
  EXPECT_EQ(error_text(plugin_->connect(transport, {}, {})),
            "plugin sample: connect answered WEFT_AGAIN, which it must not; try: update the "
            "plugin");
  plugin_->close(transport);
  transport = opened("drain-slow");
  EXPECT_FALSE(plugin_->drain(transport).value());
}

TEST_F(Transports, ViewsAreLookedAt) {
  EXPECT_TRUE(view(""));
  EXPECT_EQ(error_text(view("view-no-buffer")),
            "plugin sample: describe gave no buffer; try: update the plugin");
  EXPECT_EQ(error_text(view("view-no-tail")),
            "plugin sample: describe gave no head or no tail; try: update the plugin");
  asked_.protocol = WEFT_PROTOCOL_LL;  // whose buffer alone is used
  EXPECT_TRUE(view("view-no-tail"));
  asked_.protocol = WEFT_PROTOCOL_SIMPLE;
  EXPECT_EQ(error_text(view("view-steps")),
            "plugin sample: describe described 4 slots of 128 bytes, and 8 of 128 were asked for; "
            "try: update the plugin");
  EXPECT_EQ(
      error_text(view("view-order")),
      "plugin sample: describe promised an order of 64 bytes, which is none of 8, 16 and 128; "
      "try: update the plugin");
  EXPECT_EQ(error_text(view("view-writer")),
            "plugin sample: describe gave an unknown writer (0, 9); try: update the plugin");
}

}  // namespace
}  // namespace weft
