// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/machine.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/topology/codec.h"
#include "core/topology/pci_tree.h"

namespace weft {
namespace {

constexpr const char* kSpeedKey = "WeftSpeedMbps";
constexpr const char* kStateKey = "WeftState";
constexpr const char* kAddressesKey = "WeftAddresses";
constexpr std::string_view kUp = "up";
constexpr std::string_view kDown = "down";

Error hwloc_error(std::string_view what) {
  return Error::from_errno(errno, fmt::format("hwloc could not {}", what));
}

/// A machine not yet loaded, set to tell of NICs and GPUs and of what lies above them.
Result<Machine> start_machine() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(hwloc_error("start"));
  Machine machine(raw);
  // Where they are installed, these open drivers and displays, to tell what is not asked for here.
  // "pci" is a library that keeps memory for each device for good; the kernel's own files tell
  // hwloc the same.
  for (const char* component : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
      hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0) {
    return fail(hwloc_error("take its flags"));
  }
  return machine;
}

std::uint32_t count_of(const Machine& machine, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(machine.get(), type);
  return static_cast<std::uint32_t>(std::clamp(count, 0, static_cast<int>(kMaxCpus)));
}

std::uint64_t cache_bytes(const Machine& machine, hwloc_obj_type_t type) {
  const hwloc_obj* const cache = hwloc_get_obj_by_type(machine.get(), type, 0);
  return cache == nullptr || cache->attr == nullptr ? 0 : cache->attr->cache.size;
}

std::vector<CpuRange> ranges_of(hwloc_const_bitmap_t cpus) {
  std::vector<CpuRange> ranges;
  if (cpus == nullptr) return ranges;
  for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0 && cpu < static_cast<int>(kMaxCpus);
       cpu = hwloc_bitmap_next(cpus, cpu)) {
    const auto number = static_cast<std::uint32_t>(cpu);
    if (!ranges.empty() && ranges.back().last + 1 == number) {
      ranges.back().last = number;
    } else if (ranges.size() < kMaxCpuRanges) {
      ranges.push_back({.first = number, .last = number});
    }
  }
  return ranges;
}

