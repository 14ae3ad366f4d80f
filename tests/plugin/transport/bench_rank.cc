// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks, counters and patterns for the tests of transports.
#include "tests/plugin/transport/bench_rank.h"

#include <atomic>
#include <climits>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <linux/futex.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace weft::test {

const weft_plugin_descriptor* load_plugin(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const void* symbol = ::dlsym(library, "weft_plugin_entry");
  if (symbol == nullptr) throw std::runtime_error(path + " has no weft_plugin_entry");
  return static_cast<const weft_plugin_descriptor*>(symbol);
}

Key default_key() {
  Key key(32);
  for (std::size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<std::uint8_t>((7 * i) + 1);
  return key;
}

Bytes copy_blob(const weft_blob& blob) {
  const auto* first = static_cast<const std::uint8_t*>(blob.data);
  return {first, first + blob.size};
}

weft_blob as_blob(const Bytes& bytes) {
  return {bytes.empty() ? nullptr : bytes.data(), bytes.size()};
}

Rank::Rank(const weft_plugin_descriptor* entry, Options options)
    : options_(std::move(options)), entry_(entry) {
  for (const auto& [name, value] : options_.parameters)
    host_.set_text(name, value);
  if (options_.memory != nullptr) host_.offer_memory(*options_.memory);
  if (entry->init(host_.services(), &plugin_) != WEFT_OK) {
    throw std::runtime_error("init: " + host_.last_error().what);
  }
  table_ = static_cast<const weft_transport_interface*>(
      entry->get_interface(plugin_, WEFT_TRANSPORT_INTERFACE));
  join(options_.communicator);
}

Rank::~Rank() {
  leave();
  entry_->deinit(plugin_);
}

void Rank::leave() {
  if (transport_ != nullptr) table_->close(transport_);
  transport_ = nullptr;
}

void Rank::join(std::uint64_t communicator) {
  weft_transport_open_info info{};
  info.struct_size = sizeof(info);
  info.rank = options_.rank;
  info.ranks = options_.ranks;
  info.device = options_.device;
  info.communicator = communicator;
  info.key = options_.key.data();
  info.key_size = options_.key.size();
  info.host_id = options_.host_id.c_str();
  if (table_->open(plugin_, &info, &transport_) != WEFT_OK) {
    throw std::runtime_error("open: " + host_.last_error().what);
  }
}

Bytes Rank::peer_info() const {
  weft_blob blob{};
  if (table_->peer_info(transport_, &blob) != WEFT_OK) throw std::runtime_error("peer_info");
  return copy_blob(blob);
}

weft_can_connect Rank::can_connect(std::uint32_t rank, const Bytes& info, bool same_process,
                                   bool same_host) const {
  weft_peer peer{};
  peer.struct_size = sizeof(peer);
  peer.rank = rank;
  peer.same_process = same_process ? 1 : 0;
  peer.same_host = same_host ? 1 : 0;
  peer.info = as_blob(info);
  weft_can_connect answer{};
  answer.struct_size = sizeof(answer);
  if (table_->can_connect(transport_, &peer, &answer) != WEFT_OK) {
    throw std::runtime_error("can_connect: " + host_.last_error().what);
  }
  return answer;
}

weft_connection* Rank::prepare(weft_direction direction, std::uint32_t peer, std::uint64_t number,
                               const std::vector<Protocol>& protocols, weft_result* result) {
  std::vector<weft_protocol_request> wanted;
  wanted.reserve(protocols.size());
  for (const Protocol& one : protocols) {
    wanted.push_back({sizeof(weft_protocol_request), one.protocol, one.steps, one.step_bytes});
  }
  weft_connection_request request{};
  request.struct_size = sizeof(request);
  request.direction = direction;
  request.peer = peer;
  request.number = number;
  request.protocols = wanted.data();
  request.protocol_count = static_cast<std::uint32_t>(wanted.size());
  request.protocol_stride = sizeof(weft_protocol_request);
  weft_connection* connection = nullptr;
  const weft_result got = table_->prepare(transport_, &request, sizeof(request), 1, &connection);
  if (result != nullptr) *result = got;
  return connection;
}

Bytes Rank::blob(const weft_transport_interface& table, weft_connection* connection) {
  weft_blob blob{};
  if (table.connection_blob(connection, &blob) != WEFT_OK) throw std::runtime_error("blob");
  return copy_blob(blob);
}

weft_result Rank::connect(weft_connection* connection, const Bytes& peer_blob) const {
  const weft_blob blob = as_blob(peer_blob);
  return table_->connect(transport_, &connection, &blob, 1);
}

weft_protocol_view Rank::describe(weft_connection* connection, weft_protocol protocol) const {
  weft_protocol_view view{};
  view.struct_size = sizeof(view);
  if (table_->describe(connection, protocol, &view) != WEFT_OK) {
    throw std::runtime_error("describe: " + host_.last_error().what);
  }
  return view;
}

std::uint64_t count_descriptors() {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

std::uint64_t count_lines(const std::string& file, const std::string& text) {
  std::ifstream stream(file);
  std::uint64_t count = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.find(text) != std::string::npos) ++count;
  }
  return count;
}

