// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/elf_image.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <elf.h>

#include <fmt/format.h>

namespace weft {
namespace {

constexpr std::size_t kMaxSegments = 256;
constexpr std::size_t kMaxDynamicEntries = 4096;
constexpr std::size_t kMaxNeeded = 512;
constexpr std::uint64_t kMaxName = 4096;

std::unexpected<Error> malformed(std::string what) {
  return fail(WEFT_ERROR_PLUGIN, "is no usable shared library: " + std::move(what));
}

/// The T at `offset`, or nothing where it does not fit.
template <typename T>
std::optional<T> read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string_view> terminated(std::span<const std::byte> bytes, std::uint64_t limit) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const std::size_t room = std::min<std::uint64_t>(bytes.size(), limit + 1);
  const void* end = room == 0 ? nullptr : std::memchr(begin, 0, room);
  if (end == nullptr) return std::nullopt;
  return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
}

Status check_header(std::span<const std::byte> file, Elf64_Ehdr& header) {
  const auto read = read_at<Elf64_Ehdr>(file, 0);
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
    return fail(WEFT_ERROR_PLUGIN, "is not a shared library (no ELF header)");
  }
  if (!read) return malformed("it ends within its header");
  header = *read;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64) {
    return malformed(
        fmt::format("it was built for another kind of machine (ELF class {}, machine "
                    "{}; this weft runs on 64-bit x86)",
                    header.e_ident[EI_CLASS], header.e_machine));
  }
  if (header.e_type != ET_DYN) {
    return malformed(fmt::format("it is an ELF file of type {}, not a shared library ({})",
                                 header.e_type, ET_DYN));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    return malformed(fmt::format("its segment headers have {} bytes each", header.e_phentsize));
  }
  if (header.e_phnum > kMaxSegments) {
    return malformed(fmt::format("it claims {} segments", header.e_phnum));
  }
  return {};
}

}  // namespace

Result<ElfImage> ElfImage::parse(std::span<const std::byte> file) {
  ElfImage image;
  WEFT_TRY(image.read_segments(file));
  WEFT_TRY(image.read_dynamic());
  return image;
}

Status ElfImage::read_segments(std::span<const std::byte> file) {
  Elf64_Ehdr header{};
  WEFT_TRY(check_header(file, header));
  bool dynamic = false;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    // e_phoff is the file's word: the sum may wrap, and then lies outside as well.
    const std::uint64_t offset = header.e_phoff + i * sizeof(Elf64_Phdr);
    const auto segment = read_at<Elf64_Phdr>(file, offset);
    if (!segment || offset < header.e_phoff) {
      return malformed("its segment headers lie outside of the file");
    }
    if (segment->p_type != PT_LOAD && segment->p_type != PT_DYNAMIC) continue;
    if (segment->p_offset > file.size() || segment->p_filesz > file.size() - segment->p_offset) {
      return malformed(fmt::format(
          "it is cut off (segment {} reaches beyond the {} bytes of the file)", i, file.size()));
    }
    if (segment->p_vaddr + segment->p_filesz < segment->p_vaddr) {
      return malformed(fmt::format("segment {} wraps around the address space", i));
    }
    const auto bytes = file.subspan(segment->p_offset, segment->p_filesz);
    if (segment->p_type == PT_LOAD) {
      segments_.push_back({segment->p_vaddr, bytes});
    } else {
      dynamic_ = bytes;
      dynamic = true;
    }
  }
  if (!dynamic) return malformed("it has no dynamic section");
  return {};
}

Status ElfImage::read_dynamic() {
  std::optional<std::uint64_t> symbols;
  std::optional<std::uint64_t> strings;
  std::optional<std::uint64_t> gnu_hash;
  std::optional<std::uint64_t> hash;
  std::optional<std::uint64_t> rela;
  std::uint64_t strings_size = 0;
  std::uint64_t rela_size = 0;
  std::vector<std::uint64_t> needed;
  for (std::size_t i = 0; i < kMaxDynamicEntries; ++i) {
    const auto entry = read_at<Elf64_Dyn>(dynamic_, i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    const std::uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols = value;
        break;
      case DT_STRTAB:
        strings = value;
        break;
      case DT_STRSZ:
        strings_size = value;
        break;
      case DT_GNU_HASH:
        gnu_hash = value;
        break;
      case DT_HASH:
        hash = value;
        break;
      case DT_RELA:
        rela = value;
        break;
      case DT_RELASZ:
        rela_size = value;
        break;
      case DT_NEEDED:
        if (needed.size() < kMaxNeeded) needed.push_back(value);
        break;
      default:
        break;
    }
  }
  if (!symbols || !strings) return malformed("it has no table of symbols");
  const auto all_strings = from(*strings);
  if (strings_size > all_strings.size()) return malformed("its names lie outside of the file");
  strings_ = all_strings.first(strings_size);
  symbols_ = *symbols;
  WEFT_TRY(count_symbols(gnu_hash, hash));
  if (rela) WEFT_TRY(read_relocations(*rela, rela_size));
  for (const std::uint64_t offset : needed) {
    WEFT_TRY_ASSIGN(const std::string_view name, name_at(offset));
    needed_.emplace_back(name);
  }
  return {};
}

