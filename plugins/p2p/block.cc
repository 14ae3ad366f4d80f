// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Handing a share of a block to another instance in this process.
#include "plugins/p2p/block.h"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace weft::p2p {
namespace {

/// Raised when Block or the table changes: another build of this plugin may be loaded in the same
/// process.
constexpr std::uint64_t kTokenVersion = 2;

bool is_place(int descriptor, const TokenPlace& place) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 && S_ISFIFO(facts.st_mode) &&
         facts.st_dev == place.device && facts.st_ino == place.inode;
}

}  // namespace

/// Shared by the rank that offers and, for a moment, by who has the token.
struct Offers::Table {
  plugins::OwnedFd write_end;
  std::mutex mutex;
  std::map<plugins::Nonce, std::shared_ptr<Block>> shares;  // guarded by mutex
};

/// What lies in the pipe. Whoever has read it may use the table that `table` points to.
struct Offers::Token {
  std::uint64_t version = 0;
  std::shared_ptr<Table>* table = nullptr;

  /// From a pipe; false where there is none, errno says why.
  bool take(int pipe) {
    ssize_t got = 0;
    do {
      got = ::read(pipe, this, sizeof(*this));
    } while (got < 0 && errno == EINTR);
    if (got >= 0 && got != static_cast<ssize_t>(sizeof(*this))) errno = EBADF;
    return got == static_cast<ssize_t>(sizeof(*this));
  }
  /// Cannot fail: there is room for it, and the pipe has a reader.
  [[nodiscard]] bool put(int pipe) const {
    static_assert(sizeof(*this) <= PIPE_BUF, "so that it is written and read whole");
    ssize_t put = 0;
    do {
      put = ::write(pipe, this, sizeof(*this));
    } while (put < 0 && errno == EINTR);
    return put == static_cast<ssize_t>(sizeof(*this));
  }
};

weft_result Offers::open(const plugins::Host& host) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return host.fail_errno(errno, "cannot make a pipe for connections inside this process",
                           "raise the limit of open files (ulimit -n)");
  }
  plugins::OwnedFd read_end(ends[0]);
  plugins::OwnedFd write_end(ends[1]);
  auto table = std::make_shared<Table>();
  table->write_end = std::move(write_end);
  auto in_token = std::make_unique<std::shared_ptr<Table>>(table);
  const Token token{.version = kTokenVersion, .table = in_token.get()};
  struct stat facts{};
  if (::fstat(read_end.get(), &facts) != 0 || !token.put(table->write_end.get())) {
    return host.fail_errno(errno, "cannot fill a pipe for connections inside this process");
  }
  // NOLINTNEXTLINE(bugprone-unused-return-value): the token owns it from here on.
  static_cast<void>(in_token.release());
  place_ = {.descriptor = read_end.get(), .device = facts.st_dev, .inode = facts.st_ino};
  table_ = std::move(table);
  pipe_ = std::move(read_end);
  return WEFT_OK;
}

void Offers::close() {
  if (!pipe_) return;
  Token token;
  while (!token.take(pipe_.get())) {
    // A sender has it, and puts it back within a few instructions.
    pollfd entry{.fd = pipe_.get(), .events = POLLIN, .revents = 0};
    if (errno != EAGAIN || (::poll(&entry, 1, -1) < 0 && errno != EINTR)) break;
  }
  delete token.table;
  pipe_.reset();
  table_.reset();
}

weft_result Offers::add(const plugins::Host& host, const std::shared_ptr<Block>& block,
                        TokenPlace* out) {
  if (!pipe_) {
    if (const weft_result opened = open(host); opened != WEFT_OK) return opened;
  }
  *out = place_;
  out->nonce = block->nonce;
  const std::scoped_lock lock(table_->mutex);
  table_->shares.emplace(block->nonce, block);
  return WEFT_OK;
}

void Offers::remove(const plugins::Nonce& block) {
  if (table_ == nullptr) return;
  std::shared_ptr<Block> taken;
  bool none = false;
  {
    const std::scoped_lock lock(table_->mutex);
    if (auto share = table_->shares.extract(block)) taken = std::move(share.mapped());
    none = table_->shares.empty();
  }
  if (none) close();
}

weft_result Offer::make(const plugins::Host& host, Offers& offers,
                        const std::shared_ptr<Block>& block, TokenPlace* out) {
  const weft_result added = offers.add(host, block, out);
  if (added != WEFT_OK) return added;
  offers_ = &offers;
  nonce_ = block->nonce;
  return WEFT_OK;
}

void Offer::withdraw() {
  if (offers_ != nullptr) std::exchange(offers_, nullptr)->remove(nonce_);
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
  Offers::Token token;
  if (!token.take(pipe.get())) {
    // Where its owner has it, to close the pipe, the next look finds no pipe.
    return errno == EAGAIN ? WEFT_IN_PROGRESS : gone();
  }
  if (token.version != kTokenVersion) return gone();
  const std::shared_ptr<Offers::Table> table = *token.table;
  if (!token.put(table->write_end.get())) {
    return host.fail_errno(errno, "cannot refill a pipe of this process");
  }
  const std::scoped_lock lock(table->mutex);
  auto share = table->shares.extract(place.nonce);
  if (!share) return gone();
  *out = std::move(share.mapped());
  return WEFT_OK;
}

}  // namespace weft::p2p
