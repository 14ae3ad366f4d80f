// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Both sides of handing out descriptors over a Unix socket.
#include "plugins/common/hand_over.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace weft::plugins {
namespace {

/// First, from the giver.
struct Hello {
  std::uint64_t magic = 0;
  Nonce nonce{};
};

/// From the taker. The hash covers the hello's nonce too.
struct Request {
  std::uint64_t magic = 0;
  std::uint32_t rank = 0;
  std::uint32_t stays = 0;
  Nonce nonce{};
  Nonce memory{};
  Mac mac{};
};

/// With the descriptor. The hash covers both nonces too.
struct Grant {
  std::uint64_t magic = 0;
  Nonce memory{};
  Mac mac{};
};

constexpr std::uint64_t kHelloMagic = UINT64_C(0x31454c4854465457);    // "WTFTHLE1"
constexpr std::uint64_t kRequestMagic = UINT64_C(0x3251524854465457);  // "WTFTHRQ2"
constexpr std::uint64_t kGrantMagic = UINT64_C(0x3152474854465457);    // "WTFTHGR1"

static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Request>);
static_assert(std::has_unique_object_representations_v<Grant>);

constexpr int kBacklog = 1024;
/// More than this many at once wait in the backlog, so that strangers cannot use up descriptors.
constexpr std::size_t kMaxSessions = 64;
/// A stranger who says nothing for so long makes room when others wait.
constexpr std::uint64_t kIdleNs = 5'000'000'000;
/// A giver that makes room, or that was stopped for long, may turn away who belongs here; who is
/// turned away so often does not.
constexpr unsigned kMostTurns = 100;
/// How long it is left to others to find that a giver which listens no more has ended.
constexpr std::uint64_t kRefusedNs = 1'000'000'000;

constexpr const char* kFilesHint = "raise the limit of open files (ulimit -n)";
constexpr const char* kPeerHint = "look for the first error of that rank";

socklen_t make_address(const std::string& plugin, const Nonce& name, sockaddr_un* out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "weft-" + plugin + "-";
  for (const std::uint8_t byte : name) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  *out = {};
  out->sun_family = AF_UNIX;
  std::memcpy(out->sun_path + 1, text.data(), text.size());  // A leading zero: no file.
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == ::geteuid();
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

template <class Message>
bool send_message(int socket, const Message& message) {
  return ::send(socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(message));
}

/// recvmsg, without waiting. 0, the end of the stream, is believed when it is said twice: the
/// kernel looks for a message first and for a closed peer then, so that a peer which sends and
/// closes in between makes it say 0 with the message in the queue (Linux, __unix_dgram_recvmsg of
/// net/unix/af_unix.c). Once a peer has closed, all that it sent is there.
ssize_t receive(int socket, const msghdr& wanted, msghdr* got) {
  *got = wanted;
  const ssize_t size = ::recvmsg(socket, got, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size != 0) return size;
  *got = wanted;
  return ::recvmsg(socket, got, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

/// One message of exactly this size: 1 got it, 0 not there yet, -1 anything else.
template <class Message>
int receive_message(int socket, Message* out) {
  if (socket < 0) return -1;
  iovec part{.iov_base = out, .iov_len = sizeof(*out)};
  msghdr wanted{};
  wanted.msg_iov = &part;
  wanted.msg_iovlen = 1;
  msghdr message;
  const ssize_t size = receive(socket, wanted, &message);
  if (size < 0 && would_block(errno)) return 0;
  const bool whole = size == static_cast<ssize_t>(sizeof(*out));
  return whole && (message.msg_flags & MSG_TRUNC) == 0 ? 1 : -1;
}

union DescriptorControl {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

/// 0, or the errno that says why it did not leave.
int send_descriptor(int socket, const Grant& grant, int descriptor) {
  Grant copy = grant;
  iovec part{.iov_base = &copy, .iov_len = sizeof(copy)};
  DescriptorControl control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno;
  return sent == static_cast<ssize_t>(sizeof(copy)) ? 0 : EMSGSIZE;
}

/// Takes over every descriptor that came with a message; there is room for two in the padding.
std::vector<OwnedFd> take_descriptors(msghdr* message) {
  std::vector<OwnedFd> taken;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + (i * sizeof(int)), sizeof(descriptor));
      taken.emplace_back(descriptor);
    }
  }
  return taken;
}

/// "shm: rank 3".
std::string rank_of(const Taker::Ends& ends) {
  return std::string(ends.plugin) + ": rank " + std::to_string(ends.peer);
}

weft_result refused(const Host& host, const Taker::Ends& ends) {
  return host.fail_peer(rank_of(ends) + " closed its Unix socket before it passed its memory",
                        kPeerHint);
}

weft_result turned_away(const Host& host, const Taker::Ends& ends) {
  return host.fail_peer(
      rank_of(ends) +
          " listens, and turned this rank away again and again before it passed its "
          "memory",
      "run the same version of weft on every rank; look for the first error of that rank");
}

weft_result stranger(const Host& host, const Taker::Ends& ends) {
  return host.fail_peer(std::string(ends.plugin) + ": whoever answers on the Unix socket of rank " +
                        std::to_string(ends.peer) + " does not know the secret");
}

}  // namespace

