// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ELF reader against damaged files: it may refuse, it may not crash (sanitizer builds look on).
#include "core/plugin/elf_image.h"

#include <cstddef>
#include <cstring>
#include <elf.h>
#include <random>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/inspect.h"
#include "tests/support/sanitized.h"
#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using testing::Contains;
using testing::StartsWith;

std::string sample() {
  return test::read_whole(WEFT_FIXTURE_DIR "/weft-sample.so");
}

std::span<const std::byte> bytes_of(const std::string& content) {
  return std::as_bytes(std::span(content));
}

std::string parse_error(const std::string& content) {
  const auto image = ElfImage::parse(bytes_of(content));
  return image ? "" : image.error().to_string();
}

/// Changes one field of the header.
template <typename T>
std::string with_header(std::size_t offset, T value) {
  std::string content = sample();
  std::memcpy(content.data() + offset, &value, sizeof(value));
  return content;
}

TEST(ElfImage, FindsTheEntryAndWhatTheLibraryNeeds) {
  const std::string content = sample();
  const auto image = ElfImage::parse(bytes_of(content));
  ASSERT_TRUE(image) << image.error().to_string();
  const auto entry = image->find("weft_plugin_entry");
  ASSERT_TRUE(entry && *entry);
  EXPECT_GE((*entry)->size, 352U);
  // A sanitizer puts room behind every object, and with one in the program a plugin may need no
  // library at all.
  if (!weft::test::kSanitized) {
    EXPECT_EQ((*entry)->size, 352U);
    EXPECT_THAT(image->needed(), Contains(StartsWith("libc.so")));
  }
  EXPECT_FALSE(image->find("weft_plugin_entr").value());
  EXPECT_FALSE(image->find("mark_run").value());
}

TEST(ElfImage, BelievesRelocationsAndNotTheWordsInPlace) {
  // Linkers may leave the word in place zero; this one does not, so it is done here.
  std::string content = sample();
  const std::size_t entry = content.find("WEFTPLUG");
  for (const std::size_t field :
       {offsetof(weft_plugin_descriptor, interfaces), offsetof(weft_plugin_descriptor, parameters),
        offsetof(weft_plugin_descriptor, init)}) {
    content.replace(entry + field, sizeof(void*), sizeof(void*), '\0');
  }
  const auto info = inspect_plugin_bytes(bytes_of(content), "changed");
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->interfaces.size(), 2U);
  EXPECT_EQ(info->parameters.size(), 6U);
}

TEST(ElfImage, RefusesOtherMachinesAndKinds) {
  EXPECT_THAT(parse_error(with_header<std::uint16_t>(offsetof(Elf64_Ehdr, e_machine), EM_AARCH64)),
              StartsWith("is no usable shared library: it was built for another kind of machine "
                         "(ELF class 2, machine 183; "));
  EXPECT_EQ(parse_error(with_header<std::uint16_t>(offsetof(Elf64_Ehdr, e_type), ET_EXEC)),
            "is no usable shared library: it is an ELF file of type 2, not a shared library (3)");
  EXPECT_EQ(parse_error(with_header<std::uint16_t>(offsetof(Elf64_Ehdr, e_phentsize), 1)),
            "is no usable shared library: its segment headers have 1 bytes each");
  EXPECT_EQ(parse_error(with_header<std::uint16_t>(offsetof(Elf64_Ehdr, e_phnum), 60000)),
            "is no usable shared library: it claims 60000 segments");
  EXPECT_EQ(parse_error(with_header<std::uint16_t>(offsetof(Elf64_Ehdr, e_phnum), 0)),
            "is no usable shared library: it has no dynamic section");
  EXPECT_EQ(parse_error(with_header<std::uint64_t>(offsetof(Elf64_Ehdr, e_phoff), ~0ULL - 10)),
            "is no usable shared library: its segment headers lie outside of the file");
  EXPECT_EQ(parse_error(std::string("\177ELF")),
            "is no usable shared library: it ends within its header");
}

TEST(ElfImage, RefusesAddressesOutsideOfItsData) {
  const std::string content = sample();
  const auto image = ElfImage::parse(bytes_of(content));
  ASSERT_TRUE(image);
  EXPECT_FALSE(image->bytes(~0ULL, 8));
  EXPECT_FALSE(image->bytes(0, ~0ULL));
  EXPECT_FALSE(image->pointer(~0ULL - 3));
  EXPECT_FALSE(image->text(1ULL << 40U, 10));
  EXPECT_FALSE(image->text(0, 2)) << "the ELF magic does not end within two bytes";
}

TEST(ElfImage, EveryCutIsRefusedOrHarmless) {
  const std::string content = sample();
  for (std::size_t size = 0; size < content.size(); size += 13) {
    // A copy of exactly this size: reading beyond it is seen.
    const std::string cut = content.substr(0, size);
    const auto info = inspect_plugin_bytes(bytes_of(cut), "cut");
    // What lies behind the loaded segments (section headers, debug information) is not needed.
    if (info) {
      EXPECT_EQ(info->id, "sample");
    }
  }
}

TEST(ElfImage, RandomDamageIsRefusedOrHarmless) {
  const std::string content = sample();
  std::mt19937 random(20260101);  // NOLINT(cert-msc51-cpp): the same damage every time
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = content;
    for (int i = 0; i < 8; ++i) {
      // Mostly where headers, tables and the entry lie.
      const std::size_t limit = round % 2 == 0 ? 1024 : damaged.size();
      damaged[random() % limit] = static_cast<char>(random());
    }
    if (!inspect_plugin_bytes(bytes_of(damaged), "damaged")) ++refused;
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace weft
