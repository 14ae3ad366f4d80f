// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One opened net: the epoll descriptor that all its sockets share, the list of members that could
// move something now, the completions that wait to be reported, and a timer for deadlines.
//
// No threads: everything happens within the host's calls, one at a time, except abort. Sockets are
// watched edge-triggered, so a stream that nobody wants to read does not keep the host awake.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <plugin_api/net.h>

#include "devices.h"
#include "options.h"
#include "support.h"

namespace weft::net_socket {

class Connection;
struct Request;

using Clock = std::chrono::steady_clock;

/// Is told what epoll says of one descriptor. It takes notes and schedules its member; it neither
/// moves data nor destroys anything, since more events of the same batch may follow.
class EventSink {
 public:
  virtual void on_events(uint32_t events) = 0;

 protected:
  ~EventSink() = default;
};

/// What a member waits for. Who polls for a message has it sooner if its socket is asked, and
/// nothing else: epoll would have to be asked first, and then the socket all the same.
enum class Awaits : uint8_t {
  kNothing,  ///< Of its peer's end, say, it may hear a few polls later.
  kMessage,  ///< The next message, of which nothing has come.
  kEvent,    ///< What epoll alone tells.
};

/// A listener or a connection.
class Member {
 public:
  virtual ~Member() = default;
  /// Moves what can be moved; schedules itself again if more could be moved right away.
  virtual void progress() = 0;
  /// Of one that awaits a message: the same, whether or not epoll has told of it.
  virtual void try_message() {}
  /// Comes now and then while the member wants ticks.
  virtual void on_tick(Clock::time_point now) = 0;
  /// The net was aborted.
  virtual void on_abort() = 0;
  /// True once the kernel has nothing left to send of what was accepted.
  [[nodiscard]] virtual bool drained() { return true; }

 private:
  friend class Net;
  Awaits awaits_ = Awaits::kEvent;
  bool scheduled_ = false;
  bool ticking_ = false;
};

/// The sums that the host shows.
struct Counters {
  weft_counter* bytes_sent = nullptr;
  weft_counter* bytes_received = nullptr;
  weft_counter* strangers = nullptr;
};

class Net {
 public:
  static Result<std::unique_ptr<Net>> open(const Host& host, const Options& options,
                                           std::span<const uint8_t> key);
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  ~Net();

  /// The devices, found at the first call.
  Result<const std::vector<weft_net_device>*> devices();
  /// The interface behind a device index.
  Result<const Interface*> interface(uint32_t device);

  /// Takes events and moves data, without reporting.
  void pump();
  /// Hands out completions; answers how many.
  uint64_t report(weft_net_completion* out, uint64_t stride, uint64_t capacity);
  /// True if a call of pump or report would achieve something right now.
  [[nodiscard]] bool busy() const;
  /// True once the kernel has sent all that was accepted.
  [[nodiscard]] bool drained();
  /// The descriptor that becomes readable when there is news, for whoever is about to sleep: the
  /// next pump asks for them.
  [[nodiscard]] int arm();

  /// [any-thread]
  void abort();
  [[nodiscard]] bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] static Failure abort_failure();

  // For members.
  void add(Member* member);
  void remove(Member* member);
  void schedule(Member* member);
  void want_ticks(Member* member, bool wanted);
  /// Until it is called, kEvent.
  void set_awaits(Member* member, Awaits awaits);
  Status watch(int fd, EventSink* sink, uint32_t events);
  void unwatch(int fd);
  /// To close a descriptor does not unwatch it where another process has it, too, by a fork: epoll
  /// would go on to tell its sink, which may be gone.
  void close_watched(Fd& fd);
  /// Puts a request that has ended among the completions.
  void complete(Request* request);
  /// Drops the unreported completions of a connection that is being closed.
  void forget(const Connection* connection);

  [[nodiscard]] const Host& host() const { return host_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] std::span<const uint8_t> key() const { return key_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  /// Remembers that its descriptor had an event.
  class Flag final : public EventSink {
   public:
    void on_events(uint32_t) override { raised = true; }
    bool raised = false;
  };

  Net(const Host& host, Options options, std::span<const uint8_t> key)
      : host_(host), options_(std::move(options)), key_(key.begin(), key.end()) {}
  /// So many times in a row epoll is not asked where nobody waits for what it tells.
  static constexpr uint32_t kMostWithoutEvents = 16;
  /// To ask more sockets than these takes longer than to ask epoll which.
  static constexpr size_t kMostTried = 2;

  /// Moves what can be moved without epoll; false if somebody waits for what it tells.
  bool do_without_events();
  void set_timer(bool on);
  void run_ticks();
  void run_scheduled();

  Host host_;
  Options options_;
  std::vector<uint8_t> key_;
  Counters counters_;
  Fd epoll_;
  Fd wake_;
  Fd timer_;
  Flag woken_;
  Flag timer_due_;
  std::atomic<bool> aborted_{false};
  bool abort_done_ = false;

  std::vector<Interface> interfaces_;
  std::vector<weft_net_device> devices_;
  std::vector<Member*> members_;
  std::vector<Member*> scheduled_;
  std::vector<Member*> running_;
  std::vector<Member*> awaiting_message_;
  size_t awaiting_event_ = 0;
  size_t ticking_ = 0;
  uint32_t without_events_ = 0;  // pumps since epoll was asked
  Request* first_completion_ = nullptr;
  Request* last_completion_ = nullptr;
};

}  // namespace weft::net_socket
