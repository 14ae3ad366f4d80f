// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/inspect.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fd.h"
#include "core/config/problems.h"
#include "core/plugin/elf_image.h"
#include "plugin_api/net.h"
#include "plugin_api/observer.h"
#include "plugin_api/transport.h"
#include "plugin_api/tuner.h"

namespace weft {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;
constexpr std::uint32_t kMaxInterfaces = 64;
constexpr std::uint32_t kMaxParameters = 1024;
constexpr std::uint32_t kMaxExportStride = 4096;
constexpr std::uint64_t kMaxText = 4096;
constexpr std::uint32_t kFirstInterfaceSize = 16;
constexpr std::uint32_t kFirstParameterSize = 56;

static_assert(sizeof(weft_plugin_descriptor) >= kFirstDescriptorSize);
static_assert(offsetof(weft_plugin_descriptor, quiesce) + sizeof(void*) == kFirstDescriptorSize);
static_assert(offsetof(weft_interface, id) + sizeof(void*) == kFirstInterfaceSize);
static_assert(offsetof(weft_parameter, maximum) + sizeof(std::int64_t) == kFirstParameterSize);

/// What this weft speaks, reserved names included: those are no more than names to it yet.
constexpr std::array kKnownInterfaces = {
    WEFT_TRANSPORT_INTERFACE, WEFT_NET_INTERFACE,        WEFT_NET_RMA_INTERFACE,
    WEFT_TUNER_INTERFACE,     WEFT_OBSERVER_INTERFACE,   WEFT_TRANSPORT_GROUP_INTERFACE,
    WEFT_COLLNET_INTERFACE,   WEFT_NET_DEVICE_INTERFACE,
};

/// The part of an interface id before its revision.
std::string_view interface_name(std::string_view id) {
  return id.substr(0, id.find('/'));
}

std::unexpected<Error> bad(std::string what, std::string hint = {}) {
  return fail(WEFT_ERROR_PLUGIN, std::move(what), std::move(hint));
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// The length of the UTF-8 sequence of a printable character at the start of `text`, or 0.
std::size_t printable_sequence(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x20 || first == 0x7f) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U) return 0;
  }
  // U+0080 to U+009F are control characters as well.
  if (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) return 0;
  return length;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = printable_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// One of the entry's inline texts.
Result<std::string> inline_text(std::span<const std::byte> field, std::string_view name) {
  const auto* begin = reinterpret_cast<const char*>(field.data());
  const std::string_view all(begin, field.size());
  const std::string_view text = all.substr(0, all.find('\0'));
  if (text.size() == all.size()) {
    return bad(fmt::format("its {} fills all of its {} bytes and has no end", name, all.size()));
  }
  if (all.find_first_not_of('\0', text.size()) != std::string_view::npos) {
    return bad(fmt::format("its {} is followed by bytes that are not zero", name));
  }
  if (!is_printable(text)) {
    return bad(fmt::format("its {} is not printable UTF-8: {}", name, in_quotes(text)));
  }
  return std::string(text);
}

class EntryReader {
 public:
  EntryReader(const ElfImage& image, ElfSymbol entry) : image_(image), entry_(entry) {}

  Status read(PluginInfo& info);

 private:
  Status read_texts(PluginInfo& info, std::span<const std::byte> entry);
  Status read_interfaces(PluginInfo& info, std::span<const std::byte> entry);
  Status read_parameters(PluginInfo& info, std::span<const std::byte> entry);
  Status check_functions();
  Result<PluginParameterInfo> read_parameter(std::uint64_t address, std::uint32_t index);

  struct Table {
    std::uint64_t address = 0;
    std::uint32_t count = 0;
    std::uint32_t stride = 0;
  };
  Result<Table> read_table(std::span<const std::byte> entry, std::size_t pointer_offset,
                           std::size_t count_offset, std::uint32_t limit, std::uint32_t smallest,
                           std::string_view name);
  Result<std::string> read_text(std::uint64_t address, const std::string& name);

  const ElfImage& image_;
  ElfSymbol entry_;
};

