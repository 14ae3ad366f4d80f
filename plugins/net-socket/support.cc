// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Texts and codes of failed system calls.
#include "support.h"

#include <cerrno>
#include <system_error>

namespace weft::net_socket {
namespace {

std::string with_reason(std::string what, int error) {
  what += ": ";
  what += std::generic_category().message(error);
  return what;
}

}  // namespace

Failure system_failure(std::string what, int error, weft_result code) {
  Failure failure{.code = code,
                  .source = WEFT_SOURCE_ERRNO,
                  .native = error,
                  .what = with_reason(std::move(what), error),
                  .hint = {}};
  if (error == EMFILE || error == ENFILE) {
    failure.code = WEFT_ERROR_OUT_OF_RESOURCES;
    failure.hint = error == EMFILE
                       ? "the process has no descriptor left: raise its limit (ulimit -n)"
                       : "the machine has no descriptor left: raise fs.file-max";
  } else if (error == ENOMEM || error == ENOBUFS) {
    failure.code = WEFT_ERROR_OUT_OF_MEMORY;
  }
  return failure;
}

Failure network_failure(std::string what, int error) {
  const bool by_peer = error == ECONNRESET || error == EPIPE || error == ECONNREFUSED;
  const bool timeout = error == ETIMEDOUT;
  Failure failure = system_failure(std::move(what), error,
                                   by_peer   ? WEFT_ERROR_PEER
                                   : timeout ? WEFT_ERROR_TIMEOUT
                                             : WEFT_ERROR_NETWORK);
  if (by_peer) {
    failure.hint = "the other process has probably ended: look at its own last error";
  } else if (failure.code == WEFT_ERROR_NETWORK || timeout) {
    failure.hint = "check the path between the two hosts: link, route, firewall";
  }
  return failure;
}

}  // namespace weft::net_socket
