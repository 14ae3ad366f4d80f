// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Requests, failure and readiness of a connection's end.
#include "connection.h"

#include <cerrno>
#include <sys/epoll.h>

#include <fmt/format.h>

namespace weft::net_socket {

Connection::Connection(Net& net, std::string device, size_t streams)
    : net_(net),
      device_(std::move(device)),
      streams_(std::make_unique<Stream[]>(streams)),
      stream_count_(static_cast<uint32_t>(streams)),
      pool_(kMaxRequests) {
  for (size_t i = 0; i < streams; ++i)
    streams_[i].owner = this;
  free_.reserve(pool_.size());
  for (Request& request : pool_) {
    request.connection = this;
    free_.push_back(&request);
  }
  net_.add(this);
}

Connection::~Connection() {
  close_streams();
  net_.forget(this);
  net_.remove(this);
}

void Connection::Stream::on_events(uint32_t events) {
  const bool end = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  hangup |= end;
  readable |= end || (events & EPOLLIN) != 0;
  writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
  owner->net_.schedule(owner);
}

Result<weft_result> Connection::ready() {
  net_.pump();
  // Who was done may have closed it before anybody asked here.
  const bool is_news = made_ && !told_ready_ && !net_.aborted();
  told_ready_ = made_;
  if (state_ == State::kFailed && !is_news) return std::unexpected(failure_);
  return state_ == State::kConnecting ? WEFT_IN_PROGRESS : WEFT_OK;
}

Result<weft_result> Connection::isend(const weft_net_send& /*message*/, Request** /*out*/) {
  return std::unexpected(misuse("isend on the receiving end of a connection"));
}

Result<weft_result> Connection::irecv(const weft_net_recv* /*buffers*/, uint64_t /*stride*/,
                                      uint64_t /*count*/, Request** /*out*/) {
  return std::unexpected(misuse("irecv on the sending end of a connection"));
}

std::string Connection::error_text() const {
  if (state_ != State::kFailed) return "";
  return failure_.hint.empty() ? failure_.what
                               : fmt::format("{}; try: {}", failure_.what, failure_.hint);
}

void Connection::reported(Request* request) {
  Request* first = request->group_first;
  if (--first->group_left != 0) return;
  while (first != nullptr)
    release(std::exchange(first, first->group_next));
}

void Connection::on_abort() {
  fail(Net::abort_failure());
}

void Connection::set_ready() {
  state_ = State::kReady;
  made_ = true;
}

void Connection::close_streams() {
  for (uint32_t i = 0; i < stream_count_; ++i)
    net_.close_watched(streams_[i].fd);
}

void Connection::fail(Failure failure) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  failure_ = std::move(failure);
  net_.host().log(WEFT_LOG_DEBUG, failure_.what);
  close_streams();
  net_.want_ticks(this, false);
  net_.set_awaits(this, Awaits::kNothing);
  for (Request* request : take_pending())
    finish(request, failure_.code, 0);
}

void Connection::fail_system(const char* doing, int error) {
  fail(network_failure(fmt::format("{} {} over {}", doing, peer_, device_), error));
}

Request* Connection::allocate() {
  if (free_.empty()) return nullptr;
  Request* request = free_.back();
  free_.pop_back();
  request->next = nullptr;
  request->group_next = nullptr;
  request->group_first = request;
  request->group_left = 1;
  request->status = WEFT_OK;
  request->moved = 0;
  return request;
}

void Connection::release(Request* request) {
  free_.push_back(request);
}

void Connection::finish(Request* request, weft_result status, uint64_t moved) {
  request->status = status;
  request->moved = moved;
  net_.complete(request);
}

Status Connection::usable() const {
  if (net_.aborted()) return std::unexpected(Net::abort_failure());
  if (state_ == State::kFailed) return std::unexpected(failure_);
  if (state_ == State::kConnecting) return std::unexpected(misuse("the connection is not ready"));
  return {};
}

Failure Connection::misuse(std::string what) const {
  return {.code = WEFT_ERROR_INVALID_USAGE, .what = std::move(what), .hint = {}};
}

}  // namespace weft::net_socket