weft_result Giver::open(Nonce* name) {
  if (!listener_) {
    OwnedFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) {
      const int error = errno;
      return host_.fail_errno(error, plugin_ + ": cannot make a Unix socket",
                              error == EMFILE || error == ENFILE ? kFilesHint : nullptr);
    }
    const Nonce fresh = random_nonce();
    sockaddr_un address{};
    const socklen_t size = make_address(plugin_, fresh, &address);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(listener.get(), kBacklog) != 0) {
      return host_.fail_errno(errno, plugin_ + ": cannot listen on an abstract Unix socket",
                              ("leave " + plugin_ + " out of transports.order").c_str());
    }
    listener_ = std::move(listener);
    name_ = fresh;
  }
  *name = name_;
  return WEFT_OK;
}

void Giver::close() {
  for (Session& session : sessions_)
    end(session.socket);
  sessions_.clear();
  end(listener_);
}

void Giver::end(OwnedFd& socket) {
  if (socket) ::shutdown(socket.get(), SHUT_RDWR);
  socket.reset();
}

bool Giver::has_ended(int line) {
  pollfd entry{.fd = line, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

bool Giver::somebody_calls() const {
  pollfd entry{.fd = listener_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

void Giver::evict_idle() {
  const std::uint64_t now = host_.now_ns();
  std::erase_if(sessions_, [&](const Session& one) { return now - one.since_ns > kIdleNs; });
}

weft_result Giver::accept_all() {
  // What they asked has been answered: it may have lain there for as long as this rank was stopped.
  if (sessions_.size() >= kMaxSessions) evict_idle();
  while (sessions_.size() < kMaxSessions) {
    OwnedFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      const int error = errno;
      if (error == ECONNABORTED || error == EINTR) continue;
      if (would_block(error)) return WEFT_OK;
      if (error == EMFILE || error == ENFILE) {
        // Linux wants the descriptor before it looks whether anybody calls.
        if (!somebody_calls()) return WEFT_OK;
        // Whoever is answered gives one back.
        evict_idle();
        if (!sessions_.empty()) return WEFT_OK;
      }
      return host_.fail_errno(error, plugin_ + ": cannot accept a peer on a Unix socket",
                              error == EMFILE || error == ENFILE ? kFilesHint : nullptr);
    }
    const Hello hello{kHelloMagic, random_nonce()};
    if (!same_user(socket.get()) || !send_message(socket.get(), hello)) continue;
    sessions_.push_back({std::move(socket), hello.nonce, host_.now_ns()});
  }
  return WEFT_OK;
}

Giver::Outcome Giver::answer(Session& session, const Key& key, Store& store) {
  Request request;
  const int got = receive_message(session.socket.get(), &request);
  if (got == 0) return Outcome::kWaiting;
  if (got < 0 || request.magic != kRequestMagic || request.stays > 1 ||
      !key.verify(request.mac, {signed_part(request), std::as_bytes(std::span(session.nonce))})) {
    host_.debug(plugin_ + ": turned away a stranger on the Unix socket");
    return Outcome::kOver;
  }
  const int descriptor = store.find(request.memory, request.rank);
  if (descriptor < 0) return Outcome::kOver;
  Grant grant{kGrantMagic, request.memory, {}};
  grant.mac = key.sign({signed_part(grant), std::as_bytes(std::span(request.nonce)),
                        std::as_bytes(std::span(session.nonce))});
  const int error = send_descriptor(session.socket.get(), grant, descriptor);
  if (error == 0) {
    store.given(request.memory, request.rank,
                request.stays != 0 ? std::move(session.socket) : OwnedFd());
    return Outcome::kOver;
  }
  // A peer that has gone is noticed elsewhere; here it only ends the talk.
  return error == ETOOMANYREFS ? Outcome::kFailed : Outcome::kOver;
}

weft_result Giver::answer_all(const Key& key, Store& store) {
  for (std::size_t i = 0; i < sessions_.size();) {
    const Outcome outcome = answer(sessions_[i], key, store);
    if (outcome == Outcome::kFailed) {
      return host_.fail_errno(ETOOMANYREFS, plugin_ + ": cannot pass memory to a peer",
                              "raise the limit of open files (ulimit -n)");
    }
    if (outcome == Outcome::kWaiting) {
      ++i;
    } else {
      std::swap(sessions_[i], sessions_.back());
      sessions_.pop_back();
    }
  }
  return WEFT_OK;
}

weft_result Giver::serve(const Key& key, Store& store) {
  if (!listener_) return WEFT_OK;
  const weft_result result = answer_all(key, store);
  return result == WEFT_OK ? accept_all() : result;
}

weft_result Taker::start(const Host& host, const Ends& ends, const HandOverPlace& place) {
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    const int error = errno;
    return host.fail_errno(error, std::string(ends.plugin) + ": cannot make a Unix socket",
                           error == EMFILE || error == ENFILE ? kFilesHint : nullptr);
  }
  sockaddr_un address{};
  const socklen_t size = make_address(ends.plugin, place.socket, &address);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (would_block(errno)) return WEFT_IN_PROGRESS;  // Its backlog is full.
    if (errno == ECONNREFUSED) return wait_refused(host, ends);
    return host.fail_errno(errno, std::string(ends.plugin) + ": cannot reach rank " +
                                      std::to_string(ends.peer) + " on its Unix socket");
  }
  if (!same_user(socket.get())) {
    return host.fail_peer(std::string(ends.plugin) + ": the Unix socket of rank " +
                          std::to_string(ends.peer) + " belongs to another user");
  }
  socket_ = std::move(socket);
  asked_ = false;
  refused_since_ns_ = 0;
  return WEFT_OK;
}

// The name is random and the giver's own: once nobody listens there, nobody will. But who asks here
// may see in a moment that the giver has ended, and say that.
weft_result Taker::wait_refused(const Host& host, const Ends& ends) {
  const std::uint64_t now = host.now_ns();
  if (refused_since_ns_ == 0) refused_since_ns_ = now;
  return now - refused_since_ns_ < kRefusedNs ? weft_result{WEFT_IN_PROGRESS} : refused(host, ends);
}

weft_result Taker::try_again(const Host& host, const Ends& ends) {
  stop();
  return ++turns_ < kMostTurns ? weft_result{WEFT_IN_PROGRESS} : turned_away(host, ends);
}

weft_result Taker::await_hello(const Host& host, const Key& key, const Ends& ends,
                               const HandOverPlace& place) {
  Hello hello;
  const int got = receive_message(socket_.get(), &hello);
  if (got == 0) return WEFT_IN_PROGRESS;
  if (got < 0) return try_again(host, ends);
  if (hello.magic != kHelloMagic) return stranger(host, ends);
  theirs_ = hello.nonce;
  ours_ = random_nonce();
  Request request{kRequestMagic, ends.rank, ends.stays ? 1U : 0U, ours_, place.memory, {}};
  request.mac = key.sign({signed_part(request), std::as_bytes(std::span(theirs_))});
  if (!send_message(socket_.get(), request)) return try_again(host, ends);
  asked_ = true;
  return WEFT_OK;
}

weft_result Taker::await_grant(const Host& host, const Key& key, const Ends& ends,
                               const HandOverPlace& place, OwnedFd* out) {
  if (!socket_) return try_again(host, ends);
  Grant grant;
  iovec part{.iov_base = &grant, .iov_len = sizeof(grant)};
  DescriptorControl control{};
  msghdr wanted{};
  wanted.msg_iov = &part;
  wanted.msg_iovlen = 1;
  wanted.msg_control = control.bytes;
  wanted.msg_controllen = sizeof(control.bytes);
  msghdr message;
  const ssize_t got = receive(socket_.get(), wanted, &message);
  if (got < 0 && would_block(errno)) return WEFT_IN_PROGRESS;
  std::vector<OwnedFd> descriptors;
  if (got >= 0) descriptors = take_descriptors(&message);
  if (got != static_cast<ssize_t>(sizeof(grant)) || (message.msg_flags & MSG_TRUNC) != 0) {
    return try_again(host, ends);
  }
  if (grant.magic != kGrantMagic || grant.memory != place.memory ||
      !key.verify(grant.mac, {signed_part(grant), std::as_bytes(std::span(ours_)),
                              std::as_bytes(std::span(theirs_))})) {
    return stranger(host, ends);
  }
  if (descriptors.size() != 1) {
    return host.fail_errno(EMFILE,
                           std::string(ends.plugin) + ": the memory passed by rank " +
                               std::to_string(ends.peer) + " did not arrive",
                           kFilesHint);
  }
  *out = std::move(descriptors.front());
  return WEFT_OK;
}

weft_result Taker::step(const Host& host, const Key& key, const Ends& ends,
                        const HandOverPlace& place, OwnedFd* out) {
  if (!socket_) {
    const weft_result result = start(host, ends, place);
    if (result != WEFT_OK) return result;
  }
  if (!asked_) {
    const weft_result result = await_hello(host, key, ends, place);
    if (result != WEFT_OK) return result;
  }
  return await_grant(host, key, ends, place, out);
}

}  // namespace weft::plugins
