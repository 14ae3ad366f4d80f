// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/net_plugin.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/plugin/answers.h"

namespace weft {
namespace {

constexpr std::uint64_t kMaxDevices = 1024;
constexpr std::uint64_t kMaxDeviceStride = 65536;
constexpr std::size_t kMaxDeviceName = 4096;
/// What a device had in the first draft.
constexpr std::uint32_t kFirstDeviceSize = 112;
static_assert(offsetof(weft_net_device, reserved) + sizeof(std::uint32_t) == kFirstDeviceSize);

}  // namespace

NetPlugin::NetPlugin(const Plugin& plugin, const weft_net_interface& table,
                     MissingFunctions missing)
    : plugin_(&plugin), table_(table), missing_(std::move(missing)) {}

Result<NetPlugin> NetPlugin::wrap(const Plugin& plugin) {
  using Table = weft_net_interface;
  TableReader<Table> reader(plugin, WEFT_NET_INTERFACE);
  WEFT_TRY(reader.read());
  reader.require(&Table::open, "open")
      .require(&Table::close, "close")
      .require(&Table::devices, "devices")
      .require(&Table::listen, "listen")
      .require(&Table::close_listener, "close_listener")
      .require(&Table::connect, "connect")
      .require(&Table::accept, "accept")
      .require(&Table::ready, "ready")
      .require(&Table::close_connection, "close_connection")
      .require(&Table::register_memory, "register_memory")
      .require(&Table::deregister_memory, "deregister_memory")
      .require(&Table::isend, "isend")
      .require(&Table::irecv, "irecv")
      .require(&Table::poll, "poll")
      .require(&Table::abort, "abort");
  WEFT_TRY(reader.check());
  reader.allow(&Table::flush, "flush")
      .allow(&Table::progress, "progress")
      .allow(&Table::arm, "arm")
      .allow(&Table::cancel, "cancel")
      .allow(&Table::drain, "drain")
      .allow(&Table::next_event, "next_event")
      .allow(&Table::get_error, "get_error");
  return NetPlugin(plugin, reader.table(), reader.missing());
}

Error NetPlugin::error(weft_result code, std::string_view function) const {
  return table_error(*plugin_, missing_, WEFT_NET_INTERFACE, code, function);
}

// Why it failed; empty where nobody says.
std::string NetPlugin::text_of(weft_net_connection* connection) const {
  std::array<char, 1024> text{};
  const bool told = connection != nullptr && has("get_error") &&
                    table_.get_error(connection, text.data(), text.size()) == WEFT_OK;
  text.back() = '\0';
  std::string what = told ? text.data() : "";
  std::ranges::replace_if(
      what, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return what;
}

Error NetPlugin::request_error(weft_net_connection* connection, weft_result status) const {
  if (status >= 0 || status < WEFT_ERROR_INTERNAL) {
    return plugin_->defect("poll",
                           fmt::format("reported the status {} for a failed request", status));
  }
  std::string what = text_of(connection);
  if (what.empty()) {
    what =
        fmt::format("a request failed with {} and the plugin gave no reason", result_name(status));
  }
  return Error(status, std::move(what)).with_context(plugin_context(id()));
}

Error NetPlugin::call_error(weft_net_connection* connection, weft_result code,
                            std::string_view function) const {
  std::string what = text_of(connection);
  if (what.empty() || code < WEFT_ERROR_INTERNAL) return error(code, function);
  return Error(code, std::move(what)).with_context(plugin_context(id()));
}

Result<weft_net*> NetPlugin::open(const weft_net_open_info& info) const {
  plugin_->clear_error();
  weft_net* net = nullptr;
  const weft_result result = table_.open(plugin_->instance(), &info, &net);
  if (result != WEFT_OK) return fail(error(result, "open"));
  if (net == nullptr) return fail(plugin_->defect("open", "gave no net"));
  return net;
}

Result<NetDevice> NetPlugin::read_device(const weft_net_device& raw, std::uint64_t index,
                                         std::uint64_t count) const {
  const auto bad = [&](std::string_view what) {
    return fail(
        plugin_->defect("devices", fmt::format("gave device {} of {} {}", index, count, what)));
  };
  const auto is_text = [](const char* text) {
    return text != nullptr && ::strnlen(text, kMaxDeviceName) < kMaxDeviceName;
  };
  if (!is_text(raw.name) || *raw.name == '\0') return bad("without a name");
  if (!is_text(raw.pci_path)) return bad("without a PCI path (\"\" where it is unknown)");
  if (raw.max_receives == 0) return bad("that takes no receives");
  if (raw.max_requests == 0) return bad("that takes no requests");
  if (raw.max_message == 0) return bad("that takes no messages");
  if (raw.member_count > kMaxDevices || (raw.member_count != 0 && raw.members == nullptr)) {
    return bad(fmt::format("with {} members", raw.member_count));
  }
  NetDevice device;
  device.name = raw.name;
  device.pci_path = raw.pci_path;
  device.capabilities = raw.capabilities;
  device.guid = raw.guid;
  device.speed_mbps = raw.speed_mbps;
  device.latency_ns = raw.latency_ns;
  device.fabric_id = raw.fabric_id;
  device.port = raw.port;
  device.rail = raw.rail;
  device.plane = raw.plane;
  device.numa_node = raw.numa_node;
  device.max_receives = raw.max_receives;
  device.max_requests = raw.max_requests;
  device.max_message = raw.max_message;
  device.max_connections = raw.max_connections;
  for (std::uint32_t i = 0; i < raw.member_count; ++i) {
    if (raw.members[i] >= count || raw.members[i] == index) {
      return bad(fmt::format("made of device {}", raw.members[i]));
    }
    device.members.push_back(raw.members[i]);
  }
  return device;
}

Result<std::vector<NetDevice>> NetPlugin::devices(weft_net* net) const {
  plugin_->clear_error();
  const weft_net_device* list = nullptr;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  const weft_result result = table_.devices(net, &list, &stride, &count);
  if (result != WEFT_OK) return fail(error(result, "devices"));
  if (count == 0)
    return fail(plugin_->defect("devices", "gave none, which is an error to say why"));
  if (list == nullptr || count > kMaxDevices || stride < kFirstDeviceSize ||
      stride > kMaxDeviceStride || stride % alignof(weft_net_device) != 0) {
    return fail(plugin_->defect("devices", fmt::format("gave {} devices, {} bytes apart, at {}",
                                                       count, stride, fmt::ptr(list))));
  }
  std::vector<NetDevice> devices;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* at = reinterpret_cast<const char*>(list) + i * stride;
    weft_net_device raw{};
    std::memcpy(&raw.struct_size, at, sizeof(raw.struct_size));
    if (raw.struct_size < kFirstDeviceSize || raw.struct_size > stride) {
      return fail(plugin_->defect(
          "devices",
          fmt::format("gave a device of {} bytes in a place of {}", raw.struct_size, stride)));
    }
    std::memcpy(&raw, at, std::min<std::size_t>(raw.struct_size, sizeof(raw)));
    WEFT_TRY_ASSIGN(NetDevice device, read_device(raw, i, count));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<NetListening> NetPlugin::listen(weft_net* net, std::uint32_t device) const {
  plugin_->clear_error();
  weft_blob handle{};
  NetListening listening;
  const weft_result result = table_.listen(net, device, &handle, &listening.listener);
  if (result != WEFT_OK) return fail(error(result, "listen"));
  if (listening.listener == nullptr) return fail(plugin_->defect("listen", "gave no listener"));
  const auto bytes = checked_blob(*plugin_, "listen", handle, kMaxHandle);
  if (!bytes || bytes->empty()) {
    table_.close_listener(listening.listener);
    return bytes ? fail(plugin_->defect("listen", "gave an empty handle")) : fail(bytes.error());
  }
  listening.handle.assign(bytes->begin(), bytes->end());
  return listening;
}

Result<weft_net_connection*> NetPlugin::connect(weft_net* net, std::uint32_t device,
                                                std::span<const std::byte> handle) const {
  plugin_->clear_error();
  weft_net_connection* connection = nullptr;
  const weft_result result =
      table_.connect(net, device, {handle.data(), handle.size()}, &connection);
  if (result != WEFT_OK && result != WEFT_IN_PROGRESS) return fail(error(result, "connect"));
  if (connection == nullptr) return fail(plugin_->defect("connect", "gave no connection"));
  return connection;
}

Result<weft_net_connection*> NetPlugin::accept(weft_net_listener* listener) const {
  plugin_->clear_error();
  weft_net_connection* connection = nullptr;
  const weft_result result = table_.accept(listener, &connection);
  if (result == WEFT_IN_PROGRESS) return nullptr;
  if (result != WEFT_OK) return fail(error(result, "accept"));
  if (connection == nullptr) return fail(plugin_->defect("accept", "gave no connection"));
  return connection;
}

Result<bool> NetPlugin::ready(weft_net_connection* connection) const {
  plugin_->clear_error();
  const weft_result result = table_.ready(connection);
  if (result == WEFT_OK) return true;
  if (result == WEFT_IN_PROGRESS) return false;
  return fail(error(result, "ready"));
}

Result<weft_net_registration*> NetPlugin::register_memory(
    weft_net_connection* connection, const weft_net_register_info& info) const {
  plugin_->clear_error();
  weft_net_registration* registration = nullptr;
  const weft_result result = table_.register_memory(connection, &info, &registration);
  if (result != WEFT_OK) return fail(error(result, "register_memory"));
  if (registration == nullptr) {
    return fail(plugin_->defect("register_memory", "gave no registration"));
  }
  return registration;
}

Result<std::optional<int>> NetPlugin::arm(weft_net* net) const {
  plugin_->clear_error();
  std::int32_t descriptor = -1;
  const weft_result result = table_.arm(net, &descriptor);
  if (result == WEFT_AGAIN) return std::optional<int>();
  if (result != WEFT_OK) return fail(error(result, "arm"));
  if (descriptor < 0) {
    return fail(plugin_->defect("arm", fmt::format("gave the descriptor {}", descriptor)));
  }
  return std::optional<int>(descriptor);
}

Result<bool> NetPlugin::drain(weft_net* net) const {
  if (!has("drain")) return true;
  plugin_->clear_error();
  const weft_result result = table_.drain(net);
  if (result == WEFT_OK) return true;
  if (result == WEFT_IN_PROGRESS) return false;
  return fail(error(result, "drain"));
}

Result<std::optional<NetEvent>> NetPlugin::next_event(weft_net* net) const {
  if (!has("next_event")) return std::optional<NetEvent>();
  plugin_->clear_error();
  weft_net_event raw{};
  raw.struct_size = sizeof(raw);
  const weft_result result = table_.next_event(net, &raw);
  if (result == WEFT_AGAIN) return std::optional<NetEvent>();
  if (result != WEFT_OK) return fail(error(result, "next_event"));
  NetEvent event;
  event.kind = raw.kind;
  event.device = raw.device;
  WEFT_TRY_ASSIGN(event.text, checked_text(*plugin_, "next_event", "text", raw.text));
  return std::optional<NetEvent>(std::move(event));
}

}  // namespace weft
