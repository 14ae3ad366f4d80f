// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What both ends of a connection have in common: its requests, its streams, its end.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plugin_api/net.h>

#include "net.h"
#include "socket.h"
#include "wire.h"

namespace weft::net_socket {

/// Memory that the host made known. The kernel needs none of it: kept to check the host's calls.
struct Registration {
  const uint8_t* address = nullptr;
  uint64_t size = 0;
};

/// One message to send, or one buffer to receive into. Lies in its connection's pool, and keeps its
/// place until the whole group it was started with has been reported.
struct Request {
  Connection* connection = nullptr;
  Request* next = nullptr;        ///< Among the completions.
  Request* group_next = nullptr;  ///< The next buffer of one grouped receive.
  Request* group_first = nullptr;
  uint32_t group_left = 0;  ///< Of the first: buffers not yet reported.
  uint32_t tag = 0;
  uint32_t stripes = 1;
  uint8_t* data = nullptr;  ///< Sends only read it.
  uint64_t room = 0;        ///< Receives: bytes at data.
  uint64_t size = 0;        ///< Of the message.
  uint64_t remaining = 0;   ///< Bytes on the wire still to move, headers of sends included.
  uint64_t user = 0;
  uint64_t value = 0;
  uint64_t moved = 0;
  weft_result status = WEFT_OK;
  std::array<uint8_t, kHeaderBytes> header{};
};

/// A FIFO of at most kMaxRequests whose places are named by a counter that never turns back.
class RequestQueue {
 public:
  [[nodiscard]] uint64_t begin() const { return begin_; }
  [[nodiscard]] uint64_t end() const { return end_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] Request*& operator[](uint64_t index) { return slots_[index % kMaxRequests]; }
  void push(Request* request) { slots_[end_++ % kMaxRequests] = request; }
  Request* pop() { return slots_[begin_++ % kMaxRequests]; }
  /// Takes the one at `index` out; those after it move up.
  void erase(uint64_t index) {
    for (--end_; index < end_; ++index)
      (*this)[index] = (*this)[index + 1];
  }

 private:
  std::array<Request*, kMaxRequests> slots_{};
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

/// One end of a connection; see sender.h and receiver.h.
class Connection : public Member {
 public:
  Connection(Net& net, std::string device, size_t streams);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  /// WEFT_OK once data can move.
  Result<weft_result> ready();
  /// WEFT_OK or WEFT_AGAIN.
  virtual Result<weft_result> isend(const weft_net_send& message, Request** out);
  virtual Result<weft_result> irecv(const weft_net_recv* buffers, uint64_t stride, uint64_t count,
                                    Request** out);
  /// True if the request is gone; false if it is too late.
  virtual bool cancel(Request* request) = 0;
  /// Why it failed; "" while it has not.
  [[nodiscard]] std::string error_text() const;
  [[nodiscard]] Net& net() { return net_; }

  /// The host has been told of a completion: the request's place is free once its group is done.
  void reported(Request* request);
  void on_abort() override;

 protected:
  enum class State : uint8_t { kConnecting, kReady, kFailed };

  /// Where a stream stands in the sequence of messages.
  struct Cursor {
    uint64_t message = 0;
    uint64_t done = 0;  ///< Bytes of that message that this stream has moved.
  };

  struct Stream final : EventSink {
    void on_events(uint32_t events) override;
    Connection* owner = nullptr;
    Fd fd;
    bool readable = false;
    bool writable = false;
    bool hangup = false;  ///< The end is in sight: a short read does not mean "no more".
    Cursor cursor;
  };

  /// Ends the connection: every request that is still under way ends with the failure, the sockets
  /// are closed so that the peer learns of it.
  void fail(Failure failure);
  void fail_system(const char* doing, int error);
  /// Lists the requests that have not ended, and drops them from the queues.
  virtual std::vector<Request*> take_pending() = 0;

  /// A free request, or NULL.
  Request* allocate();
  void release(Request* request);
  [[nodiscard]] size_t free_requests() const { return free_.size(); }
  void finish(Request* request, weft_result status, uint64_t moved);
  void set_ready();
  /// Fails unless the state is kReady.
  [[nodiscard]] Status usable() const;
  [[nodiscard]] Failure misuse(std::string what) const;

  Net& net_;
  std::string device_;  ///< Name of the interface, for messages.
  std::string peer_;    ///< "10.0.0.2:4000"
  State state_ = State::kConnecting;
  bool made_ = false;        ///< It was ready at some time,
  bool told_ready_ = false;  ///< and ready() has said so.
  std::unique_ptr<Stream[]> streams_;
  uint32_t stream_count_;
  uint64_t stripe_ = kMinStripe;

 private:
  void close_streams();

  Failure failure_;
  std::vector<Request> pool_;
  std::vector<Request*> free_;
};

}  // namespace weft::net_socket
