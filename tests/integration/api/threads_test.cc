// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that live in one process: a thread for each, and all of them in one thread.
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

/// Transport, ranks, channels.max, buffers.step, transports.net_ports.
struct Wire {
  std::string transport;
  std::uint32_t ranks;
  std::string channels;
  std::string step;
  std::string ports = "0";
};

std::size_t step_bytes(const Wire& wire) {
  return std::stoul(wire.step) * 1024;
}

std::vector<std::string> settings_of(const Wire& wire) {
  std::vector<std::string> words = only_transport(wire.transport);
  words.insert(words.end(), {"channels.max", wire.channels, "buffers.step", wire.step,
                             "transports.net_ports", wire.ports});
  return words;
}

void PrintTo(const Wire& wire, std::ostream* out) {
  *out << wire.transport << ", " << wire.ranks << " ranks, " << wire.channels << " channels, "
       << wire.step << ", " << wire.ports << " ports";
}

class LocalRanks : public testing::TestWithParam<Wire> {
 protected:
  const ContextHandle context_ = make_context();
  const CommSettings settings_{settings_of(GetParam())};
  const std::uint32_t ranks_ = GetParam().ranks;
};

/// The trials of one call, one for each rank.
std::vector<std::unique_ptr<Trial>> trials_of(const Shape& shape, std::uint32_t ranks,
                                              std::uint32_t round) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    trials.push_back(std::make_unique<Trial>(shape, rank, ranks, round));
  return trials;
}

TEST_P(LocalRanks, AThreadForEach) {
  weft_unique_id id;
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  const std::vector<Shape> shapes = all_shapes(ranks_, step_bytes(GetParam()));
  std::mutex mutex;
  std::vector<std::string> problems;
  const auto be_rank = [&](std::uint32_t rank) {
    try {
      const StreamHandle stream = make_stream(context_.get());
      weft_comm* raw = nullptr;
      must(context_.get(),
           weft_comm_init_rank(context_.get(), settings_.get(), ranks_, &id, rank, &raw));
      const CommHandle comm(raw);
      for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
        const std::string pair = describe_pair(comm.get(), rank, peer);
        if (peer != rank && !pair.starts_with(GetParam().transport + ": ")) {
          throw std::runtime_error("joined by " + pair);
        }
      }
      // All of them before the first is looked at.
      std::vector<std::unique_ptr<Trial>> trials;
      for (std::uint32_t i = 0; i < shapes.size(); ++i) {
        trials.push_back(std::make_unique<Trial>(shapes[i], rank, ranks_, i));
        must(context_.get(), trials.back()->start(comm.get(), stream.get()));
      }
      must(context_.get(), weft_stream_synchronize(stream.get()));
      for (const auto& trial : trials) {
        if (const std::string text = trial->wrong(); !text.empty()) throw std::runtime_error(text);
      }
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      problems.push_back("rank " + std::to_string(rank) + ": " + error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      threads.emplace_back(be_rank, rank);
  }
  EXPECT_EQ(problems, std::vector<std::string>());
}

TEST_P(LocalRanks, AllInOneThreadByInitAllWithAStreamForEach) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, ranks_);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), ranks_);
  const std::vector<Shape> shapes = all_shapes(ranks_, step_bytes(GetParam()));
  for (std::uint32_t i = 0; i < shapes.size(); ++i) {
    const auto trials = trials_of(shapes[i], ranks_, i);
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      must(context_.get(), trials[rank]->start(comms[rank].get(), streams[rank].get()));
    must(context_.get(), weft_group_end(context_.get()));
    for (const StreamHandle& stream : streams)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    for (const auto& trial : trials)
      EXPECT_EQ(trial->wrong(), "");
  }
}

