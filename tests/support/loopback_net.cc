// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/loopback_net.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/eventfd.h>
#include <utility>

#include "core/plugin/host_services.h"

// The opaque types of the interface.
struct weft_net {
  weft::test::LoopbackNet* owner = nullptr;
  weft::UniqueFd event;
  std::vector<weft_net_completion> completions;
  bool aborted = false;
};

struct weft_net_registration {
  weft::test::LoopbackNet* owner = nullptr;
  char* address = nullptr;
  std::uint64_t size = 0;
};

namespace weft::test {

struct LoopbackNet::Pipe {
  weft_net* from = nullptr;
  weft_net* to = nullptr;
  weft_net_connection* sender = nullptr;
  weft_net_connection* receiver = nullptr;
  std::deque<weft_net_send> sends;
  std::deque<weft_net_recv> receives;
  std::uint64_t sends_under_way = 0;
  std::uint64_t receives_under_way = 0;
  std::uint64_t breaks_after = UINT64_MAX;
  bool broken = false;
};

}  // namespace weft::test

struct weft_net_connection {
  std::shared_ptr<weft::test::LoopbackNet::Pipe> pipe;
  weft::test::LoopbackNet* owner = nullptr;
  bool sends = false;
};

namespace weft::test {

// What the host calls.
struct LoopbackTable {
  static weft_result open(weft_plugin*, const weft_net_open_info*, weft_net**) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  static void close(weft_net* net) {
    --net->owner->objects_;
    delete net;
  }
  static weft_result devices(weft_net*, const weft_net_device**, std::uint64_t*, std::uint64_t*) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  static weft_result listen(weft_net*, std::uint32_t, weft_blob*, weft_net_listener**) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  static void close_listener(weft_net_listener*) {}
  static weft_result connect(weft_net*, std::uint32_t, weft_blob, weft_net_connection**) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  static weft_result accept(weft_net_listener*, weft_net_connection**) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  static weft_result ready(weft_net_connection*) { return WEFT_OK; }

  static void close_connection(weft_net_connection* connection) {
    LoopbackNet& owner = *connection->owner;
    {
      const std::scoped_lock lock(owner.mutex_);
      LoopbackNet::Pipe& pipe = *connection->pipe;
      weft_net* net = connection->sends ? pipe.from : pipe.to;
      std::erase_if(net->completions,
                    [&](const auto& completion) { return completion.connection == connection; });
      // What was under way is gone, unreported; the other end sees the loss.
      if (connection->sends) {
        pipe.sends.clear();
        pipe.from = nullptr;
      } else {
        pipe.receives.clear();
        pipe.to = nullptr;
      }
      owner.break_pipe(pipe);
      --owner.objects_;
    }
    delete connection;
  }

  static weft_result register_memory(weft_net_connection* connection,
                                     const weft_net_register_info* info,
                                     weft_net_registration** out) {
    *out =
        new weft_net_registration{connection->owner, static_cast<char*>(info->address), info->size};
    ++connection->owner->objects_;
    return WEFT_OK;
  }
  static void deregister_memory(weft_net_registration* registration) {
    --registration->owner->objects_;
    delete registration;
  }
  static bool covers(const weft_net_registration* registration, const void* data,
                     std::uint64_t size) {
    const auto* first = static_cast<const char*>(data);
    return registration != nullptr && first >= registration->address &&
           size <= registration->size && first + size <= registration->address + registration->size;
  }

  static bool may_use(const LoopbackNet& owner, const weft_net_registration* registration,
                      const void* data, std::uint64_t size) {
    return covers(registration, data, size) ||
           (owner.options_.unregistered && registration == nullptr);
  }

