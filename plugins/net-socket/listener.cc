// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Handshakes of the listening side.
#include "listener.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>

#include <fmt/format.h>

namespace weft::net_socket {
namespace {

bool somebody_calls(int door) {
  pollfd look{.fd = door, .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) > 0;
}

}  // namespace

void Listener::Door::on_events(uint32_t /*events*/) {
  ready = true;
  owner->net_.schedule(owner);
}

void Listener::Caller::on_events(uint32_t /*events*/) {
  readable = true;
  owner->net_.schedule(owner);
}

Result<std::unique_ptr<Listener>> Listener::listen(Net& net, const Interface& interface) {
  if (net.aborted()) return std::unexpected(Net::abort_failure());
  std::unique_ptr<Listener> listener(new Listener(net, interface));
  net.add(listener.get());
  randombytes_buf(listener->token_.data(), listener->token_.size());
  Handle handle{.token = listener->token_, .addresses = {}};
  std::optional<Failure> refused;
  for (const Address* address : {&interface.ipv4, &interface.ipv6}) {
    if (address->empty()) continue;
    Result<Fd> fd = make_listening_socket(address->with_port(0), net.options());
    // An IPv6 address that is still looked for on other hosts, or was found there, is nobody's to
    // listen at: the other family will do.
    if (!fd && fd.error().native == EADDRNOTAVAIL) {
      net.host().log(WEFT_LOG_INFO, fmt::format("{}: {}", interface.name, fd.error().what));
      refused = fd.error();
      continue;
    }
    if (!fd) return std::unexpected(fd.error());
    Door& door = listener->doors_.emplace_back();
    door.owner = listener.get();
    door.fd = std::move(*fd);
    if (Status done = net.watch(door.fd.get(), &door, EPOLLIN | EPOLLET); !done) {
      return std::unexpected(done.error());
    }
    handle.addresses.push_back(local_address(door.fd.get()).wire());
  }
  if (handle.addresses.empty() && refused) return std::unexpected(*refused);
  listener->handle_ = encode(handle);
  return listener;
}

Listener::~Listener() {
  net_.remove(this);
}

Clock::time_point Listener::deadline() const {
  const auto timeout = net_.options().connect_timeout;
  return timeout.count() > 0 ? Clock::now() + timeout : Clock::time_point::max();
}

Result<std::unique_ptr<Receiver>> Listener::accept() {
  net_.pump();
  if (failure_) return std::unexpected(*failure_);
  if (accepted_) {
    return std::unexpected(Failure{.code = WEFT_ERROR_INVALID_USAGE,
                                   .what = "a listener takes one sender, and it has come already",
                                   .hint = {}});
  }
  if (!sender_) return nullptr;
  auto receiver = Receiver::adopt(net_, device_, sender_->from.text(), std::move(sender_->streams),
                                  sender_->stripe);
  sender_.reset();
  accepted_ = true;
  if (!receiver) failure_ = receiver.error();
  return receiver;
}

void Listener::turned_away(const Caller& caller, const char* why) {
  net_.host().count(net_.counters().strangers, 1);
  if (net_.host().logs(WEFT_LOG_DEBUG)) {
    net_.host().log(WEFT_LOG_DEBUG,
                    fmt::format("turned {} away on {}: {}", caller.from.text(), device_, why));
  }
}

void Listener::drop_oldest_stranger() {
  const auto strangers = std::ranges::count(callers_, false, &Caller::named_token);
  if (static_cast<size_t>(strangers) < kMaxStrangers && callers_.size() < kMaxCallers) return;
  const auto oldest = std::ranges::find(callers_, false, &Caller::named_token);
  const auto victim = oldest == callers_.end() ? callers_.begin() : oldest;
  turned_away(*victim, "too many others wait");
  callers_.erase(victim);
}

void Listener::take_callers(Door& door) {
  // One batch a call: a flood must not keep the host in here.
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    Fd fd(::accept4(door.fd.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      int error = errno;
      // A caller that is gone again, and network errors of its own, are its business.
      if (error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
          error == EHOSTUNREACH || error == ENETUNREACH) {
        continue;
      }
      // Linux wants the descriptor, and the file, before it looks whether anybody calls.
      bool lacks = error == EMFILE || error == ENFILE;
      if (lacks && !somebody_calls(door.fd.get())) {
        error = EAGAIN;
        lacks = false;
      }
      if (lacks && std::ranges::count(callers_, false, &Caller::named_token) > 0) {
        // Strangers must not cost the sender its place.
        std::erase_if(callers_, [](const Caller& caller) { return !caller.named_token; });
        continue;
      }
      door.ready = false;
      if (error != EAGAIN) {
        failure_ = system_failure(fmt::format("cannot accept a connection on {}", device_), error);
      }
      return;
    }
    drop_oldest_stranger();
    Caller& caller = callers_.emplace_back();
    caller.owner = this;
    caller.fd = std::move(fd);
    caller.from = Address(reinterpret_cast<sockaddr*>(&storage), size);
    caller.deadline = deadline();
    // The sender speaks at once: it is known before the next caller could push it out.
    const bool good =
        configure_stream(caller.fd.get(), net_.options()).has_value() &&
        net_.watch(caller.fd.get(), &caller, EPOLLIN | EPOLLRDHUP | EPOLLET).has_value() &&
        hear(caller);
    if (!good || caller.proved) callers_.pop_back();
    if (sender_) return;
  }
  net_.schedule(this);
}

bool Listener::hear(Caller& caller) {
  while (caller.readable) {
    const size_t wanted = caller.named_token ? kProofBytes : kHelloBytes;
    const ssize_t got = ::recv(caller.fd.get(), caller.said.data() + caller.filled,
                               wanted - caller.filled, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      caller.readable = false;
      return true;
    }
    if (got == 0) {
      turned_away(caller, "it left");
      return false;
    }
    caller.filled += static_cast<size_t>(got);
    if (caller.filled < wanted) continue;
    caller.filled = 0;
    if (caller.named_token) return hear_proof(caller);
    if (!hear_hello(caller)) return false;
  }
  return true;
}

bool Listener::hear_hello(Caller& caller) {
  const auto hello = decode_hello(caller.said);
  if (!hello || !same(hello->token, token_)) {
    turned_away(caller, "it does not greet as a sender does");
    return false;
  }
  caller.hello = *hello;
  caller.named_token = true;
  randombytes_buf(caller.nonce.data(), caller.nonce.size());
  const auto challenge = encode(Challenge{
      .nonce = caller.nonce, .proof = prove(net_.key(), Role::kReceiver, *hello, caller.nonce)});
  const ssize_t sent =
      ::send(caller.fd.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(challenge.size());
}

bool Listener::hear_proof(Caller& caller) {
  const auto proof =
      decode_proof(std::span<const uint8_t, kProofBytes>(caller.said.data(), kProofBytes));
  if (!proof || !same(*proof, prove(net_.key(), Role::kSender, caller.hello, caller.nonce))) {
    turned_away(caller, "it does not hold the communicator's key");
    return false;
  }
  return join_group(caller);
}

bool Listener::join_group(Caller& caller) {
  const Hello& hello = caller.hello;
  auto group = std::ranges::find(groups_, hello.connection, &Group::connection);
  if (group == groups_.end()) {
    if (groups_.size() == kMaxGroups) groups_.pop_front();
    group = groups_.emplace(groups_.end());
    group->connection = hello.connection;
    group->stripe = hello.stripe;
    group->from = caller.from;
    group->deadline = deadline();
    group->streams.resize(hello.streams);
  }
  if (group->streams.size() != hello.streams || group->stripe != hello.stripe ||
      group->streams[hello.stream]) {
    turned_away(caller, "its streams do not fit together");
    return false;
  }
  net_.unwatch(caller.fd.get());
  group->streams[hello.stream] = std::move(caller.fd);
  caller.proved = true;
  // Nobody else is waited for then: progress, which is going through the callers, drops them.
  if (++group->present == group->streams.size()) sender_ = std::move(*group);
  return true;
}

void Listener::progress() {
  if (failure_) return;
  for (auto caller = callers_.begin(); caller != callers_.end() && !sender_;) {
    const bool keep = hear(*caller) && !caller->proved;
    caller = keep ? std::next(caller) : callers_.erase(caller);
  }
  for (auto door = doors_.begin(); door != doors_.end() && !sender_ && !failure_; ++door) {
    if (door->ready) take_callers(*door);
  }
  if (sender_ || failure_) {
    callers_.clear();
    doors_.clear();
    groups_.clear();
  }
  net_.want_ticks(this, !callers_.empty() || !groups_.empty());
}

void Listener::on_tick(Clock::time_point now) {
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    if (now < caller->deadline) {
      ++caller;
      continue;
    }
    turned_away(*caller, "it was too slow");
    caller = callers_.erase(caller);
  }
  std::erase_if(groups_, [&](const Group& group) { return now >= group.deadline; });
  net_.want_ticks(this, !callers_.empty() || !groups_.empty());
}

void Listener::on_abort() {
  failure_ = Net::abort_failure();
  callers_.clear();
  doors_.clear();
  groups_.clear();
  sender_.reset();
}

}  // namespace weft::net_socket
