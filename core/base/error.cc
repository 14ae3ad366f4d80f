// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/error.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace weft {
namespace {

weft_result code_of_errno(int value) {
  switch (value) {
    case ENOMEM:
      return WEFT_ERROR_OUT_OF_MEMORY;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOSPC:
    case ENOBUFS:
      return WEFT_ERROR_OUT_OF_RESOURCES;
    default:
      return WEFT_ERROR_SYSTEM;
  }
}

std::string_view source_name(ErrorSource source) {
  switch (source) {
    case ErrorSource::kErrno:
      return "errno";
    case ErrorSource::kCuda:
      return "cuda";
    case ErrorSource::kVerbs:
      return "verbs";
    case ErrorSource::kFabric:
      return "libfabric";
    case ErrorSource::kPlugin:
      return "plugin";
    case ErrorSource::kWeft:
    case ErrorSource::kPeer:
      break;
  }
  return "unknown";
}

}  // namespace

Error Error::from_errno(int errno_value, std::string what, std::string hint) {
  // What helps against these is the same wherever they come from, and nothing else helps.
  if (errno_value == EMFILE) hint = "raise the limit of open files (ulimit -n)";
  if (errno_value == ENFILE) hint = "raise the system's limit fs.file-max";
  if (hint.empty() && errno_value == ENOMEM) hint = "free memory, or raise the limits of memory";
  Error error(code_of_errno(errno_value), std::move(what), std::move(hint));
  error.with_native(ErrorSource::kErrno, errno_value);
  return error;
}

std::string Error::to_string() const {
  std::string text;
  for (auto doing = chain_.rbegin(); doing != chain_.rend(); ++doing) {
    text += *doing;
    text += ": ";
  }
  text += what_;
  if (source_ == ErrorSource::kErrno) {
    // std::generic_category().message is thread-safe, strerror is not.
    text += fmt::format(" (errno {}, {})", native_,
                        std::generic_category().message(static_cast<int>(native_)));
  } else if (source_ != ErrorSource::kWeft && source_ != ErrorSource::kPeer) {
    text += fmt::format(" ({} code {})", source_name(source_), native_);
  }
  if (!hint_.empty()) text += "; try: " + hint_;
  return text;
}

#define WEFT_RESULTS(X) \
  X(WEFT_OK, "success") \
  X(WEFT_IN_PROGRESS, "started and not finished yet") \
  X(WEFT_AGAIN, "no room at this moment, try again") \
  X(WEFT_ERROR_INVALID_ARGUMENT, "an argument is outside its documented range") \
  X(WEFT_ERROR_INVALID_USAGE, "the call is not allowed at this time or in this order") \
  X(WEFT_ERROR_CONFIG, "the configuration cannot be read or cannot be satisfied") \
  X(WEFT_ERROR_PLUGIN, "a plugin is missing, incompatible or misbehaves") \
  X(WEFT_ERROR_SYSTEM, "the operating system refused a request") \
  X(WEFT_ERROR_DEVICE, "the accelerator or its driver failed") \
  X(WEFT_ERROR_NETWORK, "a network path failed") \
  X(WEFT_ERROR_PEER, "another rank died, left or reported a failure") \
  X(WEFT_ERROR_TIMEOUT, "a deadline passed") \
  X(WEFT_ERROR_ABORTED, "the communicator was aborted") \
  X(WEFT_ERROR_OUT_OF_MEMORY, "memory is exhausted") \
  X(WEFT_ERROR_OUT_OF_RESOURCES, "descriptors, threads or another limit are exhausted") \
  X(WEFT_ERROR_UNSUPPORTED, "valid, and not offered by this build, plugin or path") \
  X(WEFT_ERROR_MISMATCH, "ranks disagree on what they call or how") \
  X(WEFT_ERROR_INTERNAL, "a defect of weft or of a plugin")

std::string_view result_name(weft_result code) {
  switch (code) {
#define X(name, text) \
  case name: \
    return #name;
    WEFT_RESULTS(X)
#undef X
    default:
      return "unknown result";
  }
}

std::string_view result_description(weft_result code) {
  switch (code) {
#define X(name, text) \
  case name: \
    return text;
    WEFT_RESULTS(X)
#undef X
    default:
      return "a code that this version of weft does not know";
  }
}

}  // namespace weft