// The file says nowhere how many symbols there are: the hash tables, by which the loader finds
// them, imply it.
Status ElfImage::count_symbols(std::optional<std::uint64_t> gnu_hash,
                               std::optional<std::uint64_t> hash) {
  if (hash) {
    // Buckets, then chains: one for each symbol.
    const auto chains = read_at<std::uint32_t>(from(*hash), sizeof(std::uint32_t));
    if (!chains) return malformed("its hash table lies outside of the file");
    symbol_count_ = *chains;
  } else if (gnu_hash) {
    const auto table = from(*gnu_hash);
    const auto header = read_at<std::array<std::uint32_t, 4>>(table, 0);
    if (!header) return malformed("its hash table lies outside of the file");
    const auto [buckets, first, bloom_words, shift] = *header;
    const std::uint64_t bucket_offset =
        sizeof(*header) + std::uint64_t{bloom_words} * sizeof(std::uint64_t);
    const std::uint64_t chain_offset =
        bucket_offset + std::uint64_t{buckets} * sizeof(std::uint32_t);
    if (chain_offset > table.size()) return malformed("its hash table lies outside of the file");
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < buckets; ++i) {
      const auto bucket = read_at<std::uint32_t>(table, bucket_offset + i * sizeof(std::uint32_t));
      last = std::max<std::uint64_t>(last, bucket.value_or(0));
    }
    symbol_count_ = first;
    if (last >= first && last != 0) {
      // The chain of the last bucket ends with an odd word, at the last symbol.
      while (true) {
        const auto link =
            read_at<std::uint32_t>(table, chain_offset + (last - first) * sizeof(std::uint32_t));
        if (!link) return malformed("its hash table has no end");
        ++last;
        if ((*link & 1U) != 0) break;
      }
      symbol_count_ = last;
    }
  } else {
    return malformed("it has no hash table of symbols");
  }
  if (symbol_count_ > from(symbols_).size() / sizeof(Elf64_Sym)) {
    return malformed("its symbols lie outside of the file");
  }
  return {};
}

Status ElfImage::read_relocations(std::uint64_t address, std::uint64_t size) {
  const auto table = from(address);
  if (size > table.size()) return malformed("its relocations lie outside of the file");
  const std::uint64_t count = size / sizeof(Elf64_Rela);
  relocations_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry = read_at<Elf64_Rela>(table, i * sizeof(Elf64_Rela));
    if (!entry) break;
    const auto type = ELF64_R_TYPE(entry->r_info);
    if (type == R_X86_64_RELATIVE) {
      relocations_.push_back(
          {entry->r_offset, {static_cast<std::uint64_t>(entry->r_addend), false}});
    } else if (type == R_X86_64_64) {
      const std::uint64_t index = ELF64_R_SYM(entry->r_info);
      const auto symbol = index < symbol_count_
                              ? read_at<Elf64_Sym>(from(symbols_), index * sizeof(Elf64_Sym))
                              : std::nullopt;
      if (!symbol) return malformed("a relocation names a symbol that is not there");
      const bool external = symbol->st_shndx == SHN_UNDEF;
      relocations_.push_back(
          {entry->r_offset,
           {external ? 0 : symbol->st_value + static_cast<std::uint64_t>(entry->r_addend),
            external}});
    }
  }
  std::ranges::sort(relocations_, {}, [](const auto& relocation) { return relocation.first; });
  return {};
}

std::span<const std::byte> ElfImage::from(std::uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address >= segment.address && address - segment.address < segment.bytes.size()) {
      return segment.bytes.subspan(address - segment.address);
    }
  }
  return {};
}

Result<std::string_view> ElfImage::name_at(std::uint64_t offset) const {
  const auto name =
      offset < strings_.size() ? terminated(strings_.subspan(offset), kMaxName) : std::nullopt;
  if (!name) return malformed("one of its names lies outside of the file");
  return *name;
}

Result<std::optional<ElfSymbol>> ElfImage::find(std::string_view name) const {
  const auto table = from(symbols_);
  for (std::uint64_t i = 1; i < symbol_count_; ++i) {
    const auto symbol = read_at<Elf64_Sym>(table, i * sizeof(Elf64_Sym));
    if (!symbol) break;
    if (symbol->st_shndx == SHN_UNDEF) continue;
    const auto binding = ELF64_ST_BIND(symbol->st_info);
    if (binding != STB_GLOBAL && binding != STB_WEAK) continue;
    WEFT_TRY_ASSIGN(const std::string_view found, name_at(symbol->st_name));
    if (found == name) return ElfSymbol{symbol->st_value, symbol->st_size};
  }
  return std::optional<ElfSymbol>();
}

Result<std::span<const std::byte>> ElfImage::bytes(std::uint64_t address,
                                                   std::uint64_t size) const {
  const auto rest = from(address);
  if (size > rest.size()) {
    return malformed(fmt::format("{} bytes at {:#x} lie outside of its data", size, address));
  }
  return rest.first(size);
}

Result<ElfPointer> ElfImage::pointer(std::uint64_t address) const {
  const auto relocation =
      std::ranges::lower_bound(relocations_, address, {}, [](const auto& r) { return r.first; });
  if (relocation != relocations_.end() && relocation->first == address) return relocation->second;
  // Without an entry of its own the word is NULL, or packed (DT_RELR) and then holds its target.
  WEFT_TRY_ASSIGN(const auto word, bytes(address, sizeof(std::uint64_t)));
  return ElfPointer{read_at<std::uint64_t>(word, 0).value_or(0), false};
}

Result<std::string_view> ElfImage::text(std::uint64_t address, std::uint64_t limit) const {
  const auto rest = from(address);
  if (rest.empty()) {
    return malformed(fmt::format("a text at {:#x} lies outside of its data", address));
  }
  const auto found = terminated(rest, limit);
  if (!found) return malformed(fmt::format("a text at {:#x} has no end", address));
  return *found;
}

}  // namespace weft
