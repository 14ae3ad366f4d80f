// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A complete net plugin: messages between processes of one host and user, over Unix sockets. Read
// it from the bottom up: the entry, the function table, then each function.
//
// It keeps to the contract of net.h by the simplest means: requests wait in an array, poll goes
// through all connections. What a plugin for a real wire adds: several devices, proof of the key
// when a sender comes (here the kernel names the caller), and arm() so that idle engines sleep.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <plugin_api/net.h>

constexpr size_t kMaxRequests = 32, kNameBytes = 16;
struct Header {  // Travels before each message.
  uint64_t size, value, tag;
};
// Our own copy of what isend or irecv was asked for.
struct Request {
  Header header;
  uint64_t user, room;
  char* data;
  weft_result status = WEFT_IN_PROGRESS;  // Until it has ended.
};
// The structs that net.h only names are the plugin's own. There are no globals.
struct weft_plugin {
  const weft_host* host;
};
struct weft_net {
  const weft_host* host;
  weft_net_connection* first = nullptr;  // Its open connections, for poll.
  std::atomic<bool> aborted = false;     // From any thread; all else comes one call at a time.

  // An error is first told to the host, then answered. `error` is an errno, or 0.
  weft_result fail(weft_result code, const char* what, int error = 0) const {
    host->set_error(host->instance, code, error ? WEFT_SOURCE_ERRNO : WEFT_SOURCE_PLUGIN, error,
                    what, error == EMFILE ? "no descriptor is left: raise ulimit -n" : nullptr);
    return code;
  }
  weft_result no_memory() const { return fail(WEFT_ERROR_OUT_OF_MEMORY, "memory is exhausted"); }
};
struct weft_net_listener {
  ~weft_net_listener() { ::close(fd); }
  weft_net* net;
  int fd = -1;
  uint8_t name[kNameBytes] = {};  // The handle: random, so that nobody else chooses it.
};
struct weft_net_connection {
  weft_net* net;
  int fd;
  bool is_sender, told_ready = false;  // As it is from the beginning, even if the peer has left.
  weft_net_connection* next;
  weft_result failed = WEFT_OK;  // Or why nothing works any more.
  char why[160] = "";
  Request requests[kMaxRequests] = {};  // Oldest first.
  uint32_t count = 0;
  Request* current = nullptr;               // The one whose message moves now.
  Header header = {};                       // Of that message,
  uint64_t header_done = 0, data_done = 0;  // and how much of it has moved.
  weft_net_connection(weft_net* its_net, int its_fd, bool sends)
      : net(its_net), fd(its_fd), is_sender(sends), next(its_net->first) {
    net->first = this;
  }
  ~weft_net_connection() {
    weft_net_connection** link = &net->first;
    while (*link != this)
      link = &(*link)->next;
    *link = next;
    if (fd >= 0) ::close(fd);
  }
  // The end: each request ends with the reason, and the peer sees that the socket is closed.
  void fail(weft_result code, const char* reason) {
    if (failed != WEFT_OK) return;
    failed = code;
    current = nullptr;
    std::snprintf(why, sizeof why, "%s", reason);
    for (Request& r : requests)
      r.status = r.status == WEFT_IN_PROGRESS ? code : r.status;
    ::close(std::exchange(fd, -1));
  }
  // The oldest request under way, of this tag if there is one; NULL: none.
  Request* oldest(const uint64_t* tag = nullptr) {
    Request* found = std::find_if(requests, requests + count, [&](const Request& r) {
      return r.status == WEFT_IN_PROGRESS && (tag == nullptr || r.header.tag == *tag);
    });
    return found == requests + count ? nullptr : found;
  }
  // Moves bytes: true once all `size` have moved, false when the kernel has no more or it failed.
  bool move(void* data, uint64_t size, uint64_t& done) {
    while (done < size) {
      char* at = static_cast<char*>(data) + done;
      const ssize_t n = is_sender ? ::send(fd, at, size - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : ::recv(fd, at, size - done, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n < 0) fail(WEFT_ERROR_PEER, std::strerror(errno));
      if (n == 0) fail(WEFT_ERROR_PEER, "the sender has closed the connection");
      if (n <= 0) return false;
      done += static_cast<uint64_t>(n);
    }
    return true;
  }
  // Gives the header that has come to a receive of its tag; without one, the message just waits in
  // the kernel. Nothing that a peer says is trusted.
  bool match() {
    current = oldest(&header.tag);
    if (current == nullptr) return false;
    if (header.size <= current->room) return true;
    char text[120];
    std::snprintf(text, sizeof text, "a message of %ju bytes has come for a buffer of %ju",
                  uintmax_t{header.size}, uintmax_t{current->room});
    fail(WEFT_ERROR_MISMATCH, text);
    return false;
  }
  // Moves messages while it can.
  void progress() {
    if (net->aborted) fail(WEFT_ERROR_ABORTED, "the net was aborted");
    char byte;
    if (is_sender && !failed && ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0) {
      fail(WEFT_ERROR_PEER, "the receiver has closed the connection");  // It never sends.
    }
    while (!failed && oldest() != nullptr) {
      if (is_sender && current == nullptr) header = (current = oldest())->header;
      if (!move(&header, sizeof header, header_done)) return;
      if (current == nullptr && !match()) return;
      if (!move(current->data, header.size, data_done)) return;
      current->header = header;
      current->status = WEFT_OK;
      current = nullptr;
      header_done = data_done = 0;
    }
  }
  // Nothing keeps the address of a request: there is no cancel.
  weft_result start(const Request& request, weft_net_request** out) {
    if (count == kMaxRequests) return WEFT_AGAIN;
    progress();  // Learns of an abort.
    if (failed) return net->fail(failed, why);
    requests[count] = request;
    *out = reinterpret_cast<weft_net_request*>(&requests[count++]);
    return WEFT_OK;
  }
};

namespace {
// A socket that is bound to, or connected to, an abstract name; or -1 and errno.
int make_socket(const void* name, int (*attach)(int, const sockaddr*, socklen_t)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;  // The name starts after a zero byte.
  std::memcpy(address.sun_path + 1, name, kNameBytes);
  const socklen_t size = offsetof(sockaddr_un, sun_path) + 1 + kNameBytes;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || attach(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  ::close(fd);
  return -1;
}

weft_result listen_on(weft_net* net, uint32_t device, weft_blob* handle, weft_net_listener** out) {
  if (device != 0) return net->fail(WEFT_ERROR_INVALID_ARGUMENT, "the only device is 0");
  std::unique_ptr<weft_net_listener> l(new (std::nothrow) weft_net_listener{.net = net});
  if (l == nullptr) return net->no_memory();
  if (::getrandom(l->name, kNameBytes, 0) == kNameBytes) l->fd = make_socket(l->name, ::bind);
  if (l->fd < 0 || ::listen(l->fd, 8) != 0) {
    return net->fail(WEFT_ERROR_SYSTEM, "cannot listen on a Unix socket", errno);
  }
  *handle = {l->name, kNameBytes};
  *out = l.release();
  return WEFT_OK;
}

weft_result add(weft_net* net, int fd, bool is_sender, weft_net_connection** out) {
  *out = new (std::nothrow) weft_net_connection(net, fd, is_sender);
  if (*out != nullptr) return WEFT_OK;
  ::close(fd);
  return net->no_memory();
}

weft_result connect_to(weft_net* net, uint32_t, weft_blob handle, weft_net_connection** out) {
  if (handle.size != kNameBytes) return net->fail(WEFT_ERROR_PEER, "no such handle");
  const int fd = make_socket(handle.data, ::connect);  // Done at once, or never.
  return fd >= 0 ? add(net, fd, true, out) : net->fail(WEFT_ERROR_PEER, "cannot connect", errno);
}

weft_result accept_from(weft_net_listener* l, weft_net_connection** out) {
  if (l->net->aborted) return l->net->fail(WEFT_ERROR_ABORTED, "the net was aborted");
  const int fd = ::accept4(l->fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED)) return WEFT_IN_PROGRESS;
  if (fd < 0) return l->net->fail(WEFT_ERROR_SYSTEM, "cannot accept a connection", errno);
  ucred caller = {};
  socklen_t size = sizeof caller;
  ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &caller, &size);
  if (caller.pid != 0 && caller.uid == ::geteuid()) return add(l->net, fd, false, out);
  ::close(fd);  // A stranger: turned away, and not worth an error.
  return WEFT_IN_PROGRESS;
}

weft_result report(weft_net* net, weft_net_completion* out, uint64_t stride, uint64_t capacity,
                   uint64_t* count) {
  *count = 0;
  for (weft_net_connection* c = net->first; c != nullptr; c = c->next) {
    c->progress();
    const auto pending = [](const Request& r) { return r.status == WEFT_IN_PROGRESS; };
    while (*count < capacity) {
      Request* r = std::find_if_not(c->requests, c->requests + c->count, pending);
      if (r == c->requests + c->count) break;
      auto* one = reinterpret_cast<weft_net_completion*>(reinterpret_cast<char*>(out) +
                                                         stride * (*count)++);
      *one = {one->struct_size, r->status, r->user, r->header.size, r->header.value, c};
      std::move(r + 1, c->requests + c->count--, r);
      if (c->current > r) --c->current;
    }
  }
  return WEFT_OK;
}

constexpr uint32_t kCan = WEFT_NET_HOST_MEMORY | WEFT_NET_NEEDS_PROGRESS;
constexpr weft_net_device kDevice = {  // Zero and -1: unknown, none.
    sizeof(weft_net_device), kCan, "local", "", 0, 0, 0, 0, 0, -1, -1, -1, 1, kMaxRequests,
    uint64_t{1} << 40,       0,    nullptr, 0,  0};

// Entries that are left out are NULL: the host knows which are optional.
constexpr weft_net_interface kNet = {
    .struct_size = sizeof(weft_net_interface),
    .open = [](weft_plugin* plugin, const weft_net_open_info*, weft_net** out) -> weft_result {
      *out = new (std::nothrow) weft_net{.host = plugin->host};
      return *out != nullptr ? WEFT_OK : weft_net{.host = plugin->host}.no_memory();
    },
    .close = [](weft_net* net) { delete net; },
    .devices = [](weft_net*, const weft_net_device** devices, uint64_t* stride,
                  uint64_t* count) -> weft_result {
      *devices = &kDevice, *stride = sizeof kDevice, *count = 1;
      return WEFT_OK;
    },
    .listen = listen_on,
    .close_listener = [](weft_net_listener* listener) { delete listener; },
    .connect = connect_to,
    .accept = accept_from,
    .ready = [](weft_net_connection* c) -> weft_result {
      c->progress();
      const bool told = std::exchange(c->told_ready, true) || c->net->aborted;
      return c->failed && told ? c->net->fail(c->failed, c->why) : WEFT_OK;
    },
    .close_connection = [](weft_net_connection* connection) { delete connection; },
    // The kernel copies from any memory of the process: there is nothing to register.
    .register_memory = [](weft_net_connection* c, const weft_net_register_info* info,
                          weft_net_registration** out) -> weft_result {
      if (info->kind != WEFT_MEMORY_HOST) return c->net->fail(WEFT_ERROR_UNSUPPORTED, "not host");
      *out = reinterpret_cast<weft_net_registration*>(c->net);
      return WEFT_OK;
    },
    .deregister_memory = [](weft_net_registration*) {},
    .isend = [](weft_net_connection* c, const weft_net_send* m,
                weft_net_request** out) -> weft_result {
      char* data = static_cast<char*>(const_cast<void*>(m->data));
      return c->start({{m->size, m->value, m->tag}, m->user, 0, data}, out);
    },
    .irecv = [](weft_net_connection* c, const weft_net_recv* b, uint64_t, uint64_t,
                weft_net_request** out) -> weft_result {
      return c->start({{0, 0, b->tag}, b->user, b->size, static_cast<char*>(b->data)}, out);
    },
    .poll = report,
    .abort = [](weft_net* net) { net->aborted = true; },
    .get_error = [](weft_net_connection* c, char* text, uint64_t size) -> weft_result {
      std::snprintf(text, size, "%s", c->why);
      return WEFT_OK;
    },
};
constexpr weft_interface kInterfaces[] = {{sizeof(weft_interface), 0, WEFT_NET_INTERFACE}};
}  // namespace
WEFT_PLUGIN_EXPORT constinit const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .draft = WEFT_PLUGIN_DRAFT,
    .id = "net-example",
    .version = "0.1.0",
    .vendor = "The Weft authors",
    .description = "A small net plugin to learn from: Unix sockets of one host.",
    .interfaces = kInterfaces,
    .interface_count = 1,
    .interface_stride = sizeof(weft_interface),
    .init = [](const weft_host* host, weft_plugin** out) -> weft_result {
      *out = new (std::nothrow) weft_plugin{host};
      return *out != nullptr ? WEFT_OK : WEFT_ERROR_OUT_OF_MEMORY;
    },
    .deinit = [](weft_plugin* plugin) { delete plugin; },
    .get_interface = [](weft_plugin*, const char* id) -> const void* {
      return std::strcmp(id, WEFT_NET_INTERFACE) == 0 ? &kNet : nullptr;
    },
};