  static weft_result isend(weft_net_connection* connection, const weft_net_send* message,
                           weft_net_request** out) {
    LoopbackNet& owner = *connection->owner;
    const std::scoped_lock lock(owner.mutex_);
    LoopbackNet::Pipe& pipe = *connection->pipe;
    if (owner.refuses("isend")) return WEFT_ERROR_SYSTEM;
    if (pipe.from->aborted) return WEFT_ERROR_ABORTED;
    if (pipe.broken) return WEFT_ERROR_PEER;
    if (!connection->sends ||
        !may_use(owner, message->registration, message->data, message->size)) {
      return WEFT_ERROR_INVALID_ARGUMENT;
    }
    if (owner.again() || pipe.sends_under_way >= owner.options_.max_requests) return WEFT_AGAIN;
    ++pipe.sends_under_way;
    pipe.sends.push_back(*message);
    ++owner.sends_;
    if ((message->flags & WEFT_NET_SEND_MORE) != 0) ++owner.followed_sends_;
    *out = nullptr;
    announce(owner, pipe);
    return WEFT_OK;
  }
  static weft_result irecv(weft_net_connection* connection, const weft_net_recv* buffers,
                           std::uint64_t, std::uint64_t count, weft_net_request** out) {
    LoopbackNet& owner = *connection->owner;
    const std::scoped_lock lock(owner.mutex_);
    LoopbackNet::Pipe& pipe = *connection->pipe;
    if (owner.refuses("irecv")) return WEFT_ERROR_SYSTEM;
    if (pipe.to->aborted) return WEFT_ERROR_ABORTED;
    if (pipe.broken) return WEFT_ERROR_PEER;
    if (count != 1 || connection->sends ||
        !may_use(owner, buffers->registration, buffers->data, buffers->size)) {
      return WEFT_ERROR_INVALID_ARGUMENT;
    }
    if (owner.again() || pipe.receives_under_way >= owner.options_.max_requests) return WEFT_AGAIN;
    ++pipe.receives_under_way;
    pipe.receives.push_back(*buffers);
    *out = nullptr;
    announce(owner, pipe);
    return WEFT_OK;
  }
  // There may be something to deliver now.
  static void announce(LoopbackNet& owner, LoopbackNet::Pipe& pipe) {
    if (pipe.sends.empty() || pipe.receives.empty()) return;
    if (owner.options_.wire_thread) {
      owner.changed_.notify_one();
      return;
    }
    for (weft_net* net : {pipe.from, pipe.to})
      if (net != nullptr) eventfd_write(net->event.get(), 1);
  }

  static weft_result poll(weft_net* net, weft_net_completion* out, std::uint64_t stride,
                          std::uint64_t capacity, std::uint64_t* count) {
    LoopbackNet& owner = *net->owner;
    ++owner.polls_;
    const std::scoped_lock lock(owner.mutex_);
    if (owner.refuses("poll")) return WEFT_ERROR_SYSTEM;
    *count = 0;
    if (!owner.options_.wire_thread && !owner.paused_) {
      for (const auto& pipe : owner.pipes_)
        while (owner.deliver(*pipe)) {
        }
    }
    if (owner.options_.shuffle) {
      std::ranges::shuffle(net->completions, owner.random_);
      capacity = std::min<std::uint64_t>(capacity, owner.random_() % 4);
    }
    auto* at = reinterpret_cast<char*>(out);
    while (*count < capacity && !net->completions.empty()) {
      const weft_net_completion completion = net->completions.front();
      net->completions.erase(net->completions.begin());
      auto& pipe = *completion.connection->pipe;
      --(completion.connection->sends ? pipe.sends_under_way : pipe.receives_under_way);
      std::memcpy(at + *count * stride, &completion, sizeof(completion));
      ++*count;
    }
    return WEFT_OK;
  }

  static weft_result arm(weft_net* net, std::int32_t* descriptor) {
    LoopbackNet& owner = *net->owner;
    if (!owner.options_.can_sleep) return WEFT_ERROR_UNSUPPORTED;
    const std::scoped_lock lock(owner.mutex_);
    *descriptor = net->event.get();
    if (!net->completions.empty()) return WEFT_AGAIN;
    if (!owner.options_.wire_thread && !owner.paused_) {
      const bool deliverable = std::ranges::any_of(owner.pipes_, [&](const auto& pipe) {
        return (pipe->from == net || pipe->to == net) && !pipe->sends.empty() &&
               !pipe->receives.empty();
      });
      if (deliverable) return WEFT_AGAIN;
    }
    eventfd_t value = 0;
    eventfd_read(net->event.get(), &value);
    return WEFT_OK;
  }

