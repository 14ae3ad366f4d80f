// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The entry of weft-p2p.so: what it is called, what it offers, how an instance begins and ends.
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "plugins/p2p/transport.h"

namespace weft::p2p {
namespace {

weft_result init(const weft_host* services, weft_plugin** out) {
  return plugins::guarded(plugins::Host(services), [&] {
    auto plugin = std::make_unique<weft_plugin>(services);
    plugin->huge_pages = plugin->host.flag("huge_pages", true);
    const std::string sharing = plugin->host.text("device_sharing", "auto");
    if (sharing == "descriptor") {
      plugin->device_sharing = WEFT_SHARING_DESCRIPTOR;
    } else if (sharing == "ipc") {
      plugin->device_sharing = WEFT_SHARING_IPC;
    } else if (sharing != "auto") {
      return plugin->host.fail(
          WEFT_ERROR_CONFIG,
          "p2p.device_sharing: \"" + sharing + "\" is none of auto, descriptor, ipc",
          "weft config explain p2p.device_sharing shows where it was set");
    }
    const std::string mode = plugin->host.text("mode", "write");
    if (mode == "read") {
      plugin->mode = Mode::kRead;
    } else if (mode != "write") {
      return plugin->host.fail(WEFT_ERROR_CONFIG,
                               "p2p.mode: \"" + mode + "\" is none of write, read",
                               "weft config explain p2p.mode shows where it was set");
    }
    if (plugin->mode == Mode::kRead && (plugin->device_sharing & WEFT_SHARING_DESCRIPTOR) == 0) {
      return plugin->host.fail(
          WEFT_ERROR_CONFIG,
          "p2p.mode: read needs GPU memory that travels by a descriptor, which p2p.device_sharing "
          "leaves out",
          "set p2p.device_sharing to auto, or p2p.mode to write");
    }
    *out = plugin.release();
    return weft_result{WEFT_OK};
  });
}

void deinit(weft_plugin* plugin) {
  const std::unique_ptr<weft_plugin> owner(plugin);
}

const void* get_interface(weft_plugin* /*plugin*/, const char* id) {
  return std::strcmp(id, WEFT_TRANSPORT_INTERFACE) == 0 ? &kInterface : nullptr;
}

constexpr std::array<weft_interface, 1> kInterfaces = {{
    {.struct_size = sizeof(weft_interface), .reserved = 0, .id = WEFT_TRANSPORT_INTERFACE},
}};

constexpr std::array<weft_parameter, 3> kParameters = {{
    {.struct_size = sizeof(weft_parameter),
     .type = WEFT_PARAMETER_TEXT,
     .name = "device_sharing",
     .unit = "",
     .default_value = "auto",
     .help =
         "How GPU memory reaches other ranks: descriptor (a file descriptor), ipc (CUDA IPC) or "
         "auto (the first that the device has).",
     .minimum = 0,
     .maximum = 0},
    {.struct_size = sizeof(weft_parameter),
     .type = WEFT_PARAMETER_FLAG,
     .name = "huge_pages",
     .unit = "",
     .default_value = "true",
     .help = "Ask the kernel for huge pages for connection buffers.",
     .minimum = 0,
     .maximum = 1},
    {.struct_size = sizeof(weft_parameter),
     .type = WEFT_PARAMETER_TEXT,
     .name = "mode",
     .unit = "",
     .default_value = "write",
     .help = "How what goes by slots gets from GPU to GPU: write (the sender's kernel stores it at "
             "the receiver) or read (the receiver's loads it from the sender); lines are always "
             "written. The same on all ranks.",
     .minimum = 0,
     .maximum = 0},
}};

}  // namespace
}  // namespace weft::p2p

WEFT_PLUGIN_EXPORT const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .abi_version = WEFT_PLUGIN_ABI_VERSION,
    .abi_oldest = WEFT_PLUGIN_ABI_VERSION,
    .draft = WEFT_PLUGIN_DRAFT,
    .id = "p2p",
    .version = "0.1.0",
    .vendor = "The Weft authors",
    .description = "Ranks of one process, by pointer.",
    .interfaces = weft::p2p::kInterfaces.data(),
    .interface_count = weft::p2p::kInterfaces.size(),
    .interface_stride = sizeof(weft_interface),
    .parameters = weft::p2p::kParameters.data(),
    .parameter_count = weft::p2p::kParameters.size(),
    .parameter_stride = sizeof(weft_parameter),
    .init = weft::p2p::init,
    .deinit = weft::p2p::deinit,
    .get_interface = weft::p2p::get_interface,
    .get_extension = nullptr,
    .quiesce = nullptr,
};
