// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reading and matching.
#include "receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <fmt/format.h>

namespace weft::net_socket {
namespace {

/// What one call of progress reads from one stream before others get their turn.
constexpr uint64_t kReadBudget = uint64_t{4} << 20;

template <class Struct>
const Struct* at(const Struct* first, uint64_t stride, uint64_t index) {
  return reinterpret_cast<const Struct*>(reinterpret_cast<const uint8_t*>(first) + index * stride);
}

}  // namespace

Receiver::Receiver(Net& net, std::string device, std::string peer, size_t streams, uint64_t stripe)
    : Connection(net, std::move(device), streams), staging_(kStagingBytes) {
  peer_ = std::move(peer);
  stripe_ = stripe;
  set_ready();
  posted_.reserve(kMaxRequests);
}

Result<std::unique_ptr<Receiver>> Receiver::adopt(Net& net, std::string device, std::string peer,
                                                  std::vector<Fd> streams, uint64_t stripe) {
  std::unique_ptr<Receiver> receiver(
      new Receiver(net, std::move(device), std::move(peer), streams.size(), stripe));
  for (size_t i = 0; i < streams.size(); ++i) {
    Stream& stream = receiver->streams_[i];
    stream.fd = std::move(streams[i]);
    if (Status done = net.watch(stream.fd.get(), &stream, EPOLLIN | EPOLLRDHUP | EPOLLET); !done) {
      return std::unexpected(done.error());
    }
  }
  receiver->tell_what_it_awaits();
  return receiver;
}

Result<weft_result> Receiver::irecv(const weft_net_recv* buffers, uint64_t stride, uint64_t count,
                                    Request** out) {
  if (Status done = usable(); !done) return std::unexpected(done.error());
  if (count < 1 || count > kMaxReceives) {
    return std::unexpected(
        misuse(fmt::format("irecv of {} buffers: 1 to {} are possible", count, kMaxReceives)));
  }
  if (free_requests() < count) return WEFT_AGAIN;
  Request* first = nullptr;
  Request* last = nullptr;
  for (uint64_t i = 0; i < count; ++i) {
    const weft_net_recv& buffer = *at(buffers, stride, i);
    Request* request = allocate();
    request->tag = buffer.tag;
    request->data = static_cast<uint8_t*>(buffer.data);
    request->room = buffer.size;
    request->user = buffer.user;
    request->value = 0;
    if (first == nullptr) {
      first = request;
      first->group_left = static_cast<uint32_t>(count);
    } else {
      last->group_next = request;
    }
    request->group_first = first;
    last = request;
    posted_.push_back(request);
  }
  *out = first;
  // Only what has come already is worth a look now.
  if (streams_[0].readable || header_ || staged_begin_ != staged_end_) net_.schedule(this);
  tell_what_it_awaits();
  return WEFT_OK;
}

bool Receiver::cancel(Request* request) {
  const auto posted = [&](const Request* one) {
    return std::ranges::find(posted_, one) != posted_.end();
  };
  for (const Request* one = request; one != nullptr; one = one->group_next) {
    if (!posted(one)) return false;
  }
  std::erase_if(posted_, [&](const Request* one) { return one->group_first == request; });
  for (Request* one = request; one != nullptr;)
    release(std::exchange(one, one->group_next));
  return true;
}

void Receiver::no_data(Stream& stream, ssize_t got, int error) {
  if (got < 0 && error == EINTR) return;
  if (got < 0 && error == EAGAIN) {
    stream.readable = false;
    return;
  }
  if (got < 0) {
    fail_system("cannot receive from", error);
    return;
  }
  fail(
      {.code = WEFT_ERROR_PEER,
       .source = WEFT_SOURCE_PEER,
       .what = fmt::format("the sender {} over {} closed the connection in the middle of a message",
                           peer_, device_),
       .hint = "look at the last error of that rank"});
}

void Receiver::end_of_stream() {
  ended_ =
      Failure{.code = WEFT_ERROR_PEER,
              .source = WEFT_SOURCE_PEER,
              .what = fmt::format("the sender {} over {} closed the connection", peer_, device_),
              .hint = "look at the last error of that rank"};
}

bool Receiver::read_share(uint64_t& budget) {
  Stream& stream = streams_[0];
  Cursor& cursor = stream.cursor;
  Request& request = *active_[cursor.message];
  const Share share = share_of(request.size, request.stripes, 0);
  uint8_t* to = request.data + share.offset + cursor.done;
  const uint64_t left = share.size - cursor.done;
  uint64_t moved = 0;
  if (left > 0 && staged_begin_ != staged_end_) {
    moved = std::min<uint64_t>(left, staged_end_ - staged_begin_);
    std::memcpy(to, staging_.data() + staged_begin_, moved);
    staged_begin_ += moved;
  } else if (left > 0) {
    if (!stream.readable) return false;
    if (budget == 0) {
      net_.schedule(this);
      return false;
    }
    staged_begin_ = staged_end_ = 0;
    std::array<iovec, 2> vectors = {
        {{.iov_base = to, .iov_len = left}, {.iov_base = staging_.data(), .iov_len = read_ahead_}}};
    msghdr header{};
    header.msg_iov = vectors.data();
    header.msg_iovlen = vectors.size();
    const ssize_t got = ::recvmsg(stream.fd.get(), &header, MSG_DONTWAIT);
    if (got <= 0) {
      no_data(stream, got, errno);
      return got < 0 && errno == EINTR;
    }
    const auto bytes = static_cast<uint64_t>(got);
    // A short read means that the kernel has no more, unless the end is near: that makes no event.
    if (bytes < left + read_ahead_ && !stream.hangup) stream.readable = false;
    moved = std::min(bytes, left);
    staged_end_ = bytes - moved;
    budget -= std::min(budget, bytes);
  }
  cursor.done += moved;
  request.remaining -= moved;
  if (cursor.done == share.size) cursor = {.message = cursor.message + 1, .done = 0};
  return true;
}

bool Receiver::read_header(uint64_t& budget) {
  Stream& stream = streams_[0];
  if (staged_end_ - staged_begin_ < kHeaderBytes) {
    if (posted_.empty() || ended_ || !stream.readable) return false;
    if (budget == 0) {
      net_.schedule(this);
      return false;
    }
    const size_t kept = staged_end_ - staged_begin_;
    std::memmove(staging_.data(), staging_.data() + staged_begin_, kept);
    staged_begin_ = 0;
    staged_end_ = kept;
    const size_t wanted = std::max(read_ahead_, kHeaderBytes) - kept;
    const ssize_t got = ::recv(stream.fd.get(), staging_.data() + kept, wanted, MSG_DONTWAIT);
    if (got == 0 && kept == 0) {
      end_of_stream();
      return false;
    }
    if (got <= 0) {
      no_data(stream, got, errno);
      return got < 0 && errno == EINTR;
    }
    staged_end_ += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < wanted && !stream.hangup) stream.readable = false;
    budget -= std::min(budget, static_cast<uint64_t>(got));
    return true;
  }
  const std::span<const uint8_t, kHeaderBytes> bytes(staging_.data() + staged_begin_, kHeaderBytes);
  header_ = decode_header(bytes, stream_count_, stripe_);
  staged_begin_ += kHeaderBytes;
  if (!header_ || header_->sequence != sequence_) {
    fail({.code = WEFT_ERROR_PEER,
          .source = WEFT_SOURCE_PEER,
          .what = fmt::format("{} over {} sent bytes that are no header of message {}", peer_,
                              device_, sequence_),
          .hint = "all ranks must use the same version of net-socket"});
    return false;
  }
  ++sequence_;
  // Long messages are read straight into their buffer: then only the next header is read ahead.
  read_ahead_ = header_->size > kStagingBytes / 2 ? kHeaderBytes : kStagingBytes;
  return true;
}

