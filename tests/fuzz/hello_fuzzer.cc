// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as its greeting and as its notice of a tuner, and the greeting compared with
// another.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/comm/hello.h"
#include "core/comm/tuner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto notice = weft::decode_notice(std::as_bytes(std::span(data, size)))) {
    const auto back = weft::decode_notice(weft::encode_notice(*notice));
    if (!back || back->plugin != notice->plugin || back->table.hash != notice->table.hash) {
      std::abort();
    }
    (void)weft::check_tuners(std::array{weft::TunerNotice{}, *notice});
  }
  const auto hello = weft::decode_hello(std::as_bytes(std::span(data, size)));
  if (!hello) return 0;
  const auto back = weft::decode_hello(weft::encode_hello(*hello));
  if (!back || back->version != hello->version || back->agreed_settings != hello->agreed_settings ||
      back->report != hello->report || back->line_peers != hello->line_peers) {
    std::abort();
  }
  const std::array ranks = {
      weft::Hello{
          .version = hello->version, .agreed_settings = "buffers.step=128KiB\n", .report = {}},
      *hello};
  (void)weft::check_agreement(ranks);
  return 0;
}
