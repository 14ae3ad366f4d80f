// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The entry of weft-shm.so: what it is called, what it offers, how an instance begins and ends.
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "plugins/shm/transport.h"

namespace weft::shm {
namespace {

weft_result init(const weft_host* services, weft_plugin** out) {
  return plugins::guarded(plugins::Host(services), [&] {
    auto plugin = std::make_unique<weft_plugin>(services);
    const std::string wanted = plugin->host.text("huge_pages", "off");
    const auto huge_pages = parse_huge_pages(wanted);
    if (!huge_pages) {
      return plugin->host.fail(WEFT_ERROR_CONFIG,
                               "shm.huge_pages: \"" + wanted + "\" is none of off, try, require",
                               "weft config explain shm.huge_pages shows where it was set");
    }
    plugin->huge_pages = *huge_pages;
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

constexpr std::array<weft_parameter, 1> kParameters = {{
    {.struct_size = sizeof(weft_parameter),
     .type = WEFT_PARAMETER_TEXT,
     .name = "huge_pages",
     .unit = "",
     .default_value = "off",
     .help = "Huge pages for connection buffers, of the host's pool: off, try (else ordinary "
             "pages) or require.",
     .minimum = 0,
     .maximum = 0},
}};

}  // namespace
}  // namespace weft::shm

WEFT_PLUGIN_EXPORT const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .abi_version = WEFT_PLUGIN_ABI_VERSION,
    .abi_oldest = WEFT_PLUGIN_ABI_VERSION,
    .draft = WEFT_PLUGIN_DRAFT,
    .id = "shm",
    .version = "0.1.0",
    .vendor = "The Weft authors",
    .description = "Ranks of one host, through memory that both map.",
    .interfaces = weft::shm::kInterfaces.data(),
    .interface_count = weft::shm::kInterfaces.size(),
    .interface_stride = sizeof(weft_interface),
    .parameters = weft::shm::kParameters.data(),
    .parameter_count = weft::shm::kParameters.size(),
    .parameter_stride = sizeof(weft_parameter),
    .init = weft::shm::init,
    .deinit = weft::shm::deinit,
    .get_interface = weft::shm::get_interface,
    .get_extension = nullptr,
    .quiesce = nullptr,
};