bool is_mapped(const void* address) {
  constexpr std::uintptr_t kPage = 4096;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the start of the page.
  auto* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / kPage * kPage);
  return ::msync(page, kPage, MS_ASYNC) == 0;
}

void wait_for(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value,
              std::uint32_t* error) {
  std::atomic_ref word(*counter);
  if (waiters == nullptr) {
    while (word.load() < value && (error == nullptr || std::atomic_ref(*error).load() == 0))
      std::this_thread::yield();
    return;
  }
  std::atomic_ref sleepers(*waiters);
  for (int spin = 0; spin < 100; ++spin) {
    if (word.load(std::memory_order_acquire) >= value) return;
  }
  sleepers.fetch_add(1);
  for (;;) {
    const std::uint64_t seen = word.load();
    if (seen >= value || (error != nullptr && std::atomic_ref(*error).load() != 0)) break;
    ::syscall(SYS_futex, counter, FUTEX_WAIT, static_cast<std::uint32_t>(seen), nullptr, nullptr,
              0);
  }
  sleepers.fetch_sub(1);
}

void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
  std::atomic_ref(*counter).store(value);
  if (waiters != nullptr && std::atomic_ref(*waiters).load() != 0) {
    ::syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

namespace {

std::uint64_t pattern(std::uint64_t seed, std::uint64_t step, std::uint64_t word) {
  return (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + step * UINT64_C(0x100000001B3) + word;
}

}  // namespace

void send_pattern(const weft_protocol_view& view, std::uint64_t steps, std::uint64_t seed) {
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (step >= view.steps) {
      wait_for(view.head, view.head_waiters, step + 1 - view.steps, view.error);
    }
    const std::uint64_t slot = step % view.steps;
    auto* words = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(view.buffer) +
                                                   (slot * view.step_bytes));
    for (std::uint64_t i = 0; i < view.step_bytes / 8; ++i)
      words[i] = pattern(seed, step, i);
    view.slots[slot] = {view.step_bytes, 0, seed ^ step};
    post(view.tail, view.tail_waiters, step + 1);
  }
}

std::uint64_t receive_pattern(const weft_protocol_view& view, std::uint64_t steps,
                              std::uint64_t seed) {
  std::uint64_t wrong = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    wait_for(view.tail, view.tail_waiters, step + 1, view.error);
    const std::uint64_t slot = step % view.steps;
    auto* words = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(view.buffer) +
                                                   (slot * view.step_bytes));
    bool good = view.slots[slot].size == view.step_bytes && view.slots[slot].offset == 0 &&
                view.slots[slot].tag == (seed ^ step);
    for (std::uint64_t i = 0; i < view.step_bytes / 8; ++i) {
      good = good && words[i] == pattern(seed, step, i);
      words[i] = ~words[i];  // what has come is the receiver's own until it gives the slot back
    }
    wrong += good ? 0 : 1;
    post(view.head, view.head_waiters, step + 1);
  }
  return wrong;
}

}  // namespace weft::test
