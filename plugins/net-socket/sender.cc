// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connecting, proving and writing.
#include "sender.h"

#include <algorithm>
#include <cerrno>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace weft::net_socket {
namespace {

constexpr size_t kMaxVectors = 16;
/// What one call of progress writes to one stream before others get their turn.
constexpr uint64_t kWriteBudget = uint64_t{4} << 20;
/// From here on a message waits for the next poll, which writes it together with what was sent
/// meanwhile: few large writes cost the kernel less than many, and disturb its reader less often.
constexpr uint64_t kGatheredMessage = uint64_t{64} << 10;
/// An answer may have come so much later than the kernel tells, whose clock ticks every 10 ms at
/// the slowest.
constexpr std::chrono::milliseconds kAnswerError{20};

/// The addresses to use: the first of the handle in a network that the interface is in, too, by
/// which the host took the two for a pair; else the first whose family the interface has.
Result<Route> route_to(const Interface& interface, const Handle& handle) {
  std::vector<Address> targets;
  targets.reserve(handle.addresses.size());
  for (const WireAddress& candidate : handle.addresses)
    targets.emplace_back(candidate, interface.index);
  std::ranges::stable_partition(
      targets, [&](const Address& target) { return shares_network(interface, target); });
  for (const Address& to : targets) {
    const Address& from = to.family() == AF_INET ? interface.ipv4 : interface.ipv6;
    if (from.empty()) continue;
    // Between a loopback and another address of the same host, the kernel chooses the source.
    const bool bindable = interface.loopback == to.loopback();
    const bool local =
        to.loopback() || same_place(to, interface.ipv4) || same_place(to, interface.ipv6);
    return Route{.from = bindable ? from : Address(), .to = to, .local = local};
  }
  return std::unexpected(
      Failure{.code = WEFT_ERROR_NETWORK,
              .what = fmt::format("{} has no address of the family that the peer listens on ({})",
                                  interface.name, Address(handle.addresses.front(), 0).text()),
              .hint = "set net-socket.family alike on all hosts, or choose other interfaces"});
}

}  // namespace

Sender::Sender(Net& net, const Interface& interface, uint32_t streams)
    : Connection(net, interface.name, streams), links_(streams) {
  const Options& options = net.options();
  stripe_ = options.stripe;
  if (options.connect_timeout.count() > 0) deadline_ = Clock::now() + options.connect_timeout;
}

Result<std::unique_ptr<Sender>> Sender::connect(Net& net, const Interface& interface,
                                                std::span<const uint8_t> handle) {
  if (net.aborted()) return std::unexpected(Net::abort_failure());
  const auto target = decode_handle(handle);
  if (!target) {
    return std::unexpected(Failure{.code = WEFT_ERROR_PEER,
                                   .source = WEFT_SOURCE_PEER,
                                   .what = fmt::format("{} bytes are no handle of a net-socket "
                                                       "listener",
                                                       handle.size()),
                                   .hint = "all ranks must use the same version of net-socket"});
  }
  const auto route = route_to(interface, *target);
  if (!route) return std::unexpected(route.error());

  uint32_t streams = net.options().streams;
  if (streams == 0) {
    streams = streams_by_cost(interface, route->local, std::thread::hardware_concurrency());
  }
  std::unique_ptr<Sender> sender(new Sender(net, interface, streams));
  sender->peer_ = route->to.text();
  Token connection;
  randombytes_buf(connection.data(), connection.size());
  for (uint32_t i = 0; i < sender->stream_count_; ++i) {
    Hello& hello = sender->links_[i].hello;
    hello.stream = static_cast<uint16_t>(i);
    hello.streams = static_cast<uint16_t>(sender->stream_count_);
    hello.stripe = static_cast<uint32_t>(sender->stripe_);
    hello.token = target->token;
    hello.connection = connection;
    randombytes_buf(hello.nonce.data(), hello.nonce.size());
    if (Status done = sender->start_stream(i, *route); !done) {
      return std::unexpected(done.error());
    }
    if (sender->state_ == State::kFailed) break;
  }
  if (sender->state_ != State::kFailed) net.want_ticks(sender.get(), true);
  return sender;
}