bool Receiver::match() {
  const auto found = std::ranges::find(posted_, header_->tag, &Request::tag);
  if (found == posted_.end()) return false;
  Request* request = *found;
  if (header_->size > request->room) {
    fail({.code = WEFT_ERROR_MISMATCH,
          .source = WEFT_SOURCE_PEER,
          .what = fmt::format("{} over {} sent a message of {} bytes with tag {}, and the buffer "
                              "posted for it has {} bytes",
                              peer_, device_, header_->size, header_->tag, request->room),
          .hint = "sender and receiver disagree on the size"});
    return false;
  }
  posted_.erase(found);
  request->size = header_->size;
  request->remaining = header_->size;
  request->value = header_->value;
  request->stripes = header_->stripes;
  active_.push(request);
  header_.reset();
  return true;
}

void Receiver::read_first_stream() {
  uint64_t budget = kReadBudget;
  while (state_ == State::kReady) {
    Cursor& cursor = streams_[0].cursor;
    bool more = false;
    if (cursor.message != active_.end()) {
      more = read_share(budget);
    } else if (header_) {
      more = match();
    } else {
      more = read_header(budget);
    }
    if (!more) return;
  }
}

void Receiver::read_other_stream(uint32_t index) {
  Stream& stream = streams_[index];
  Cursor& cursor = stream.cursor;
  uint64_t budget = kReadBudget;
  for (;;) {
    if (cursor.message < active_.begin()) cursor = {.message = active_.begin(), .done = 0};
    if (cursor.message == active_.end()) return;
    Request& request = *active_[cursor.message];
    const Share share = share_of(request.size, request.stripes, index);
    if (cursor.done == share.size) {
      cursor = {.message = cursor.message + 1, .done = 0};
      continue;
    }
    if (!stream.readable) return;
    if (budget == 0) {
      net_.schedule(this);
      return;
    }
    const uint64_t left = share.size - cursor.done;
    const ssize_t got =
        ::recv(stream.fd.get(), request.data + share.offset + cursor.done, left, MSG_DONTWAIT);
    if (got <= 0) {
      const bool again = got < 0 && errno == EINTR;
      no_data(stream, got, errno);
      if (again) continue;
      return;
    }
    const auto bytes = static_cast<uint64_t>(got);
    if (bytes < left && !stream.hangup) stream.readable = false;
    cursor.done += bytes;
    request.remaining -= bytes;
    budget -= std::min(budget, bytes);
  }
}

