// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The short forms of the net suites.
#include "tests/plugin/net/net_rank.h"

#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace weft::test {
namespace {

const weft_plugin_descriptor* g_plugin = nullptr;

}  // namespace

std::optional<std::string> load_plugin_under_test(const std::string& path) {
  void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return ::dlerror();
  g_plugin = static_cast<const weft_plugin_descriptor*>(::dlsym(library, "weft_plugin_entry"));
  if (g_plugin == nullptr) return path + " exports no weft_plugin_entry";
  return std::nullopt;
}

const weft_plugin_descriptor& plugin_under_test() {
  return *g_plugin;
}

std::map<std::string, std::string>& common_parameters() {
  static std::map<std::string, std::string> parameters;
  return parameters;
}

std::optional<std::string> add_common_parameter(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return text + " is not of the form PARAMETER=VALUE";
  common_parameters()[text.substr(0, equals)] = text.substr(equals + 1);
  return std::nullopt;
}

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::uint8_t& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::uint8_t>(state >> 32);
  }
  return bytes;
}

bool eventually(const std::function<bool()>& step, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!step()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

NetRank::NetRank(const Options& options) {
  std::map<std::string, std::string> parameters = options.parameters;
  parameters.insert(common_parameters().begin(), common_parameters().end());
  const weft_plugin_descriptor& plugin = plugin_under_test();
  for (std::uint32_t i = 0; i < plugin.parameter_count; ++i) {
    const auto* parameter = reinterpret_cast<const weft_parameter*>(
        reinterpret_cast<const unsigned char*>(plugin.parameters) +
        std::size_t{i} * plugin.parameter_stride);
    const auto given = parameters.find(parameter->name);
    if (given == parameters.end()) continue;
    const ParameterValue value = parse_parameter(parameter->type, given->second);
    if (parameter->type == WEFT_PARAMETER_TEXT) {
      host_.set_text(parameter->name, value.text);
    } else if (parameter->type == WEFT_PARAMETER_LIST) {
      host_.set_list(parameter->name, value.items);
    } else {
      host_.set_number(parameter->name, parameter->type, value.number);
    }
  }
  host_.use_defaults(plugin);
  opened_ = plugin.init(host_.services(), &plugin_);
  if (opened_ != WEFT_OK) return;
  api_ = static_cast<const weft_net_interface*>(plugin.get_interface(plugin_, WEFT_NET_INTERFACE));
  weft_net_open_info info{};
  info.struct_size = sizeof info;
  info.rank = options.rank;
  info.ranks = 2;
  info.traffic_class = -1;
  info.job = 7;
  info.communicator = 11;
  info.key = options.key.data();
  info.key_size = options.key.size();
  opened_ = api_->open(plugin_, &info, &net_);
}

NetRank::~NetRank() {
  if (net_ != nullptr) api_->close(net_);
  if (plugin_ != nullptr) plugin_under_test().deinit(plugin_);
}

const weft_net_device& NetRank::device() {
  const weft_net_device* devices = nullptr;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  if (api_->devices(net_, &devices, &stride, &count) != WEFT_OK || count == 0) {
    throw std::runtime_error("no device: " + host_.last_error().what);
  }
  return *devices;
}

void NetRank::poll() {
  weft_net_completion completions[4] = {};
  for (auto& completion : completions)
    completion.struct_size = sizeof completion;
  std::uint64_t count = 0;
  const weft_result result = api_->poll(net_, completions, sizeof completions[0], 4, &count);
  ASSERT_EQ(result, WEFT_OK) << host_.last_error().what;
  ASSERT_LE(count, 4U);
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(completions[i].struct_size, sizeof completions[i]);
    const bool fresh = ended_.emplace(completions[i].user, completions[i]).second;
    EXPECT_TRUE(fresh) << "request " << completions[i].user << " was reported twice";
  }
}

std::optional<weft_net_completion> NetRank::take(std::uint64_t user) {
  const auto found = ended_.find(user);
  if (found == ended_.end()) return std::nullopt;
  const weft_net_completion completion = found->second;
  ended_.erase(found);
  return completion;
}

End::End(End&& other) noexcept
    : rank_(other.rank_),
      connection_(std::exchange(other.connection_, nullptr)),
      registrations_(std::exchange(other.registrations_, {})) {}

End& End::operator=(End&& other) noexcept {
  if (this != &other) {
    close();
    rank_ = other.rank_;
    connection_ = std::exchange(other.connection_, nullptr);
    registrations_ = std::exchange(other.registrations_, {});
  }
  return *this;
}

void End::close() {
  if (connection_ == nullptr) return;
  rank_->api().close_connection(std::exchange(connection_, nullptr));
  for (const auto& [memory, registration] : registrations_) {
    rank_->api().deregister_memory(registration);
  }
  registrations_.clear();
}

weft_net_registration* End::registration_of(const void* data, std::size_t size) {
  if (size == 0) return nullptr;
  const auto found = registrations_.find({data, size});
  if (found != registrations_.end()) return found->second;
  weft_net_register_info info{};
  info.struct_size = sizeof info;
  info.kind = WEFT_MEMORY_HOST;
  info.address = const_cast<void*>(data);
  info.size = size;
  info.dmabuf = -1;
  weft_net_registration* registration = nullptr;
  EXPECT_EQ(rank_->api().register_memory(connection_, &info, &registration), WEFT_OK);
  registrations_[{data, size}] = registration;
  return registration;
}

