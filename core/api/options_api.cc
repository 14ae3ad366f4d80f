// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The options of the calls that follow on a handle, of the C API.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/member.h"

namespace {

using weft::Algorithm;
using weft::Error;
using weft::Protocol;
using weft::Result;
using weft::WayOptions;
using weft::api::guarded;
using weft::api::null_argument;

constexpr std::array kAlgorithms = {
    std::pair{WEFT_CALL_ALGORITHM_RING, Algorithm::kRing},
    std::pair{WEFT_CALL_ALGORITHM_TREE, Algorithm::kTree},
    std::pair{WEFT_CALL_ALGORITHM_PAT, Algorithm::kPat},
    std::pair{WEFT_CALL_ALGORITHM_DIRECT, Algorithm::kDirect},
    std::pair{WEFT_CALL_ALGORITHM_TWO_SHOT, Algorithm::kTwoShot},
    std::pair{WEFT_CALL_ALGORITHM_CHAIN, Algorithm::kChain},
    std::pair{WEFT_CALL_ALGORITHM_MULTICAST, Algorithm::kMulticast},
};
constexpr std::array kProtocols = {
    std::pair{WEFT_CALL_PROTOCOL_SIMPLE, Protocol::kSimple},
    std::pair{WEFT_CALL_PROTOCOL_LL, Protocol::kLL},
    std::pair{WEFT_CALL_PROTOCOL_LL128, Protocol::kLL128},
};

// Nothing for 0, which is any.
template <typename Constants>
auto find_constant(const Constants& constants, std::int32_t value, std::string_view field,
                   std::string_view type)
    -> Result<std::optional<typename Constants::value_type::second_type>> {
  if (value == 0) return std::nullopt;
  for (const auto& [constant, meaning] : constants) {
    if (constant == value) return meaning;
  }
  return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                    fmt::format("weft_call_options.{} {} is none", field, value),
                    fmt::format("a constant of {}", type));
}

Result<WayOptions> read_options(const weft_call_options& options) {
  if (options.struct_size < sizeof(weft_call_options)) {
    return weft::fail(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("weft_call_options.struct_size is {}, less than the {} of the first version",
                    options.struct_size, sizeof(weft_call_options)),
        "set it to sizeof(weft_call_options)");
  }
  WayOptions read{.max_channels = options.max_channels};
  WEFT_TRY_ASSIGN(read.algorithm, find_constant(kAlgorithms, options.algorithm, "algorithm",
                                                "weft_call_algorithm"));
  WEFT_TRY_ASSIGN(read.protocol,
                  find_constant(kProtocols, options.protocol, "protocol", "weft_call_protocol"));
  return read;
}

}  // namespace

extern "C" {

weft_result weft_comm_set_call_options(weft_comm* comm, const weft_call_options* options) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Context& context = *comm->owner->context;
    const auto communicator = comm->member->for_calls();
    if (!communicator) return context.remember(communicator.error());
    const auto read = options != nullptr ? read_options(*options) : WayOptions{};
    if (!read) return context.remember(read.error());
    (*communicator)->way_options() = *read;
    return WEFT_OK;
  });
}

}  // extern "C"