Status EntryReader::read(PluginInfo& info) {
  constexpr std::size_t kHead = offsetof(weft_plugin_descriptor, id);
  const auto head = image_.bytes(entry_.address, kHead);
  if (!head) return bad("its weft_plugin_entry is cut off");
  const auto magic = load<std::uint64_t>(*head, offsetof(weft_plugin_descriptor, magic));
  if (magic != WEFT_PLUGIN_MAGIC) {
    return bad(fmt::format("its weft_plugin_entry begins with {:#018x}, not with the magic number "
                           "{:#018x}",
                           magic, WEFT_PLUGIN_MAGIC),
               "rebuild it against plugin_api/plugin.h");
  }
  info.struct_size = load<std::uint32_t>(*head, offsetof(weft_plugin_descriptor, struct_size));
  info.abi_version = load<std::uint32_t>(*head, offsetof(weft_plugin_descriptor, abi_version));
  info.abi_oldest = load<std::uint32_t>(*head, offsetof(weft_plugin_descriptor, abi_oldest));
  info.draft = load<std::uint32_t>(*head, offsetof(weft_plugin_descriptor, draft));
  const std::uint64_t size =
      std::min<std::uint64_t>(info.struct_size, sizeof(weft_plugin_descriptor));
  const bool agree = check_versions(info).has_value();
  if (agree && info.struct_size < kFirstDescriptorSize) {
    return bad(fmt::format("its weft_plugin_entry claims {} bytes, and has at least {}",
                           info.struct_size, kFirstDescriptorSize));
  }
  if (entry_.size != 0 && entry_.size < size) {
    return bad(fmt::format("its weft_plugin_entry claims {} bytes, and the file has {} for it",
                           info.struct_size, entry_.size));
  }
  const auto entry = image_.bytes(entry_.address, size);
  if (!entry) return bad("its weft_plugin_entry is cut off");
  if (!agree && size < offsetof(weft_plugin_descriptor, interfaces)) return {};
  WEFT_TRY(read_texts(info, *entry));
  if (!agree) return {};
  WEFT_TRY(read_interfaces(info, *entry));
  WEFT_TRY(read_parameters(info, *entry));
  WEFT_TRY(check_functions());
  info.tables_read = true;
  return {};
}

Status EntryReader::read_texts(PluginInfo& info, std::span<const std::byte> entry) {
  const auto field = [&](std::size_t offset, std::size_t size) {
    return entry.subspan(offset, size);
  };
  WEFT_TRY_ASSIGN(info.id, inline_text(field(offsetof(weft_plugin_descriptor, id),
                                             sizeof(weft_plugin_descriptor::id)),
                                       "id"));
  WEFT_TRY_ASSIGN(info.version, inline_text(field(offsetof(weft_plugin_descriptor, version),
                                                  sizeof(weft_plugin_descriptor::version)),
                                            "version"));
  WEFT_TRY_ASSIGN(info.vendor, inline_text(field(offsetof(weft_plugin_descriptor, vendor),
                                                 sizeof(weft_plugin_descriptor::vendor)),
                                           "vendor"));
  WEFT_TRY_ASSIGN(info.description, inline_text(field(offsetof(weft_plugin_descriptor, description),
                                                      sizeof(weft_plugin_descriptor::description)),
                                                "description"));
  if (!is_plugin_id(info.id)) {
    return bad(fmt::format("its id {} is not made of lower-case letters, digits and '-'",
                           in_quotes(info.id)));
  }
  return {};
}

Result<EntryReader::Table> EntryReader::read_table(std::span<const std::byte> entry,
                                                   std::size_t pointer_offset,
                                                   std::size_t count_offset, std::uint32_t limit,
                                                   std::uint32_t smallest, std::string_view name) {
  Table table;
  table.count = load<std::uint32_t>(entry, count_offset);
  table.stride = load<std::uint32_t>(entry, count_offset + sizeof(std::uint32_t));
  if (table.count == 0) return table;
  if (table.count > limit) {
    return bad(fmt::format("it claims {} {}, and {} are allowed", table.count, name, limit));
  }
  if (table.stride < smallest || table.stride > kMaxExportStride) {
    return bad(fmt::format("its {} lie {} bytes apart, and have {} to {}", name, table.stride,
                           smallest, kMaxExportStride));
  }
  WEFT_TRY_ASSIGN(const ElfPointer pointer, image_.pointer(entry_.address + pointer_offset));
  if (pointer.is_null() || pointer.external) {
    return bad(fmt::format("its list of {} {} is {}", table.count, name,
                           pointer.external ? "in another library" : "NULL"));
  }
  table.address = pointer.address;
  return table;
}

Result<std::string> EntryReader::read_text(std::uint64_t address, const std::string& name) {
  WEFT_TRY_ASSIGN(const ElfPointer pointer, image_.pointer(address));
  if (pointer.is_null()) return bad(fmt::format("{} is NULL", name));
  if (pointer.external) return bad(fmt::format("{} lies in another library", name));
  auto text = image_.text(pointer.address, kMaxText);
  if (!text) return bad(fmt::format("{} cannot be read: {}", name, text.error().what()));
  if (!is_printable(*text)) {
    return bad(fmt::format("{} is not printable UTF-8: {}", name, in_quotes(*text)));
  }
  return std::string(*text);
}