weft_result End::send(const Bytes& data, std::uint64_t user, std::uint32_t tag, std::uint64_t value,
                      weft_net_request** request, std::uint32_t flags) {
  weft_net_send message{};
  message.struct_size = sizeof message;
  message.tag = tag;
  message.data = data.data();
  message.size = data.size();
  message.value = value;
  message.registration = registration_of(data.data(), data.size());
  message.user = user;
  message.flags = flags;
  weft_net_request* ignored = nullptr;
  return rank_->api().isend(connection_, &message, request == nullptr ? &ignored : request);
}

weft_result End::receive(Bytes& room, std::uint64_t user, std::uint32_t tag,
                         weft_net_request** request) {
  weft_net_recv buffer{};
  buffer.struct_size = sizeof buffer;
  buffer.tag = tag;
  buffer.data = room.data();
  buffer.size = room.size();
  buffer.registration = registration_of(room.data(), room.size());
  buffer.user = user;
  weft_net_request* ignored = nullptr;
  return rank_->api().irecv(connection_, &buffer, sizeof buffer, 1,
                            request == nullptr ? &ignored : request);
}

weft_result End::receive_group(std::vector<Bytes>& rooms, std::uint64_t first_user,
                               std::uint32_t tag) {
  // A stride that is not the size, as a later version of the host would have it.
  struct Wide {
    weft_net_recv buffer;
    std::uint64_t later_field;
  };
  std::vector<Wide> buffers(rooms.size());
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    weft_net_recv& buffer = buffers[i].buffer;
    buffer.struct_size = sizeof(Wide);
    buffer.tag = tag;
    buffer.data = rooms[i].data();
    buffer.size = rooms[i].size();
    buffer.registration = registration_of(rooms[i].data(), rooms[i].size());
    buffer.user = first_user + i;
  }
  weft_net_request* request = nullptr;
  return rank_->api().irecv(connection_, &buffers[0].buffer, sizeof(Wide), buffers.size(),
                            &request);
}

void End::must_send(End& peer, const Bytes& data, std::uint64_t user, std::uint32_t tag,
                    std::uint64_t value) {
  weft_result result = WEFT_AGAIN;
  const bool in_time = eventually([&] {
    result = send(data, user, tag, value);
    if (result != WEFT_AGAIN) return true;
    rank_->poll();
    peer.rank().poll();
    return false;
  });
  ASSERT_TRUE(in_time) << "isend had no room for a minute";
  ASSERT_EQ(result, WEFT_OK) << rank_->host().last_error().what;
}

void End::must_receive(End& peer, Bytes& room, std::uint64_t user, std::uint32_t tag) {
  weft_result result = WEFT_AGAIN;
  const bool in_time = eventually([&] {
    result = receive(room, user, tag);
    if (result != WEFT_AGAIN) return true;
    rank_->poll();
    peer.rank().poll();
    return false;
  });
  ASSERT_TRUE(in_time) << "irecv had no room for a minute";
  ASSERT_EQ(result, WEFT_OK) << rank_->host().last_error().what;
}

std::string End::error_text() const {
  char text[512] = "";
  if (rank_->api().get_error != nullptr) {
    rank_->api().get_error(connection_, text, sizeof text);
  }
  return text;
}

Link make_link(NetRank& sender, NetRank& receiver) {
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  const weft_net_interface& api = receiver.api();
  receiver.device();
  sender.device();
  if (api.listen(receiver.net(), 0, &handle, &listener) != WEFT_OK) {
    throw std::runtime_error("listen: " + receiver.host().last_error().what);
  }
  weft_net_connection* from = nullptr;
  weft_net_connection* to = nullptr;
  if (api.connect(sender.net(), 0, handle, &from) < 0) {
    api.close_listener(listener);
    throw std::runtime_error("connect: " + sender.host().last_error().what);
  }
  weft_result from_ready = WEFT_IN_PROGRESS;
  weft_result to_ready = WEFT_IN_PROGRESS;
  const bool in_time = eventually([&] {
    if (to == nullptr) {
      to_ready = api.accept(listener, &to);
      if (to_ready == WEFT_OK) to_ready = WEFT_IN_PROGRESS;
    } else {
      to_ready = api.ready(to);
    }
    if (from_ready == WEFT_IN_PROGRESS) from_ready = api.ready(from);
    return (from_ready != WEFT_IN_PROGRESS && to_ready != WEFT_IN_PROGRESS) || from_ready < 0 ||
           to_ready < 0;
  });
  api.close_listener(listener);
  EXPECT_TRUE(in_time) << "no connection within a minute";
  EXPECT_EQ(from_ready, WEFT_OK) << sender.host().last_error().what;
  EXPECT_EQ(to_ready, WEFT_OK) << receiver.host().last_error().what;
  return {End(&sender, from), End(&receiver, to)};
}

weft_net_completion await(NetRank& rank, NetRank& other, std::uint64_t user) {
  std::optional<weft_net_completion> found;
  const bool in_time = eventually([&] {
    rank.poll();
    other.poll();
    found = rank.take(user);
    return found.has_value();
  });
  EXPECT_TRUE(in_time) << "request " << user << " did not end within a minute";
  if (found.has_value()) return *found;
  weft_net_completion none{};
  none.status = WEFT_ERROR_TIMEOUT;
  return none;
}

}  // namespace weft::test
