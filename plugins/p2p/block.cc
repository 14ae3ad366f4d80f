// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Handing a share of a block to another instance in this process.
#include "plugins/p2p/block.h"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace weft::p2p {
namespace {

/// Raised when Block changes: another build of this plugin may be loaded in the same process.
constexpr std::uint64_t kTokenVersion = 1;

struct Token {
  std::uint64_t version;
  plugins::Nonce nonce;
  std::shared_ptr<Block>* share;  ///< Owned by whoever read the token.
};
static_assert(sizeof(Token) <= PIPE_BUF, "so that it is written and read whole");

bool is_place(int descriptor, const TokenPlace& place) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 && S_ISFIFO(facts.st_mode) &&
         facts.st_dev == place.device && facts.st_ino == place.inode;
}

/// The token in the pipe, if nobody has taken it yet.
std::unique_ptr<std::shared_ptr<Block>> take(int pipe, const plugins::Nonce& nonce) {
  Token token{};
  ssize_t got = 0;
  do {
    got = ::read(pipe, &token, sizeof(token));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(token)) || token.version != kTokenVersion) return nullptr;
  std::unique_ptr<std::shared_ptr<Block>> share(token.share);
  return token.nonce == nonce ? std::move(share) : nullptr;
}

}  // namespace

weft_result Offer::make(const plugins::Host& host, const std::shared_ptr<Block>& block,
                        TokenPlace* out) {
  auto share = std::make_unique<std::shared_ptr<Block>>(block);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return host.fail_errno(errno, "cannot make a pipe for a connection inside this process",
                           "raise the limit of open files (ulimit -n)");
  }
  plugins::OwnedFd read_end(ends[0]);
  const plugins::OwnedFd write_end(ends[1]);

  struct stat facts{};
  const Token token{kTokenVersion, block->nonce, share.get()};
  if (::fstat(read_end.get(), &facts) != 0 ||
      ::write(write_end.get(), &token, sizeof(token)) != static_cast<ssize_t>(sizeof(token))) {
    return host.fail_errno(errno, "cannot fill a pipe for a connection inside this process");
  }
  // NOLINTNEXTLINE(bugprone-unused-return-value): the token owns it from here on.
  static_cast<void>(share.release());
  *out = {read_end.get(), facts.st_dev, facts.st_ino, block->nonce};
  nonce_ = block->nonce;
  pipe_ = std::move(read_end);
  return WEFT_OK;
}

void Offer::withdraw() {
  if (!pipe_) return;
  take(pipe_.get(), nonce_);
  pipe_.reset();
}

weft_result take_share(const plugins::Host& host, const TokenPlace& place, std::uint32_t peer,
                       std::shared_ptr<Block>* out) {
  const auto gone = [&] {
    return host.fail_peer("rank " + std::to_string(peer) +
                              " of this process closed its end of a connection before this end "
                              "was connected, or sent a damaged blob",
                          "look for the first error of that rank");
  };
  // The number may belong to something else by now: look before touching it, and once more when
  // the duplicate keeps it from changing.
  if (place.descriptor < 0 || place.descriptor > INT_MAX) return gone();
  const int number = static_cast<int>(place.descriptor);
  if (!is_place(number, place)) return gone();
  const plugins::OwnedFd pipe(::fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (!pipe) {
    if (errno == EBADF) return gone();
    return host.fail_errno(errno, "cannot duplicate a pipe of this process",
                           "raise the limit of open files (ulimit -n)");
  }
  if (!is_place(pipe.get(), place)) return gone();
  const auto share = take(pipe.get(), place.nonce);
  if (share == nullptr) return gone();
  *out = std::move(*share);
  return WEFT_OK;
}

}  // namespace weft::p2p