Status EntryReader::read_interfaces(PluginInfo& info, std::span<const std::byte> entry) {
  WEFT_TRY_ASSIGN(const Table table, read_table(entry, offsetof(weft_plugin_descriptor, interfaces),
                                                offsetof(weft_plugin_descriptor, interface_count),
                                                kMaxInterfaces, kFirstInterfaceSize, "interfaces"));
  for (std::uint32_t i = 0; i < table.count; ++i) {
    const std::uint64_t address = table.address + std::uint64_t{i} * table.stride;
    WEFT_TRY_ASSIGN(const auto line, image_.bytes(address, kFirstInterfaceSize));
    const auto size = load<std::uint32_t>(line, offsetof(weft_interface, struct_size));
    if (size < kFirstInterfaceSize || size > table.stride) {
      return bad(fmt::format("its interface {} claims {} bytes", i, size));
    }
    WEFT_TRY_ASSIGN(std::string id, read_text(address + offsetof(weft_interface, id),
                                              fmt::format("the id of its interface {}", i)));
    if (id.empty()) return bad(fmt::format("the id of its interface {} is empty", i));
    if (std::ranges::find(info.interfaces, id) != info.interfaces.end()) {
      return bad(fmt::format("it lists the interface {} twice", id));
    }
    info.interfaces.push_back(std::move(id));
  }
  return {};
}

Result<PluginParameterInfo> EntryReader::read_parameter(std::uint64_t address,
                                                        std::uint32_t index) {
  WEFT_TRY_ASSIGN(const auto line, image_.bytes(address, kFirstParameterSize));
  const auto size = load<std::uint32_t>(line, offsetof(weft_parameter, struct_size));
  if (size < kFirstParameterSize) {
    return bad(fmt::format("its parameter {} claims {} bytes", index, size));
  }
  PluginParameterInfo parameter;
  WEFT_TRY_ASSIGN(parameter.name, read_text(address + offsetof(weft_parameter, name),
                                            fmt::format("the name of its parameter {}", index)));
  const auto part = [&](std::string_view what) {
    return fmt::format("the {} of its parameter {}", what, in_quotes(parameter.name));
  };
  WEFT_TRY_ASSIGN(parameter.unit,
                  read_text(address + offsetof(weft_parameter, unit), part("unit")));
  WEFT_TRY_ASSIGN(parameter.default_value,
                  read_text(address + offsetof(weft_parameter, default_value), part("default")));
  WEFT_TRY_ASSIGN(parameter.help,
                  read_text(address + offsetof(weft_parameter, help), part("help")));
  parameter.type = load<weft_parameter_type>(line, offsetof(weft_parameter, type));
  parameter.minimum = load<std::int64_t>(line, offsetof(weft_parameter, minimum));
  parameter.maximum = load<std::int64_t>(line, offsetof(weft_parameter, maximum));
  if (parameter.type < WEFT_PARAMETER_FLAG || parameter.type > WEFT_PARAMETER_LIST) {
    return bad(
        fmt::format("{} is {}, which this weft does not know", part("type"), parameter.type));
  }
  return parameter;
}

Status EntryReader::read_parameters(PluginInfo& info, std::span<const std::byte> entry) {
  WEFT_TRY_ASSIGN(const Table table, read_table(entry, offsetof(weft_plugin_descriptor, parameters),
                                                offsetof(weft_plugin_descriptor, parameter_count),
                                                kMaxParameters, kFirstParameterSize, "parameters"));
  for (std::uint32_t i = 0; i < table.count; ++i) {
    WEFT_TRY_ASSIGN(PluginParameterInfo parameter,
                    read_parameter(table.address + std::uint64_t{i} * table.stride, i));
    const bool known = std::ranges::any_of(
        info.parameters, [&](const auto& other) { return other.name == parameter.name; });
    if (known) {
      return bad(fmt::format("it lists the parameter {} twice", in_quotes(parameter.name)));
    }
    info.parameters.push_back(std::move(parameter));
  }
  return {};
}

Status EntryReader::check_functions() {
  constexpr std::array<std::pair<std::size_t, std::string_view>, 3> kRequired = {{
      {offsetof(weft_plugin_descriptor, init), "init"},
      {offsetof(weft_plugin_descriptor, deinit), "deinit"},
      {offsetof(weft_plugin_descriptor, get_interface), "get_interface"},
  }};
  for (const auto& [offset, name] : kRequired) {
    WEFT_TRY_ASSIGN(const ElfPointer function, image_.pointer(entry_.address + offset));
    if (function.is_null()) return bad(fmt::format("its {} is NULL", name));
  }
  return {};
}

