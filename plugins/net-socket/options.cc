// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Parameter table of net-socket.
#include "options.h"

#include <array>

#include <fmt/format.h>

#include "wire.h"

namespace weft::net_socket {
namespace {

/// TCP_CA_NAME_MAX of the kernel.
constexpr size_t kMaxCongestionName = 16;
constexpr int64_t kSecond = 1'000'000'000;

constexpr weft_parameter parameter(weft_parameter_type type, const char* name, const char* unit,
                                   const char* default_value, const char* help, int64_t minimum = 0,
                                   int64_t maximum = 0) {
  return {sizeof(weft_parameter), type, name, unit, default_value, help, minimum, maximum};
}

Result<weft_parameter_value> value_of(const Host& host, const char* name) {
  weft_parameter_value value{};
  value.struct_size = sizeof value;
  const weft_host* raw = host.raw();
  const weft_result result = raw->get_parameter(raw->instance, name, &value);
  if (result == WEFT_OK) return value;
  return std::unexpected(Failure{.code = result,
                                 .what = fmt::format("the host gave no value for the parameter "
                                                     "net-socket.{}",
                                                     name),
                                 .hint = {}});
}

Failure refused(const char* name, const std::string& why) {
  return {.code = WEFT_ERROR_CONFIG,
          .what = fmt::format("net-socket.{}: {}", name, why),
          .hint = fmt::format("weft config explain net-socket.{} shows where it was set", name)};
}

Result<int64_t> number(const Host& host, const char* name, int64_t minimum, int64_t maximum) {
  const auto value = value_of(host, name);
  if (!value) return std::unexpected(value.error());
  if (value->number >= minimum && value->number <= maximum) return value->number;
  return std::unexpected(
      refused(name, fmt::format("{} is not between {} and {}", value->number, minimum, maximum)));
}

Result<std::chrono::nanoseconds> duration(const Host& host, const char* name) {
  const auto value = value_of(host, name);
  if (!value) return std::unexpected(value.error());
  if (value->number < 0) return std::chrono::nanoseconds(0);
  return std::chrono::nanoseconds(value->number);
}

}  // namespace

// NOLINTNEXTLINE(cert-err58-cpp): constinit, so nothing runs that could throw
constinit const weft_parameter kParameters[kParameterCount] = {
    parameter(
        WEFT_PARAMETER_LIST, "interfaces", "", "",
        "Network interfaces to use: `eth` (names that begin so), `=eth0` (this one), `^docker` "
        "and `^=docker0` (not those); empty: all that are up, loopback last."),
    parameter(WEFT_PARAMETER_INTEGER, "streams", "streams", "0",
              "TCP streams of one connection, over which long messages are striped; 0: as many as "
              "pay, by the interface's speed and the processors.",
              0, kMaxStreams),
    parameter(WEFT_PARAMETER_BYTES, "stripe", "bytes", "32KiB",
              "A message is striped over so many streams that each has at least this much.",
              static_cast<int64_t>(kMinStripe), static_cast<int64_t>(kMaxStripe)),
    parameter(WEFT_PARAMETER_BYTES, "send_buffer", "bytes", "0",
              "Send buffer of each TCP stream; 0 leaves it to the kernel.", 0, int64_t{1} << 30),
    parameter(WEFT_PARAMETER_BYTES, "receive_buffer", "bytes", "0",
              "Receive buffer of each TCP stream; 0 leaves it to the kernel.", 0, int64_t{1} << 30),
    parameter(WEFT_PARAMETER_TEXT, "family", "", "any", "Addresses to use: any, ipv4 or ipv6."),
    parameter(WEFT_PARAMETER_TEXT, "congestion", "", "auto",
              "TCP congestion control of what is sent, as the kernel names it; auto: the system's, "
              "but between ranks of one host one that does not pace."),
    parameter(WEFT_PARAMETER_DURATION, "connect_timeout", "", "30s",
              "How long a connection may take to be made.", kSecond / 100, 3600 * kSecond),
    parameter(
        WEFT_PARAMETER_DURATION, "peer_timeout", "", "10s",
        "How long a peer's host may leave data or probes unanswered before the connection counts "
        "as cut.",
        kSecond / 10, 3600 * kSecond),
};

Result<Options> read_options(const Host& host) {
  Options options;
  const auto interfaces = value_of(host, "interfaces");
  if (!interfaces) return std::unexpected(interfaces.error());
  for (uint64_t i = 0; i < interfaces->item_count; ++i) {
    options.interfaces.emplace_back(interfaces->items[i]);
  }

  struct Number {
    const char* name;
    int64_t minimum;
    int64_t maximum;
    uint32_t* out;
  };
  const std::array<Number, 4> numbers = {{
      {"streams", 0, kMaxStreams, &options.streams},
      {"stripe", kMinStripe, kMaxStripe, &options.stripe},
      {"send_buffer", 0, int64_t{1} << 30, &options.send_buffer},
      {"receive_buffer", 0, int64_t{1} << 30, &options.receive_buffer},
  }};
  for (const Number& wanted : numbers) {
    const auto value = number(host, wanted.name, wanted.minimum, wanted.maximum);
    if (!value) return std::unexpected(value.error());
    *wanted.out = static_cast<uint32_t>(*value);
  }

  const auto family = value_of(host, "family");
  if (!family) return std::unexpected(family.error());
  const std::string text = family->text == nullptr ? "" : family->text;
  if (text == "ipv4") {
    options.family = Family::kIpv4;
  } else if (text == "ipv6") {
    options.family = Family::kIpv6;
  } else if (text != "any") {
    return std::unexpected(
        refused("family", fmt::format("\"{}\" is none of any, ipv4, ipv6", text)));
  }

  const auto congestion = value_of(host, "congestion");
  if (!congestion) return std::unexpected(congestion.error());
  const std::string algorithm = congestion->text == nullptr ? "" : congestion->text;
  if (algorithm.size() >= kMaxCongestionName) {
    return std::unexpected(refused("congestion", fmt::format("\"{}\" is too long", algorithm)));
  }
  if (algorithm != "auto") options.congestion = algorithm;

  const auto connect_timeout = duration(host, "connect_timeout");
  if (!connect_timeout) return std::unexpected(connect_timeout.error());
  options.connect_timeout = *connect_timeout;
  const auto peer_timeout = duration(host, "peer_timeout");
  if (!peer_timeout) return std::unexpected(peer_timeout.error());
  options.peer_timeout = *peer_timeout;
  return options;
}

}  // namespace weft::net_socket