Status Sender::start_stream(uint32_t index, const Route& route) {
  const auto& [from, to, local] = route;
  Stream& stream = streams_[index];
  Result<Fd> fd = make_socket(to.family());
  if (!fd) return std::unexpected(fd.error());
  stream.fd = std::move(*fd);
  if (Status done = configure_buffers(stream.fd.get(), net_.options()); !done) return done;
  if (Status done = configure_congestion(stream.fd.get(), net_.options(), local); !done)
    return done;
  if (!from.empty()) {
    // The port is chosen at connect, when the pair of addresses is known: more connections fit.
    const int late = 1;
    ::setsockopt(stream.fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
    const Address source = from.with_port(0);
    if (::bind(stream.fd.get(), source.raw(), source.size()) != 0) {
      return std::unexpected(
          system_failure(fmt::format("cannot bind a socket to {}", source.text()), errno));
    }
  }
  if (::connect(stream.fd.get(), to.raw(), to.size()) != 0 && errno != EINPROGRESS) {
    fail_system("cannot connect to", errno);
    return {};
  }
  return net_.watch(stream.fd.get(), &stream, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

bool Sender::finish_connect(uint32_t index) {
  Stream& stream = streams_[index];
  if (!stream.writable && !stream.hangup) return false;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(stream.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    fail_system("cannot connect to", error);
    return false;
  }
  if (Status done = configure_stream(stream.fd.get(), net_.options()); !done) {
    fail(done.error());
    return false;
  }
  links_[index].phase = Phase::kChallenge;
  return say(index, encode(links_[index].hello));
}

bool Sender::say(uint32_t index, std::span<const uint8_t> bytes) {
  const ssize_t sent =
      ::send(streams_[index].fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  // A new socket has room for a few bytes: less means that it is broken.
  fail_system("cannot greet", sent < 0 ? errno : EPIPE);
  return false;
}

bool Sender::read_challenge(uint32_t index) {
  Stream& stream = streams_[index];
  Link& link = links_[index];
  if (!stream.readable) return false;
  const ssize_t got = ::recv(stream.fd.get(), link.challenge.data() + link.filled,
                             link.challenge.size() - link.filled, MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      stream.readable = false;
    } else {
      fail_system("no handshake with", errno);
    }
    return false;
  }
  if (got == 0) {
    fail(
        {.code = WEFT_ERROR_PEER,
         .source = WEFT_SOURCE_PEER,
         .what = fmt::format("{} over {} closed the connection before it was made", peer_, device_),
         .hint = "its rank has ended, or waits for another sender"});
    return false;
  }
  link.filled += static_cast<size_t>(got);
  if (link.filled < link.challenge.size()) return true;

  const auto challenge = decode_challenge(link.challenge);
  if (!challenge ||
      !same(challenge->proof, prove(net_.key(), Role::kReceiver, link.hello, challenge->nonce))) {
    fail({.code = WEFT_ERROR_PEER,
          .source = WEFT_SOURCE_PEER,
          .what = fmt::format("{} over {} does not hold the communicator's key", peer_, device_),
          .hint = "another program listens there, or the ranks are of different jobs"});
    return false;
  }
  if (!say(index, encode_proof(prove(net_.key(), Role::kSender, link.hello, challenge->nonce)))) {
    return false;
  }
  link.phase = Phase::kOpen;
  return true;
}

void Sender::shake_hands(uint32_t index) {
  while (state_ == State::kConnecting && links_[index].phase != Phase::kOpen) {
    const bool moved =
        links_[index].phase == Phase::kConnecting ? finish_connect(index) : read_challenge(index);
    if (!moved) return;
  }
}

Result<weft_result> Sender::isend(const weft_net_send& message, Request** out) {
  if (Status done = usable(); !done) return std::unexpected(done.error());
  if (message.size > kMaxMessage) {
    return std::unexpected(
        misuse(fmt::format("a message of {} bytes is longer than max_message", message.size)));
  }
  Request* request = allocate();
  if (request == nullptr) return WEFT_AGAIN;
  request->tag = message.tag;
  request->data = static_cast<uint8_t*>(const_cast<void*>(message.data));
  request->size = message.size;
  request->remaining = message.size + kHeaderBytes;
  request->user = message.user;
  request->value = message.value;
  request->stripes = stripes_of(message.size, stream_count_, stripe_);
  request->header = encode(Header{.sequence = static_cast<uint32_t>(sends_.end()),
                                  .tag = message.tag,
                                  .stripes = request->stripes,
                                  .size = message.size,
                                  .value = message.value});
  const bool idle = sends_.empty();
  sends_.push(request);
  net_.want_ticks(this, true);
  *out = request;
  // A short message need not wait for poll; a failure is poll's to report.
  const bool more = (message.flags & WEFT_NET_SEND_MORE) != 0;
  if (idle && !more && message.size < kGatheredMessage) {
    progress();
  } else {
    net_.schedule(this);
  }
  return WEFT_OK;
}

uint64_t Sender::part_of(const Request& request, uint32_t stream) {
  const uint64_t header = stream == 0 ? kHeaderBytes : 0;
  return header + share_of(request.size, request.stripes, stream).size;
}

void Sender::write_stream(uint32_t index) {
  Stream& stream = streams_[index];
  Cursor& cursor = stream.cursor;
  uint64_t budget = kWriteBudget;
  const uint64_t header_size = index == 0 ? kHeaderBytes : 0;
  while (stream.writable) {
    // Messages in which this stream has no part may have ended meanwhile.
    if (cursor.message < sends_.begin()) cursor = {.message = sends_.begin(), .done = 0};
    std::array<iovec, kMaxVectors> vectors;
    size_t count = 0;
    uint64_t total = 0;
    uint64_t done = cursor.done;
    for (uint64_t i = cursor.message; i < sends_.end() && count + 2 <= kMaxVectors; ++i, done = 0) {
      Request& request = *sends_[i];
      const Share share = share_of(request.size, request.stripes, index);
      if (done < header_size) {
        vectors[count++] = {.iov_base = request.header.data() + done,
                            .iov_len = header_size - done};
        total += header_size - done;
      }
      const uint64_t body = done > header_size ? done - header_size : 0;
      if (share.size > body) {
        vectors[count++] = {.iov_base = request.data + share.offset + body,
                            .iov_len = share.size - body};
        total += share.size - body;
      }
      if (total >= kWriteBudget) break;
    }
    if (count == 0) return;
    if (budget == 0) {
      net_.schedule(this);
      return;
    }
    msghdr header{};
    header.msg_iov = vectors.data();
    header.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(stream.fd.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        stream.writable = false;
      } else {
        fail_system("cannot send to", errno);
      }
      return;
    }
    if (static_cast<uint64_t>(sent) < total) stream.writable = false;
    budget -= std::min(budget, static_cast<uint64_t>(sent));
    advance(index, static_cast<uint64_t>(sent));
  }
}

void Sender::advance(uint32_t index, uint64_t bytes) {
  Cursor& cursor = streams_[index].cursor;
  for (;;) {
    if (cursor.message == sends_.end()) return;
    Request& request = *sends_[cursor.message];
    const uint64_t part = part_of(request, index);
    const uint64_t moved = std::min(bytes, part - cursor.done);
    cursor.done += moved;
    request.remaining -= moved;
    bytes -= moved;
    if (cursor.done < part) return;
    cursor = {.message = cursor.message + 1, .done = 0};
    if (bytes == 0) return;
  }
}

void Sender::complete_front() {
  while (!sends_.empty() && sends_[sends_.begin()]->remaining == 0) {
    Request* request = sends_.pop();
    net_.host().count(net_.counters().bytes_sent, request->size);
    finish(request, WEFT_OK, request->size);
  }
}

void Sender::look_for_end(uint32_t index) {
  Stream& stream = streams_[index];
  uint8_t byte = 0;
  const ssize_t got = ::recv(stream.fd.get(), &byte, 1, MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      stream.readable = false;
      return;
    }
    fail_system("lost the connection to", errno);
    return;
  }
  fail({.code = WEFT_ERROR_PEER,
        .source = WEFT_SOURCE_PEER,
        .what = got == 0
                    ? fmt::format("the receiver {} over {} closed the connection", peer_, device_)
                    : fmt::format("the receiver {} over {} sent bytes where it must not", peer_,
                                  device_),
        .hint = "look at the last error of that rank"});
}

void Sender::progress() {
  move_data();
  tell_what_it_awaits();
}

void Sender::tell_what_it_awaits() {
  const bool waits = state_ == State::kConnecting || (state_ == State::kReady && !sends_.empty());
  net_.set_awaits(this, waits ? Awaits::kEvent : Awaits::kNothing);
}

void Sender::move_data() {
  if (state_ == State::kConnecting) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < stream_count_; ++i) {
      shake_hands(i);
      if (state_ == State::kFailed) return;
      if (links_[i].phase == Phase::kOpen) ++open;
    }
    if (open < stream_count_) return;
    set_ready();
    deadline_ = Clock::time_point::max();
  }
  for (uint32_t i = 0; i < stream_count_ && state_ == State::kReady; ++i) {
    if (streams_[i].readable) look_for_end(i);
    if (state_ == State::kReady) write_stream(i);
  }
  if (state_ == State::kReady) complete_front();
}