  static void abort(weft_net* net) {
    LoopbackNet& owner = *net->owner;
    const std::scoped_lock lock(owner.mutex_);
    net->aborted = true;
    for (const auto& pipe : owner.pipes_) {
      if (pipe->from == net || pipe->to == net) owner.break_pipe(*pipe);
    }
  }

  static weft_result get_error(weft_net_connection* connection, char* text, std::uint64_t size) {
    const std::scoped_lock lock(connection->owner->mutex_);
    if (!connection->pipe->broken) {
      *text = '\0';
      return WEFT_OK;
    }
    std::snprintf(text, size, "the wire of the %s broke",
                  connection->sends ? "sender" : "receiver");
    return WEFT_OK;
  }

  static const void* get_interface(weft_plugin*, const char*) {
    static constexpr weft_net_interface kTable = {.struct_size = sizeof(weft_net_interface),
                                                  .reserved = 0,
                                                  .open = open,
                                                  .close = close,
                                                  .devices = devices,
                                                  .listen = listen,
                                                  .close_listener = close_listener,
                                                  .connect = connect,
                                                  .accept = accept,
                                                  .ready = ready,
                                                  .close_connection = close_connection,
                                                  .register_memory = register_memory,
                                                  .deregister_memory = deregister_memory,
                                                  .isend = isend,
                                                  .irecv = irecv,
                                                  .flush = nullptr,
                                                  .poll = poll,
                                                  .progress = nullptr,
                                                  .arm = arm,
                                                  .cancel = nullptr,
                                                  .abort = abort,
                                                  .drain = nullptr,
                                                  .next_event = nullptr,
                                                  .get_error = get_error};
    return &kTable;
  }
  static weft_result init(const weft_host* host, weft_plugin** out) {
    *out = reinterpret_cast<weft_plugin*>(const_cast<weft_host*>(host));
    return WEFT_OK;
  }
  static void deinit(weft_plugin*) {}

  static const weft_plugin_descriptor& descriptor() {
    static const weft_plugin_descriptor made = [] {
      weft_plugin_descriptor entry{};
      entry.magic = WEFT_PLUGIN_MAGIC;
      entry.struct_size = sizeof(entry);
      entry.init = init;
      entry.deinit = deinit;
      entry.get_interface = get_interface;
      return entry;
    }();
    return made;
  }
};

LoopbackNet::LoopbackNet(LoopbackOptions options)
    : options_(options), reactor_(Reactor::create().value()), random_(options.seed) {
  PluginInfo info;
  info.file = "weft-loopback.so";
  info.id = "loopback";
  info.interfaces = {WEFT_NET_INTERFACE};
  instance_ = Plugin::start(std::move(info), LoopbackTable::descriptor(),
                            std::make_unique<HostServices>("loopback", logger_, *reactor_, runtime_,
                                                           PluginSettings{}))
                  .value();
  plugin_ = std::make_unique<NetPlugin>(NetPlugin::wrap(*instance_).value());
  if (options_.wire_thread) wire_ = std::thread([this] { run_wire(); });
}

LoopbackNet::~LoopbackNet() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (wire_.joinable()) wire_.join();
}

weft_net* LoopbackNet::open() {
  auto net = std::make_unique<weft_net>();
  net->owner = this;
  net->event.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ++objects_;
  return net.release();
}

LoopbackNet::Pair LoopbackNet::connect(weft_net* from, weft_net* to) {
  auto pipe = std::make_shared<Pipe>();
  pipe->from = from;
  pipe->to = to;
  pipe->sender = new weft_net_connection{pipe, this, true};
  pipe->receiver = new weft_net_connection{pipe, this, false};
  objects_ += 2;
  const std::scoped_lock lock(mutex_);
  pipes_.push_back(pipe);
  return {.sender = pipe->sender, .receiver = pipe->receiver};
}

