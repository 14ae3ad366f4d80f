// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The reductions that users make, of the C API.
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/member.h"

namespace {

using weft::Error;
using weft::Result;
using weft::api::answer;
using weft::api::guarded;
using weft::api::null_argument;

Result<weft_reduction> make_premul_sum(weft::Communicator& communicator,
                                       const weft_premul_sum_options& options) {
  // What every collective of this type is asked first.
  WEFT_TRY(communicator.check_task({.operation = weft::Operation::kAllReduce,
                                    .type = options.type,
                                    .reduction = weft::kPremulSum,
                                    .root = 0,
                                    .count = 1}));
  weft::Factor factor;
  switch (options.residence) {
    case WEFT_SCALAR_NOW:
      std::memcpy(&factor.bits, options.scalar, weft::element_size(options.type));
      break;
    case WEFT_SCALAR_AT_CALL:
      factor.from = static_cast<const std::byte*>(options.scalar);
      break;
    default:
      return weft::fail(
          WEFT_ERROR_INVALID_ARGUMENT,
          fmt::format("weft_premul_sum_options.residence {} is none", options.residence),
          "one of WEFT_SCALAR_NOW, WEFT_SCALAR_AT_CALL");
  }
  return communicator.made_reductions().add(options.type, factor);
}

}  // namespace

extern "C" {

weft_result weft_reduction_create_premul_sum(weft_comm* comm,
                                             const weft_premul_sum_options* options,
                                             weft_reduction* out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (options == nullptr) return null_argument(comm->owner, "options");
  if (out == nullptr) return null_argument(comm->owner, "out");
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Context& context = *comm->owner->context;
    if (options->struct_size < sizeof(weft_premul_sum_options)) {
      return context.remember(Error(
          WEFT_ERROR_INVALID_ARGUMENT,
          fmt::format("weft_premul_sum_options.struct_size is {}, less than the {} of the first "
                      "version",
                      options->struct_size, sizeof(weft_premul_sum_options)),
          "set it to sizeof(weft_premul_sum_options)"));
    }
    if (options->scalar == nullptr) return null_argument(comm->owner, "scalar");
    const auto communicator = comm->member->for_calls();
    if (!communicator) return context.remember(communicator.error());
    const auto made = make_premul_sum(**communicator, *options);
    if (!made) return context.remember(made.error());
    *out = *made;
    return WEFT_OK;
  });
}

weft_result weft_reduction_destroy(weft_comm* comm, weft_reduction reduction) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  return guarded(comm->owner, [&]() -> weft_result {
    const auto communicator = comm->member->for_calls();
    if (!communicator) return comm->owner->context->remember(communicator.error());
    return answer(comm->owner, (*communicator)->made_reductions().remove(reduction));
  });
}

}  // extern "C"