void Sender::on_tick(Clock::time_point now) {
  if (state_ == State::kConnecting) {
    if (now < deadline_) return;
    fail({.code = WEFT_ERROR_TIMEOUT,
          .what = fmt::format(
              "no connection to {} over {} within {:.3g} s (connect_timeout)", peer_, device_,
              std::chrono::duration<double>(net_.options().connect_timeout).count()),
          .hint = "its rank is stuck or gone, or a firewall drops packets"});
    return;
  }
  if (sends_.empty() && unsent_bytes() == 0) {
    for (Link& link : links_)
      link.waiting_since = {};
    net_.want_ticks(this, false);
    return;
  }
  const auto limit = net_.options().peer_timeout;
  if (limit.count() == 0) return;
  // TCP_USER_TIMEOUT would be shorter, but it also ends connections whose receiver is alive and
  // just takes nothing for a while (a closed window), as a rank that computes does.
  for (uint32_t i = 0; i < stream_count_; ++i) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(streams_[i].fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    Clock::time_point& since = links_[i].waiting_since;
    const uint32_t probes_before = std::exchange(links_[i].probes, info.tcpi_probes);
    const auto last_answer = now - std::chrono::milliseconds(info.tcpi_last_ack_recv);
    const bool owes_answer = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    // Whoever takes nothing is asked ever more seldom, after a while every two minutes: a question
    // that was lost, or its answer, says nothing of the path. The second may have left just now.
    const bool was_asked_once = info.tcpi_unacked == 0 && probes_before < 2;
    if (!owes_answer) {
      since = {};
    } else if (since == Clock::time_point{} || last_answer + kAnswerError > since) {
      // What the peer owes now was sent at any time after that answer: where nobody polled for a
      // while, long after it.
      since = now;
    } else if (now - since >= limit && !was_asked_once) {
      fail({.code = WEFT_ERROR_TIMEOUT,
            .source = WEFT_SOURCE_ERRNO,
            .native = ETIMEDOUT,
            .what = fmt::format("{} over {} has acknowledged nothing for {:.3g} s (peer_timeout)",
                                peer_, device_, std::chrono::duration<double>(limit).count()),
            .hint = "check the path between the two hosts: link, route, firewall"});
      return;
    }
  }
}

