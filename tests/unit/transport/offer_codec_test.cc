// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks tell one another about transports comes back as it was, and nothing that a peer could
// send instead does harm.
#include "core/transport/offer_codec.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;
using namespace std::string_view_literals;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::size_t count, unsigned seed = 1) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(seed + i * 7);
  return bytes;
}

TravellingOffer sample_offer() {
  return {.offer = {.id = "shm",
                    .version = "1.2.3",
                    .kind = PluginKind::kTransport,
                    .unusable = "no /dev/shm"},
          .peer_info = bytes_of(100)};
}

void expect_same(const TravellingOffer& a, const TravellingOffer& b) {
  EXPECT_EQ(a.offer.id, b.offer.id);
  EXPECT_EQ(a.offer.version, b.offer.version);
  EXPECT_EQ(a.offer.kind, b.offer.kind);
  EXPECT_EQ(a.offer.unusable, b.offer.unusable);
  EXPECT_EQ(a.offer.devices, b.offer.devices);
  EXPECT_EQ(a.peer_info, b.peer_info);
}

std::string offers_error(const json& document) {
  const auto decoded = decode_offers(encode_document(document));
  return decoded ? "" : decoded.error().what();
}
std::string answers_error(const json& document) {
  const auto decoded = decode_answers(encode_document(document), 1);
  return decoded ? "" : decoded.error().what();
}

TEST(OfferCodec, KeepsOffers) {
  TravellingOffer net{
      .offer = {.id = "net-socket",
                .version = "",
                .kind = PluginKind::kNet,
                .unusable = {},
                .devices = {{.name = "eth0"},
                            {.name = "lo",
                             .fabric_id = std::numeric_limits<std::uint64_t>::max()}}},
      .peer_info = {}};
  const std::vector<TravellingOffer> offers = {sample_offer(), net};
  const auto back = decode_offers(encode_offers(offers));
  ASSERT_TRUE(back) << back.error().to_string();
  ASSERT_EQ(back->size(), 2U);
  expect_same((*back)[0], offers[0]);
  expect_same((*back)[1], offers[1]);
  EXPECT_TRUE(decode_offers(encode_offers({}))->empty());
}

