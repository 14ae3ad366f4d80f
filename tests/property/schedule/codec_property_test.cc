// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Topology bytes: any value comes back as it was, and no bytes do harm.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/topology/codec.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

std::string any_text() {
  return *rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '\x7f'));
}

RankReport any_report() {
  RankReport report = test::sample_report(*rc::gen::inRange<std::uint32_t>(0, kMaxRanks), {});
  report.rank.pid = *rc::gen::arbitrary<std::uint64_t>();
  report.rank.process = "p" + any_text();
  report.rank.local_index = *rc::gen::arbitrary<std::uint32_t>();
  report.rank.device = any_text();
  report.rank.cpus.clear();
  for (std::uint32_t at = 0; *rc::gen::inRange(0, 4) != 0; at += 100) {
    report.rank.cpus.push_back({.first = at + *rc::gen::inRange<std::uint32_t>(0, 50),
                                .last = at + *rc::gen::inRange<std::uint32_t>(50, 100)});
  }
  report.host.host_name = any_text();
  report.host.memory_bytes = *rc::gen::arbitrary<std::uint64_t>();
  report.host.nics.clear();
  while (*rc::gen::inRange(0, 3) != 0) {
    NicInfo nic;
    nic.name = any_text();
    if (*rc::gen::arbitrary<bool>()) nic.speed_mbps = *rc::gen::arbitrary<std::uint32_t>();
    if (*rc::gen::arbitrary<bool>()) nic.numa_node = *rc::gen::arbitrary<std::uint32_t>();
    nic.addresses = {any_text(), any_text()};
    if (*rc::gen::arbitrary<bool>()) nic.prefixes = {24, 128};
    nic.up = *rc::gen::arbitrary<bool>();
    nic.is_virtual = *rc::gen::arbitrary<bool>();
    report.host.nics.push_back(nic);
  }
  return report;
}

RC_GTEST_PROP(CodecProperty, ReportsSurviveTheTrip, ()) {
  const RankReport report = any_report();
  const Result<std::vector<std::byte>> bytes = encode_report(report);
  if (!bytes) RC_FAIL(bytes.error().to_string());
  RC_ASSERT(decode_report(*bytes).value() == report);
}

RC_GTEST_PROP(CodecProperty, AnyBytesAreAnsweredWithAnError, ()) {
  std::vector<std::byte> bytes;
  for (const auto byte : *rc::gen::arbitrary<std::vector<std::uint8_t>>()) {
    bytes.push_back(std::byte{byte});
  }
  RC_ASSERT(!decode_report(bytes));
  RC_ASSERT(!decode(bytes));
}

RC_GTEST_PROP(CodecProperty, DamagedBytesAreRefusedOrStayWithinLimits, ()) {
  std::vector<std::byte> bytes = encode_report(test::sample_report(1, {})).value();
  const auto damages = *rc::gen::inRange(1, 8);
  for (int i = 0; i < damages; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  }
  bytes.resize(bytes.size() - *rc::gen::inRange<std::size_t>(0, 2));
  const Result<RankReport> report = decode_report(bytes);
  // What is accepted can be sent on as it is.
  if (report) RC_ASSERT(decode_report(encode_report(*report).value()).value() == *report);
}

}  // namespace
}  // namespace weft
