// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The parameter `huge_pages` of shm: with a pool that has pages, and with one that has none.
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

constexpr const char* kPool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";

std::optional<std::uint64_t> pool(const char* field) {
  std::ifstream stream(std::string(kPool) + field);
  std::uint64_t value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

/// Raises the pool by some pages and puts it back as it was.
class MorePages {
 public:
  explicit MorePages(std::uint64_t pages) : before_(pool("nr_hugepages").value_or(0)) {
    set(before_ + pages);
    enough_ = pool("nr_hugepages").value_or(0) >= before_ + pages;
  }
  MorePages(const MorePages&) = delete;
  MorePages& operator=(const MorePages&) = delete;
  ~MorePages() { set(before_); }
  [[nodiscard]] bool enough() const { return enough_; }

 private:
  static void set(std::uint64_t pages) {
    std::ofstream stream(std::string(kPool) + "nr_hugepages");
    stream << pages;
  }
  std::uint64_t before_;
  bool enough_ = false;
};

/// Bytes of the pages at `address`, by the kernel's account.
std::uint64_t page_bytes(const void* address) {
  std::ifstream stream("/proc/self/smaps");
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(stream, line);) {
    unsigned long first = 0;
    unsigned long last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
      inside = at >= first && at < last;
    } else if (inside && line.starts_with("KernelPageSize:")) {
      return std::stoull(line.substr(line.find(':') + 1)) * 1024;
    }
  }
  return 0;
}

class ShmHugePagesTest : public testing::Test {
 protected:
  /// Two ranks of this process with the same setting.
  void make(const std::string& setting) {
    left = std::make_unique<Rank>(
        entry, Rank::Options{.rank = 0, .parameters = {{"huge_pages", setting}}});
    right = std::make_unique<Rank>(
        entry, Rank::Options{.rank = 1, .parameters = {{"huge_pages", setting}}});
  }

  /// A connection from left to right, used until some slots have come round. Bytes of its pages at
  /// both ends.
  std::pair<std::uint64_t, std::uint64_t> use(std::uint64_t number) {
    weft_connection* send = left->prepare(WEFT_DIRECTION_SEND, 1, number, protocols);
    weft_connection* recv = right->prepare(WEFT_DIRECTION_RECV, 0, number, protocols);
    EXPECT_NE(send, nullptr) << left->host().last_error().what;
    EXPECT_NE(recv, nullptr) << right->host().last_error().what;
    if (send == nullptr || recv == nullptr) return {};
    const Bytes from_send = left->blob(send);
    const Bytes from_recv = right->blob(recv);
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    while (sender == WEFT_IN_PROGRESS || receiver == WEFT_IN_PROGRESS) {
      if (sender == WEFT_IN_PROGRESS) sender = left->connect(send, from_recv);
      if (receiver == WEFT_IN_PROGRESS) receiver = right->connect(recv, from_send);
    }
    EXPECT_EQ(sender, WEFT_OK) << left->host().last_error().what;
    EXPECT_EQ(receiver, WEFT_OK) << right->host().last_error().what;
    std::pair<std::uint64_t, std::uint64_t> pages;
    if (sender == WEFT_OK && receiver == WEFT_OK) {
      std::thread sending([&] { send_pattern(left->describe(send), 20, 3); });
      EXPECT_EQ(receive_pattern(right->describe(recv), 20, 3), 0U);
      sending.join();
      pages = {page_bytes(left->describe(send).buffer), page_bytes(right->describe(recv).buffer)};
    }
    left->close(send);
    right->close(recv);
    return pages;
  }

  [[nodiscard]] std::size_t lines_about_pages() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        right->host().log_lines(),
        [](const std::string& line) { return line.find("nr_hugepages") != std::string::npos; }));
  }

  const weft_plugin_descriptor* entry = load_plugin(plugin_path());
  std::unique_ptr<Rank> left;
  std::unique_ptr<Rank> right;
  /// Three huge pages and a bit.
  std::vector<Protocol> protocols = {{WEFT_PROTOCOL_SIMPLE, 8, 768U << 10U}};
};

constexpr std::uint64_t kHuge = 2U << 20U;

TEST_F(ShmHugePagesTest, AreNotUsedUnlessAskedFor) {
  const MorePages more(4);
  make("off");
  EXPECT_EQ(use(1), (std::pair<std::uint64_t, std::uint64_t>(4096, 4096)));
  EXPECT_EQ(lines_about_pages(), 0U);
}

TEST_F(ShmHugePagesTest, AreUsedByBothEndsWhereThePoolHasSome) {
  const MorePages more(4);
  if (!more.enough()) GTEST_SKIP() << "the pool of huge pages cannot be raised here";
  const auto free_before = pool("free_hugepages");
  for (const char* setting : {"try", "require"}) {
    make(setting);
    EXPECT_EQ(use(1), std::make_pair(kHuge, kHuge)) << setting;
    EXPECT_EQ(lines_about_pages(), 0U) << setting;
    EXPECT_EQ(pool("free_hugepages"), free_before) << "given back";
  }
}

TEST_F(ShmHugePagesTest, AreTakenAsTheReceiverMadeThem) {
  const MorePages more(4);
  if (!more.enough()) GTEST_SKIP() << "the pool of huge pages cannot be raised here";
  make("off");
  right = std::make_unique<Rank>(
      entry, Rank::Options{.rank = 1, .parameters = {{"huge_pages", "require"}}});
  EXPECT_EQ(use(1), std::make_pair(kHuge, kHuge));
}

/// Where the pool is small, more is asked for than it has.
class ShmNoHugePagesTest : public ShmHugePagesTest {
 protected:
  void SetUp() override {
    const std::uint64_t free = pool("free_hugepages").value_or(0);
    if (free > 64 || pool("nr_overcommit_hugepages").value_or(0) != 0) {
      GTEST_SKIP() << "the pool of huge pages has " << free << " or grows by itself";
    }
    protocols.front().steps = 8U << (free == 0 ? 0U : 5U);
  }
};

TEST_F(ShmNoHugePagesTest, TryingSaysSoOnceAndGoesOn) {
  make("try");
  EXPECT_EQ(use(1), (std::pair<std::uint64_t, std::uint64_t>(4096, 4096)));
  EXPECT_EQ(lines_about_pages(), 1U);
  EXPECT_EQ(use(2).first, 4096U);
  EXPECT_EQ(lines_about_pages(), 1U);
}

TEST_F(ShmNoHugePagesTest, RequiringIsRefusedWithTheCause) {
  make("require");
  const std::uint64_t descriptors = count_descriptors();
  weft_result result = WEFT_OK;
  EXPECT_EQ(right->prepare(WEFT_DIRECTION_RECV, 0, 1, protocols, &result), nullptr);
  EXPECT_EQ(result, WEFT_ERROR_OUT_OF_MEMORY);
  const ReportedError error = right->host().last_error();
  EXPECT_EQ(error.native, ENOMEM);
  EXPECT_NE(error.what.find("no huge pages"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("rank 0"), std::string::npos) << error.what;
  EXPECT_NE(error.hint.find("/proc/sys/vm/nr_hugepages"), std::string::npos) << error.hint;
  EXPECT_EQ(count_descriptors(), descriptors);
  EXPECT_EQ(count_lines("/proc/self/maps", "memfd:weft"), 0U);
}

TEST_F(ShmHugePagesTest, AnotherWordIsRefused) {
  EXPECT_THROW(make("yes"), std::runtime_error);
  try {
    make("yes");
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("none of off, try, require"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::test