Result<PluginInfo> inspect(std::span<const std::byte> bytes) {
  WEFT_TRY_ASSIGN(const ElfImage image, ElfImage::parse(bytes));
  WEFT_TRY_ASSIGN(const auto entry, image.find(kPluginEntrySymbol));
  if (!entry) {
    return bad(fmt::format("it exports no symbol {}, so it is no weft plugin", kPluginEntrySymbol),
               "define it with WEFT_PLUGIN_EXPORT of plugin_api/plugin.h");
  }
  PluginInfo info;
  info.needed = image.needed();
  WEFT_TRY(EntryReader(image, *entry).read(info));
  return info;
}

Result<std::vector<std::byte>> read_file(const std::string& file) {
  // O_NONBLOCK: a FIFO of that name must not hold us up.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail(Error::from_errno(errno, "cannot be opened"));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(Error::from_errno(errno, "cannot be examined"));
  if (!S_ISREG(status.st_mode)) return bad("is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxFile) {
    return bad(fmt::format("has {} bytes, and at most {} are read", status.st_size, kMaxFile));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Error::from_errno(errno, "cannot be read"));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string_view base_name(std::string_view file) {
  return file.substr(file.rfind('/') + 1);
}

}  // namespace

bool is_plugin_id(std::string_view id) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !id.empty() && id.size() < sizeof(weft_plugin_descriptor::id) && is_letter(id.front()) &&
         std::ranges::all_of(
             id, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

Result<PluginInfo> inspect_plugin_bytes(std::span<const std::byte> bytes, std::string_view file) {
  auto info = inspect(bytes);
  if (!info) return fail(std::move(info).error().with_context(std::string(file)));
  info->file = file;
  return info;
}

Result<PluginInfo> inspect_plugin(const std::string& file) {
  const auto bytes = read_file(file);
  if (!bytes) return fail(Error(bytes.error()).with_context(file));
  return inspect_plugin_bytes(*bytes, file);
}

Status check_versions(const PluginInfo& info) {
  if (info.draft != WEFT_PLUGIN_DRAFT) {
    return bad(fmt::format("{} was built for draft {} of the plugin ABI, this weft speaks draft {}",
                           info.file, info.draft, WEFT_PLUGIN_DRAFT),
               info.draft < WEFT_PLUGIN_DRAFT ? "rebuild the plugin against this weft's headers"
                                              : "update weft, or use an older plugin");
  }
  if (info.abi_oldest > info.abi_version) {
    return bad(fmt::format("{} claims plugin ABI version {} and to need at least {}", info.file,
                           info.abi_version, info.abi_oldest));
  }
  if (info.abi_oldest > WEFT_PLUGIN_ABI_VERSION) {
    return bad(fmt::format("{} needs version {} of the plugin ABI or newer, this weft speaks "
                           "version {}",
                           info.file, info.abi_oldest, WEFT_PLUGIN_ABI_VERSION),
               "update weft, or use an older plugin");
  }
  if (kOldestAbiVersion > 0 && info.abi_version < kOldestAbiVersion) {
    return bad(fmt::format("{} was built for version {} of the plugin ABI, this weft accepts {} "
                           "to {}",
                           info.file, info.abi_version, kOldestAbiVersion, WEFT_PLUGIN_ABI_VERSION),
               "rebuild the plugin against this weft's headers");
  }
  return {};
}

Status check_interfaces(const PluginInfo& info) {
  bool usable = false;
  for (const std::string& id : info.interfaces) {
    for (const std::string_view known : kKnownInterfaces) {
      if (interface_name(id) != interface_name(known)) continue;
      if (id != known) {
        return bad(
            fmt::format("{} offers the interface {}, this weft speaks {}", info.file, id, known),
            "rebuild the plugin against this weft's headers, or update weft");
      }
      usable = true;
    }
  }
  if (usable) return {};
  if (info.interfaces.empty()) return bad(fmt::format("{} offers no interface", info.file));
  return bad(fmt::format("{} offers {}, none of which this weft knows", info.file,
                         fmt::join(info.interfaces, ", ")),
             fmt::format("one of {}", fmt::join(kKnownInterfaces, ", ")));
}

Status check_file_name(const PluginInfo& info) {
  if (base_name(info.file) == "weft-" + info.id + ".so") return {};
  return bad(fmt::format("{} holds the plugin \"{}\"", info.file, info.id),
             fmt::format("rename it to weft-{}.so", info.id));
}

}  // namespace weft