TEST(OfferCodec, KeepsAnswers) {
  const Answers answers = {{"p2p", {{}, {.reachable = false, .reason = "another process"}}},
                           {"shm",
                            {{},
                             {.reachable = true,
                              .device_memory = true,
                              .single_copy = true,
                              .bandwidth_mbps = std::numeric_limits<std::uint64_t>::max(),
                              .latency_ns = 400,
                              .reason = "same host"}}}};
  const auto back = decode_answers(encode_answers(answers), 2);
  ASSERT_TRUE(back) << back.error().to_string();
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ(back->at("p2p")[1].reason, "another process");
  EXPECT_FALSE(back->at("p2p")[1].reachable);
  const ReachAnswer& answer = back->at("shm")[1];
  EXPECT_TRUE(answer.reachable);
  EXPECT_TRUE(answer.device_memory);
  EXPECT_TRUE(answer.single_copy);
  EXPECT_FALSE(back->at("p2p")[1].single_copy);
  EXPECT_FALSE(back->at("p2p")[1].device_memory);
  EXPECT_EQ(answer.bandwidth_mbps, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(answer.latency_ns, 400U);
  EXPECT_FALSE(decode_answers(encode_answers(answers), 3));
  EXPECT_TRUE(decode_answers(encode_answers({}), 3)->empty());
}

// A rank tells of all others: what many of them have in common travels once.
TEST(OfferCodec, AnswersOfManyRanksAreShort) {
  ReachAnswers list;
  for (std::uint32_t rank = 0; rank < 4096; ++rank)
    list.push_back({.reachable = rank / 8 == 100, .reason = rank / 8 == 100 ? "near" : "far"});
  EXPECT_EQ(list.distinct().size(), 2U);
  const Bytes bytes = encode_answers({{"shm", list}});
  EXPECT_LT(bytes.size(), 100U);
  const auto back = decode_answers(bytes, 4096);
  ASSERT_TRUE(back) << back.error().to_string();
  for (std::uint32_t rank = 0; rank < 4096; ++rank)
    ASSERT_EQ(back->at("shm")[rank], list[rank]) << rank;
}

TEST(OfferCodec, KeepsBlobs) {
  const ConnectionBlobs blobs = {{0, {}},
                                 {(std::uint64_t{3} << 40) | 5, bytes_of(1000)},
                                 {std::numeric_limits<std::uint64_t>::max(), bytes_of(1, 255)}};
  EXPECT_EQ(decode_blobs(encode_blobs(blobs)), blobs);
}

TEST(OfferCodec, CutsReasonsThatPeersWouldRefuse) {
  TravellingOffer offer = sample_offer();
  offer.offer.unusable = std::string(10'000, 'x');
  const auto back = decode_offers(encode_offers({{offer}}));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ((*back)[0].offer.unusable, std::string(4096, 'x'));

  const Answers answers = {{"shm", {{.reachable = false, .reason = std::string(10'000, 'y')}}}};
  const auto answered = decode_answers(encode_answers(answers), 1);
  ASSERT_TRUE(answered) << answered.error().to_string();
  EXPECT_EQ(answered->at("shm")[0].reason, std::string(4096, 'y'));
}

TEST(OfferCodec, LetsNoTerminalCodesThrough) {
  TravellingOffer offer = sample_offer();
  offer.offer.unusable = "line\n\x1b[31mred\x7f";
  offer.offer.devices = {{.name = "eth\n0"}};
  const auto back = *decode_offers(encode_offers({{offer}}));
  EXPECT_EQ(back[0].offer.unusable, "line  [31mred ");
  EXPECT_EQ(back[0].offer.devices[0].name, "eth 0");
}

TEST(OfferCodec, RefusesWhatIsNoOffer) {
  const auto binary = json::binary({1, 2});
  const json none = json::array();
  EXPECT_EQ(offers_error(json::array({json::array({"shm", "1", 0, "", binary, none})})), "");
  EXPECT_EQ(offers_error(json::object()), "a peer sent malformed offers: not a list of offers");
  EXPECT_EQ(offers_error(json(std::vector<int>(65))),
            "a peer sent malformed offers: not a list of offers");
  EXPECT_EQ(offers_error(json::array({json::array({"shm", "1", 0, ""})})),
            "a peer sent malformed offers: not an offer");
  for (const json& kind :
       {json(2), json(-1), json(1e300), json(0.5), json("0"), json(true), json()}) {
    EXPECT_NE(offers_error(json::array({json::array({"shm", "1", kind, "", binary, none})})), "")
        << kind.dump();
  }
  EXPECT_NE(offers_error(json::array({json::array({7, "1", 0, "", binary, none})})), "");
  EXPECT_NE(offers_error(json::array({json::array({"shm", "1", 0, "", "text", none})})), "");
  const std::string long_text(4097, 'x');
  EXPECT_EQ(offers_error(json::array({json::array({long_text, "1", 0, "", binary, none})})),
            "a peer sent malformed offers: a text is too long");
  const auto large = json::binary(std::vector<std::uint8_t>(64 * 1024 + 1));
  EXPECT_EQ(offers_error(json::array({json::array({"shm", "1", 0, "", large, none})})),
            "a peer sent malformed offers: a block is too large");
}

TEST(OfferCodec, BoundsDevices) {
  const auto error_of = [](const json& devices) {
    return offers_error(json::array({json::array({"net", "1", 1, "", json::binary({}), devices})}));
  };
  const json device = json::array({"eth0", 0});
  EXPECT_EQ(error_of(json(kMaxOfferedDevices, device)), "");
  EXPECT_EQ(error_of(json(kMaxOfferedDevices + 1, device)),
            "a peer sent malformed offers: not a list of devices");
  EXPECT_EQ(error_of(json()), "a peer sent malformed offers: not a list of devices");
  EXPECT_EQ(error_of(json::array({json::array({"eth0"})})),
            "a peer sent malformed offers: not a device");
  EXPECT_EQ(error_of(json::array({json::array({"eth0", -1})})),
            "a peer sent malformed offers: not a whole number");
  EXPECT_NE(error_of(json::array({json::array({7, 0})})), "");
  EXPECT_EQ(error_of(json::array({json::array({std::string(256, 'x'), 0})})), "");
  EXPECT_EQ(error_of(json::array({json::array({std::string(257, 'x'), 0})})),
            "a peer sent malformed offers: the name of a device is too long");
}

TEST(OfferCodec, CutsDevicesThatPeersWouldRefuse) {
  TravellingOffer offer = sample_offer();
  offer.offer.devices.assign(kMaxOfferedDevices + 8, {.name = std::string(1000, 'x')});
  const auto back = decode_offers(encode_offers({{offer}}));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ((*back)[0].offer.devices,
            std::vector<OfferedDevice>(kMaxOfferedDevices, {.name = std::string(256, 'x')}));
}

TEST(OfferCodec, RefusesWhatIsNoAnswer) {
  // For one rank; by default it gets the first answer.
  const auto answer = [](const json& reachable, const json& mbps, const json& runs = {{0, 1}}) {
    return json{
        {"shm", json::array({json::array({json::array({reachable, false, false, mbps, 1, "why"})}),
                             runs})}};
  };
  EXPECT_EQ(answers_error(answer(true, 5)), "");
  EXPECT_NE(answers_error(answer(1, 5)), "");
  json no_flag = answer(true, 5);
  no_flag["shm"][0][0][2] = 1;  // single copy
  EXPECT_NE(answers_error(no_flag), "");
  for (const json& number : {json(-5), json(5.0), json(1e300), json("5"), json()}) {
    EXPECT_EQ(answers_error(answer(true, number)),
              "a peer sent malformed answers: not a whole number")
        << number.dump();
  }
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const json& runs : {json::array(), json(3), json{{1, 1}}, json{{0, 2}}, json{{0, 0}},
                           json{{0, most}}, json{{most, 1}}, json{{0, 1}, {0, 1}}, json{{0, 1, 1}},
                           json{{0, -1}}, json::array({json::array({"0", 1})})})
    EXPECT_NE(answers_error(answer(true, 5, runs)), "") << runs.dump();
  EXPECT_EQ(answers_error(answer(true, 5, {{0, 0}, {0, 1}})), "");
  const json two = answer(true, 5)["shm"][0][0];
  EXPECT_NE(answers_error(json{{"shm", json::array({json::array({two, two}), {{0, 1}}})}}), "");
  EXPECT_NE(answers_error(json{{"shm", json::array()}}), "");
  EXPECT_NE(answers_error(json{{"shm", 3}}), "");
  EXPECT_NE(answers_error(json::array()), "");
}

TEST(OfferCodec, RefusesWhatIsNoBlob) {
  const auto error_of = [](const json& document) {
    const auto decoded = decode_blobs(encode_document(document));
    return decoded ? "" : decoded.error().what();
  };
  EXPECT_EQ(error_of(json::array({json::array({1, json::binary({1})})})), "");
  EXPECT_NE(error_of(json::array({json::array({-1, json::binary({1})})})), "");
  EXPECT_NE(error_of(json::array({json::array({1.5, json::binary({1})})})), "");
  EXPECT_NE(error_of(json::array({json::array({1})})), "");
  EXPECT_NE(error_of(json::array({json::array({1, "text"})})), "");
  EXPECT_EQ(error_of(json::array({json::array(
                {1, json::binary(std::vector<std::uint8_t>((std::size_t{1} << 20) + 1))})})),
            "a peer sent malformed connection blobs: a block is too large");
}

TEST(OfferCodec, RefusesEveryTruncation) {
  const Bytes offers = encode_offers({{sample_offer(), sample_offer()}});
  for (std::size_t size = 0; size < offers.size(); ++size)
    EXPECT_FALSE(decode_offers(std::span(offers).first(size))) << size;
  Bytes longer = offers;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_offers(longer));
}

TEST(OfferCodec, SurvivesEveryFlippedBit) {
  const Bytes offers = encode_offers({{sample_offer()}});
  const Bytes answers = encode_answers({{"shm", {{.reachable = true, .reason = "same host"}}}});
  const Bytes blobs = encode_blobs({{1, bytes_of(20)}, {2, {}}});
  const auto flip_all = [](const Bytes& bytes, auto decode) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto decoded = decode(flipped);
      EXPECT_TRUE(decoded || decoded.error().code() == WEFT_ERROR_PEER);
    }
  };
  flip_all(offers, [](const Bytes& bytes) { return decode_offers(bytes); });
  flip_all(answers, [](const Bytes& bytes) { return decode_answers(bytes, 1); });
  flip_all(blobs, [](const Bytes& bytes) { return decode_blobs(bytes); });
}

// The heads of lists, maps, strings, binaries and extensions that promise 4 GiB, and then nothing.
TEST(Document, BelievesNoLength) {
  for (const unsigned head : {0xDDU, 0xDFU, 0xDBU, 0xC6U, 0xC9U}) {
    Bytes bytes(5, std::byte{0xFF});
    bytes[0] = static_cast<std::byte>(head);
    EXPECT_THROW(static_cast<void>(decode_document(bytes)), std::exception) << head;
  }
}

BufferOffers sample() {
  return {.bytes = 1U << 30,
          .refusal = {},
          .offers = {{.plugin = "p2p",
                      .allocation_id = UINT64_MAX,
                      .generation = 3,
                      .offset = 4096,
                      .blob = {std::byte{0}, std::byte{255}}},
                     {.plugin = "other", .blob = {}}}};
}

TEST(BufferOffers, TravelAsTheyAre) {
  EXPECT_EQ(decode_buffer_offers(encode_buffer_offers(sample())), sample());
  const BufferOffers refused{.bytes = 1, .refusal = "why not", .offers = {}};
  EXPECT_EQ(decode_buffer_offers(encode_buffer_offers(refused)), refused);
}

TEST(BufferOffers, AreRefusedCutShort) {
  const std::vector<std::byte> whole = encode_buffer_offers(sample());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto decoded = decode_buffer_offers(std::span(whole).first(bytes));
    ASSERT_FALSE(decoded) << bytes;
    EXPECT_EQ(decoded.error().code(), WEFT_ERROR_PEER);
    EXPECT_NE(decoded.error().to_string().find("offers of buffers"), std::string::npos)
        << decoded.error().to_string();
  }
}

TEST(BufferOffers, AreRefusedTooLong) {
  const std::string text(std::size_t{5} << 10, 'x');
  EXPECT_FALSE(decode_buffer_offers(encode_document(json::array({1, text, json::array({})}))));
  const json blob = json::binary(std::vector<std::uint8_t>(std::size_t{65} << 10));
  EXPECT_FALSE(decode_buffer_offers(
      encode_document(json::array({1, "", json::array({json::array({"p2p", 1, 1, 1, blob})})}))));
  EXPECT_FALSE(decode_buffer_offers(encode_document(json::array({-1, "", json::array({})}))));
}

// A reader that recurses once per level would overflow its stack.
TEST(Document, RefusesDeepNesting) {
  for (const std::string_view level : {"\x91"sv, "\x81\xA1k"sv, "\xDC\0\1"sv}) {
    std::string text;
    for (std::size_t i = 0; i < (std::size_t{4} << 20); ++i)
      text += level;
    Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    EXPECT_THROW(static_cast<void>(decode_document(bytes)), std::invalid_argument) << level.size();
    EXPECT_FALSE(decode_offers(bytes));
    EXPECT_FALSE(decode_answers(bytes, 1));
    EXPECT_FALSE(decode_blobs(bytes));
  }
}

TEST(Document, KeepsWhatIsAsDeepAsItMayBe) {
  json nested = json::array();
  for (std::size_t level = 1; level < kDeepestDocument; ++level)
    nested = json::array({nested, 1});
  EXPECT_EQ(decode_document(encode_document(nested)), nested);
  nested = json::array({nested});
  EXPECT_THROW(static_cast<void>(decode_document(encode_document(nested))), std::invalid_argument);
  // Many lists side by side are not deep.
  const json wide(std::vector<json>(1000, json::array({json::array()})));
  EXPECT_EQ(decode_document(encode_document(wide)), wide);
}

}  // namespace
}  // namespace weft
