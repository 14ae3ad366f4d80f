// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A unique id that a file, or a key-value store, carries from rank 0 to the others.

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/fd.h"
#include "tests/integration/launchers/ranks.h"

namespace weft::test {
namespace {

std::unique_ptr<Process> start_rank(const std::string& file, std::size_t rank, std::size_t ranks) {
  return std::make_unique<Process>(
      Command{.arguments = {EXAMPLE, file, std::to_string(rank), std::to_string(ranks)},
              .environment = {},
              .input = {}});
}

template <typename Condition>
bool wait_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(CarriedId, ByAFile) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/id";
  std::vector<std::unique_ptr<Process>> ranks(3);
  // Rank 0 comes last: the others wait for the file.
  for (const std::size_t rank : {1UL, 2UL, 0UL})
    ranks[rank] = start_rank(file, rank, ranks.size());
  expect_right_sums(ranks);
  EXPECT_FALSE(std::filesystem::exists(file)) << "whoever reads it later could not join, but try";
}

/// memcached on a socket in a folder of its own, and one connection for each request to it.
class Store {
 public:
  Store()
      : socket_(folder_.path() + "/socket"),
        process_({.arguments = {"memcached", "-u", "root", "-a", "0700", "-s", socket_},
                  .environment = {},
                  .input = {}}) {}

  [[nodiscard]] bool listens() const {
    return wait_until([this] { return std::filesystem::exists(socket_); });
  }
  [[nodiscard]] std::string ask(const std::string& request, const std::string& until) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_.c_str(), sizeof(address.sun_path) - 1);
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::system_error(errno, std::generic_category(), "connect to memcached");
    if (write(fd.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size()))
      throw std::system_error(errno, std::generic_category(), "write to memcached");
    std::string answer;
    char byte = 0;
    while (!answer.ends_with(until) && read(fd.get(), &byte, 1) == 1)
      answer += byte;
    return answer;
  }

 private:
  ScratchFolder folder_;
  std::string socket_;
  Process process_;
};

std::string to_hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

// The id's bytes as text in a store that knows nothing of Weft; each rank has a folder of its own.
TEST(CarriedId, ByAKeyValueStore) {
  std::unique_ptr<Store> store;
  try {
    store = std::make_unique<Store>();
  } catch (const std::system_error&) {
    GTEST_SKIP() << "there is no memcached (Debian's package memcached)";
  }
  ASSERT_TRUE(store->listens());
  constexpr std::size_t kRanks = 3;
  const std::vector<ScratchFolder> folders(kRanks);
  const auto file_of = [&](std::size_t rank) { return folders[rank].path() + "/id"; };
  std::vector<std::unique_ptr<Process>> ranks;
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    ranks.push_back(start_rank(file_of(rank), rank, kRanks));

  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(file_of(0)); }));
  const std::string text = to_hex(read_text(file_of(0)));
  ASSERT_EQ(text.size(), 256U);
  ASSERT_EQ(store->ask("set job7/weft-id 0 0 256\r\n" + text + "\r\n", "\r\n"), "STORED\r\n");
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    const std::string answer = store->ask("get job7/weft-id\r\n", "END\r\n");
    const std::string head = "VALUE job7/weft-id 0 256\r\n";
    ASSERT_TRUE(answer.starts_with(head)) << answer;
    const std::string draft =
        folders[rank].write("draft", from_hex(answer.substr(head.size(), 256)));
    std::filesystem::rename(draft, file_of(rank));
  }
  expect_right_sums(ranks);
}

// Who makes the id serves the rendezvous: an id outlives its maker as text alone.
TEST(CarriedId, OfAProcessThatHasEndedLeadsNowhere) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/id";
  const auto maker = start_rank(file, 0, 2);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(file); }));
  maker->send_signal(SIGKILL);
  (void)maker->wait();
  Process late({.arguments = {EXAMPLE, file, "1", "2"},
                .environment = {{"WEFT_TIMEOUTS_BOOTSTRAP", "500ms"}},
                .input = {}});
  const Outcome outcome = late.wait();
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_NE(outcome.err.find("rank 1 of 2 cannot reach the rendezvous at "), std::string::npos)
      << outcome.describe();
}

}  // namespace
}  // namespace weft::test