std::vector<NumaNode> numa_nodes_of(const Machine& machine) {
  std::vector<NumaNode> nodes;
  for (std::uint32_t i = 0; i < count_of(machine, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj* const node = hwloc_get_obj_by_type(machine.get(), HWLOC_OBJ_NUMANODE, i);
    if (nodes.size() == kMaxNumaNodes || node->os_index >= kMaxCpus) continue;
    nodes.push_back({.number = node->os_index,
                     .memory_bytes = node->attr == nullptr ? 0 : node->attr->numanode.local_memory,
                     .cpus = ranges_of(node->cpuset)});
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  const auto twice = std::ranges::unique(nodes, {}, &NumaNode::number);
  nodes.erase(twice.begin(), twice.end());
  return nodes;
}

std::string info_of(const hwloc_obj* object, const char* key) {
  // hwloc's lookup takes a pointer to what it does not change.
  const char* value = hwloc_obj_get_info_by_name(const_cast<hwloc_obj*>(object), key);
  return value == nullptr ? std::string() : std::string(value);
}

/// Names of a file end up on terminals and travel to peers, who refuse what is long or cannot be
/// printed.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), kMaxTextLength));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

bool is_interface(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_OS_DEVICE && object->attr != nullptr &&
         object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && object->name != nullptr;
}

bool is_root(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr != nullptr &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

std::string pci_address(const hwloc_obj* object) {
  const auto& pci = object->attr->pcidev;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

/// Whether the operating system has a driver for it that moves messages: functions without one, or
/// handed to virtual machines, are of no use here.
bool has_driver(const hwloc_obj* device) {
  for (const hwloc_obj* child = device->io_first_child; child != nullptr;
       child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->attr == nullptr) continue;
    const auto type = child->attr->osdev.type;
    if (type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS) return true;
  }
  return false;
}

/// What computes, by class and vendor: graphics for consoles of servers has the same class.
bool is_gpu(const hwloc_obj* device) {
  constexpr std::array<std::uint32_t, 3> kVendors = {0x10de, 0x1002, 0x8086};  // NVIDIA, AMD, Intel
  constexpr std::uint32_t kDisplay = 0x03;
  constexpr std::uint32_t kAccelerator = 0x12;
  const auto& pci = device->attr->pcidev;
  const std::uint32_t base_class = pci.class_id >> 8U;
  return (base_class == kDisplay || base_class == kAccelerator) &&
         std::ranges::find(kVendors, pci.vendor_id) != kVendors.end();
}

std::optional<PciKind> kind_of(const hwloc_obj* object) {
  if (object->attr == nullptr) return std::nullopt;
  if (object->type == HWLOC_OBJ_BRIDGE) return PciKind::kBridge;
  if (object->type != HWLOC_OBJ_PCI_DEVICE) return std::nullopt;
  if (has_driver(object)) return PciKind::kNic;
  if (is_gpu(object)) return PciKind::kGpu;
  return std::nullopt;
}

/// The tree below one host bridge, with all its bridges. hwloc's own objects are what bounds it.
void add_tree(const hwloc_obj* object, std::uint32_t parent, std::vector<PciNode>& nodes) {
  for (const hwloc_obj* child = object->io_first_child; child != nullptr;
       child = child->next_sibling) {
    const auto kind = kind_of(child);
    if (!kind) continue;
    nodes.push_back({.kind = *kind, .address = pci_address(child), .parent = parent});
    if (*kind == PciKind::kBridge) {
      add_tree(child, static_cast<std::uint32_t>(nodes.size() - 1), nodes);
    }
  }
}

std::optional<std::uint32_t> numa_node_of(const Machine& machine, hwloc_obj* bridge) {
  if (count_of(machine, HWLOC_OBJ_NUMANODE) < 2) return std::nullopt;
  const hwloc_obj* const place = hwloc_get_non_io_ancestor_obj(machine.get(), bridge);
  if (place == nullptr || place->nodeset == nullptr || hwloc_bitmap_weight(place->nodeset) != 1) {
    return std::nullopt;
  }
  const int number = hwloc_bitmap_first(place->nodeset);
  if (number < 0 || number >= static_cast<int>(kMaxCpus)) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::vector<PciNode> pci_of(const Machine& machine) {
  std::vector<PciNode> nodes;
  for (hwloc_obj* bridge = hwloc_get_next_bridge(machine.get(), nullptr); bridge != nullptr;
       bridge = hwloc_get_next_bridge(machine.get(), bridge)) {
    if (!is_root(bridge)) continue;
    const auto& below = bridge->attr->bridge.downstream.pci;
    const auto index = static_cast<std::uint32_t>(nodes.size());
    nodes.push_back({.kind = PciKind::kRoot,
                     .address = fmt::format("{:04x}:{:02x}", below.domain, below.secondary_bus),
                     .parent = index,
                     .numa_node = numa_node_of(machine, bridge)});
    add_tree(bridge, index, nodes);
  }
  return prune(nodes);
}

/// The PCI device that an interface hangs on.
const hwloc_obj* device_of(const hwloc_obj* interface) {
  const hwloc_obj* device = interface->parent;
  while (device != nullptr && device->type == HWLOC_OBJ_OS_DEVICE)
    device = device->parent;
  return device != nullptr && device->type == HWLOC_OBJ_PCI_DEVICE && device->attr != nullptr
             ? device
             : nullptr;
}

hwloc_obj* root_of(hwloc_obj* object) {
  while (object != nullptr && !is_root(object))
    object = object->parent;
  return object;
}

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

/// Those words that are IPv4 or IPv6 addresses.
std::vector<std::string> addresses_in(const std::string& text) {
  std::vector<std::string> addresses;
  std::istringstream words(text);
  for (std::string word; words >> word && addresses.size() < kMaxAddresses;) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    if (inet_pton(AF_INET, word.c_str(), bytes.data()) == 1 ||
        inet_pton(AF_INET6, word.c_str(), bytes.data()) == 1) {
      addresses.push_back(word);
    }
  }
  return addresses;
}

}  // namespace

Result<Machine> load_machine() {
  WEFT_TRY_ASSIGN(Machine machine, start_machine());
  if (hwloc_topology_load(machine.get()) != 0) return fail(hwloc_error("describe this machine"));
  return machine;
}

Result<Machine> parse_machine(std::string_view xml) {
  WEFT_TRY_ASSIGN(Machine machine, start_machine());
  // hwloc counts the zero byte at the end.
  const std::string text(xml);
  errno = 0;
  if (hwloc_topology_set_xmlbuffer(machine.get(), text.c_str(),
                                   static_cast<int>(text.size() + 1)) != 0 ||
      hwloc_topology_load(machine.get()) != 0) {
    return fail(errno == 0 ? Error(WEFT_ERROR_INVALID_ARGUMENT, "hwloc does not understand it")
                           : hwloc_error("understand it"));
  }
  return machine;
}

void describe_machine(const Machine& machine, HostInfo& host) {
  host.packages = count_of(machine, HWLOC_OBJ_PACKAGE);
  host.cores = count_of(machine, HWLOC_OBJ_CORE);
  host.hardware_threads = count_of(machine, HWLOC_OBJ_PU);
  // Some virtual machines and architectures report no cores.
  if (host.cores == 0) host.cores = host.hardware_threads;
  host.memory_bytes = hwloc_get_root_obj(machine.get())->total_memory;
  host.l2_bytes = cache_bytes(machine, HWLOC_OBJ_L2CACHE);
  host.l3_bytes = cache_bytes(machine, HWLOC_OBJ_L3CACHE);
  host.numa_nodes = numa_nodes_of(machine);
  host.pci = pci_of(machine);
}

std::vector<NicInfo> machine_nics(const Machine& machine) {
  std::vector<NicInfo> nics;
  for (hwloc_obj* object = hwloc_get_next_osdev(machine.get(), nullptr); object != nullptr;
       object = hwloc_get_next_osdev(machine.get(), object)) {
    if (!is_interface(object) || nics.size() == kMaxNics) continue;
    NicInfo nic{.name = printable(object->name)};
    if (const hwloc_obj* device = device_of(object); device != nullptr) {
      nic.pci_path = pci_address(device);
    }
    if (hwloc_obj* root = root_of(object); root != nullptr) {
      nic.numa_node = numa_node_of(machine, root);
    }
    nic.speed_mbps = number_in(info_of(object, kSpeedKey));
    nic.addresses = addresses_in(info_of(object, kAddressesKey));
    const std::string state = info_of(object, kStateKey);
    if (state == kUp || state == kDown) nic.up = state == kUp;
    nics.push_back(std::move(nic));
  }
  std::ranges::sort(nics, {}, &NicInfo::name);
  return nics;
}

std::string machine_name(const Machine& machine) {
  return printable(info_of(hwloc_get_root_obj(machine.get()), "HostName"));
}

Result<std::string> export_machine(const Machine& machine, std::span<const NicInfo> nics) {
  for (hwloc_obj* object = hwloc_get_next_osdev(machine.get(), nullptr); object != nullptr;
       object = hwloc_get_next_osdev(machine.get(), object)) {
    if (!is_interface(object)) continue;
    const auto nic = std::ranges::find(nics, std::string_view(object->name), &NicInfo::name);
    if (nic == nics.end()) continue;
    const std::string speed = nic->speed_mbps ? fmt::format("{}", *nic->speed_mbps) : "";
    const std::string state(!nic->up ? "" : *nic->up ? kUp : kDown);
    const std::string addresses = fmt::format("{}", fmt::join(nic->addresses, " "));
    for (const auto& [key, value] : {std::pair(kSpeedKey, speed), std::pair(kStateKey, state),
                                     std::pair(kAddressesKey, addresses)}) {
      if (!value.empty() && hwloc_obj_add_info(object, key, value.c_str()) != 0) {
        return fail(hwloc_error("note what is known of an interface"));
      }
    }
  }
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(machine.get(), &buffer, &length, 0) != 0) {
    return fail(hwloc_error("write this machine as XML"));
  }
  // The length counts the zero byte at the end.
  std::string text(buffer, static_cast<std::size_t>(std::max(length - 1, 0)));
  hwloc_free_xmlbuffer(machine.get(), buffer);
  return text;
}

}  // namespace weft