void Receiver::complete_front() {
  while (!active_.empty() && active_[active_.begin()]->remaining == 0) {
    Request* request = active_.pop();
    net_.host().count(net_.counters().bytes_received, request->size);
    finish(request, WEFT_OK, request->size);
  }
}

void Receiver::tell_what_it_awaits() {
  Awaits awaits = Awaits::kNothing;
  if (state_ == State::kReady && !active_.empty()) {
    awaits = Awaits::kEvent;
  } else if (state_ == State::kReady && !posted_.empty() && !header_ && !ended_) {
    awaits = Awaits::kMessage;
  }
  net_.set_awaits(this, awaits);
}

void Receiver::try_message() {
  streams_[0].readable = true;
  progress();
}

void Receiver::progress() {
  move_data();
  tell_what_it_awaits();
}

void Receiver::move_data() {
  if (state_ != State::kReady) return;
  read_first_stream();
  for (uint32_t i = 1; i < stream_count_ && state_ == State::kReady; ++i)
    read_other_stream(i);
  if (state_ != State::kReady) return;
  complete_front();
  // What other streams still bring of earlier messages counts before the end does.
  if (ended_ && active_.empty()) fail(*ended_);
  const bool at_rest =
      active_.empty() && posted_.empty() && !header_ && staged_begin_ == staged_end_;
  if (state_ == State::kReady && at_rest) look_for_break();
}

void Receiver::look_for_break() {
  for (uint32_t i = 0; i < stream_count_; ++i) {
    Stream& stream = streams_[i];
    if (!stream.hangup) continue;
    uint8_t byte = 0;
    // What came before the break, and an orderly end, are for the next receive.
    if (::recv(stream.fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) continue;
    if (errno == EAGAIN || errno == EINTR) continue;
    fail_system("lost the connection to", errno);
    return;
  }
}

std::vector<Request*> Receiver::take_pending() {
  std::vector<Request*> pending;
  while (!active_.empty())
    pending.push_back(active_.pop());
  pending.insert(pending.end(), posted_.begin(), posted_.end());
  posted_.clear();
  return pending;
}

}  // namespace weft::net_socket