uint64_t Sender::unsent_bytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < stream_count_; ++i) {
    int queued = 0;
    if (::ioctl(streams_[i].fd.get(), SIOCOUTQ, &queued) == 0) bytes += queued;
  }
  return bytes;
}

bool Sender::drained() {
  if (state_ != State::kReady) return true;
  return sends_.empty() && unsent_bytes() == 0;
}

bool Sender::cancel(Request* request) {
  for (uint64_t i = sends_.begin(); i < sends_.end(); ++i) {
    if (sends_[i] != request) continue;
    for (uint32_t s = 0; s < stream_count_; ++s) {
      const Cursor& cursor = streams_[s].cursor;
      if (cursor.message > i || (cursor.message == i && cursor.done > 0)) return false;
    }
    sends_.erase(i);
    for (uint64_t later = i; later < sends_.end(); ++later) {
      Request& moved = *sends_[later];
      moved.header = encode(Header{.sequence = static_cast<uint32_t>(later),
                                   .tag = moved.tag,
                                   .stripes = moved.stripes,
                                   .size = moved.size,
                                   .value = moved.value});
    }
    release(request);
    tell_what_it_awaits();
    return true;
  }
  return false;
}

std::vector<Request*> Sender::take_pending() {
  std::vector<Request*> pending;
  while (!sends_.empty())
    pending.push_back(sends_.pop());
  return pending;
}

}  // namespace weft::net_socket