TEST_P(LocalRanks, AllInOneThreadByAGroupOfJoinsOnOneStream) {
  weft_unique_id id;
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  std::vector<weft_comm*> raw(ranks_);
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    must(context_.get(),
         weft_comm_init_rank(context_.get(), settings_.get(), ranks_, &id, rank, &raw[rank]));
    EXPECT_EQ(raw[rank], nullptr) << "joined before the end of the group";
  }
  must(context_.get(), weft_group_end(context_.get()));
  const std::vector<CommHandle> comms(raw.begin(), raw.end());
  const StreamHandle stream = make_stream(context_.get());
  // Two calls in one group, ranks in turn, as a program of several layers would.
  const std::vector<Shape> shapes = all_shapes(ranks_, step_bytes(GetParam()));
  for (std::uint32_t i = 0; i + 1 < shapes.size(); i += 2) {
    const auto first = trials_of(shapes[i], ranks_, i);
    const auto second = trials_of(shapes[i + 1], ranks_, i + 1);
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      must(context_.get(), first[rank]->start(comms[rank].get(), stream.get()));
      must(context_.get(), second[rank]->start(comms[rank].get(), stream.get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(stream.get()));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      EXPECT_EQ(first[rank]->wrong(), "");
      EXPECT_EQ(second[rank]->wrong(), "");
    }
  }
}

TEST_P(LocalRanks, LargeOnes) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, ranks_);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), ranks_);
  // Without a group: each stream has workers of its own, so the ranks meet all the same.
  for (const Shape& shape : large_shapes(ranks_, std::size_t{kSanitized ? 1U : 3U} << 20)) {
    const auto trials = trials_of(shape, ranks_, 5);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      must(context_.get(), trials[rank]->start(comms[rank].get(), streams[rank].get()));
    for (const StreamHandle& stream : streams)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    for (const auto& trial : trials)
      EXPECT_EQ(trial->wrong(), "");
  }
}

bool is_connected_over_tcp(int fd) {
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return false;
  sockaddr_storage peer{};
  size = sizeof(peer);
  return protocol == IPPROTO_TCP &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

/// Event descriptors of this process that watch connections over TCP; each port has one.
std::size_t watchers_of_connections() {
  std::size_t watchers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    bool watches = false;
    for (std::string word; info >> word;) {
      int watched = -1;
      if (word == "tfd:" && info >> watched) watches |= is_connected_over_tcp(watched);
    }
    watchers += watches ? 1 : 0;
  }
  return watchers;
}

// Each port has a thread, which helps nobody where all connections are the first one's.
TEST(PortsOfNets, AllOfThemHaveConnectionsOfRings) {
  const ContextHandle context = make_context();
  const auto watchers = [&](const char* ports) {
    const CommSettings settings(settings_of(
        {.transport = "net-socket", .ranks = 2, .channels = "4", .step = "4KiB", .ports = ports}));
    const std::vector<CommHandle> comms = init_all(context.get(), settings, 2);
    const std::vector<StreamHandle> streams = make_streams(context.get(), 2);
    std::vector<std::vector<std::int32_t>> values(2, std::vector<std::int32_t>(1 << 20, 1));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      must(context.get(),
           weft_all_reduce(values[rank].data(), values[rank].data(), values[rank].size(),
                           WEFT_INT32, WEFT_SUM, comms[rank].get(), streams[rank].get()));
    }
    for (const StreamHandle& stream : streams)
      must(context.get(), weft_stream_synchronize(stream.get()));
    return watchers_of_connections();
  };
  const std::size_t with_one = watchers("1");
  ASSERT_GE(with_one, 2U);
  EXPECT_EQ(watchers("4"), with_one + 2 * 3);
}

INSTANTIATE_TEST_SUITE_P(Wires, LocalRanks,
                         testing::Values(Wire{"p2p", 1, "0", "128KiB"},
                                         Wire{"p2p", 2, "0", "128KiB"}, Wire{"p2p", 4, "3", "4KiB"},
                                         Wire{"shm", 3, "0", "4KiB"},
                                         Wire{"net-socket", 2, "0", "16KiB"},
                                         Wire{"net-socket", 4, "3", "4KiB"},
                                         Wire{"net-socket", 3, "4", "16KiB", "3"}),
                         [](const auto& info) {
                           std::string name = info.param.transport +
                                              std::to_string(info.param.ranks) + "Ranks" +
                                              info.param.channels + "Channels" + info.param.step +
                                              (info.param.ports == "0" ? "" : "SeveralPorts");
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft::test