void LoopbackNet::break_after(const Pair& pair, std::uint64_t messages) {
  const std::scoped_lock lock(mutex_);
  pair.sender->pipe->breaks_after = messages;
}

void LoopbackNet::pause(bool paused) {
  const std::scoped_lock lock(mutex_);
  paused_ = paused;
  changed_.notify_all();
  for (const auto& pipe : pipes_)
    for (weft_net* net : {pipe->from, pipe->to})
      if (net != nullptr) eventfd_write(net->event.get(), 1);
}

void LoopbackNet::refuse(std::string function) {
  const std::scoped_lock lock(mutex_);
  refused_ = std::move(function);
}

// Its plugin is the host's table.
bool LoopbackNet::refuses(const char* function) {
  if (refused_ != function) return false;
  const auto* const host = reinterpret_cast<const weft_host*>(instance_->instance());
  host->set_error(host->instance, WEFT_ERROR_SYSTEM, WEFT_SOURCE_PLUGIN, 0,
                  (refused_ + " was refused").c_str(), nullptr);
  return true;
}

void LoopbackNet::report_end(weft_net* net, weft_net_connection* connection, std::uint64_t user) {
  const std::scoped_lock lock(mutex_);
  complete(*net, connection, user, 0, 0, WEFT_OK);
}

bool LoopbackNet::again() {
  return random_() % 100 < options_.again_percent;
}

void LoopbackNet::complete(weft_net& net, weft_net_connection* connection, std::uint64_t user,
                           std::uint64_t size, std::uint64_t value, weft_result status) {
  weft_net_completion completion{};
  completion.struct_size = sizeof(completion);
  completion.status = status;
  completion.user = user;
  completion.size = size;
  completion.value = value;
  completion.connection = connection;
  net.completions.push_back(completion);
  eventfd_write(net.event.get(), 1);
}

void LoopbackNet::break_pipe(Pipe& pipe) {
  pipe.broken = true;
  const auto status_of = [](const weft_net& net) {
    return net.aborted ? WEFT_ERROR_ABORTED : WEFT_ERROR_PEER;
  };
  for (const auto& send : std::exchange(pipe.sends, {}))
    complete(*pipe.from, pipe.sender, send.user, 0, 0, status_of(*pipe.from));
  for (const auto& recv : std::exchange(pipe.receives, {}))
    complete(*pipe.to, pipe.receiver, recv.user, 0, 0, status_of(*pipe.to));
}

// One message, if there is one and room for it.
bool LoopbackNet::deliver(Pipe& pipe) {
  if (pipe.broken || pipe.sends.empty() || pipe.receives.empty()) return false;
  if (pipe.breaks_after == 0) {
    break_pipe(pipe);
    return true;
  }
  --pipe.breaks_after;
  const weft_net_send send = pipe.sends.front();
  const weft_net_recv recv = pipe.receives.front();
  pipe.sends.pop_front();
  pipe.receives.pop_front();
  std::memcpy(recv.data, send.data, std::min(send.size, recv.size));
  complete(*pipe.from, pipe.sender, send.user, send.size, 0, WEFT_OK);
  complete(*pipe.to, pipe.receiver, recv.user, send.size, send.value, WEFT_OK);
  return true;
}

void LoopbackNet::run_wire() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::vector<Pipe*> ready;
    for (const auto& pipe : pipes_) {
      if (!pipe->broken && !pipe->sends.empty() && !pipe->receives.empty()) {
        ready.push_back(pipe.get());
      }
    }
    if (paused_ || ready.empty()) {
      changed_.wait(lock);
      continue;
    }
    if (options_.longest_nap.count() > 0) {
      const auto nap = std::chrono::microseconds(
          random_() % static_cast<std::uint32_t>(options_.longest_nap.count() + 1));
      lock.unlock();
      std::this_thread::sleep_for(nap);
      lock.lock();
    }
    deliver(*ready[random_() % ready.size()]);
  }
}

}  // namespace weft::test
