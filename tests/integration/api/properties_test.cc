// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a communicator says of itself, and of the memory that it holds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/standard_error.h"
#include "tests/integration/api/trial.h"
#include "tests/support/process.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

weft_comm_properties properties_of(weft_comm* comm) {
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  EXPECT_EQ(weft_comm_get_properties(comm, &properties), WEFT_OK);
  return properties;
}

TEST(PropertiesWithoutATuner, CountTheBuiltInCostsAndSaySoOnce) {
  const ScratchFolder folder;
  // Copied: others may be allowed to write to a build folder, and then plugins are not loaded.
  const std::string plugin = folder.path() + "/weft-p2p.so";
  std::filesystem::copy_file(P2P_PLUGIN, plugin);
  std::filesystem::permissions(plugin, std::filesystem::perms(0644));
  const std::string file =
      folder.write("weft.yaml", "version: 1\nplugins: {path: [" + folder.path() + "]}\n");
  const ContextHandle context = make_context(file.c_str());
  const std::vector<StreamHandle> streams = make_streams(context.get(), 2);
  const StandardError said;
  for (int i = 0; i < 3; ++i) {
    const std::vector<CommHandle> comms = init_all(context.get(), CommSettings(), 2);
    std::array<std::int32_t, 2> values = {3, 4};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      must(context.get(), weft_all_reduce(&values[rank], &values[rank], 1, WEFT_INT32, WEFT_SUM,
                                          comms[rank].get(), streams[rank].get()));
    }
    for (const StreamHandle& stream : streams)
      must(context.get(), weft_stream_synchronize(stream.get()));
    EXPECT_THAT(values, testing::Each(7));
    EXPECT_EQ(said.count("there is no tuner, so the built-in costs count"), 1U);
  }
}

class Properties : public testing::TestWithParam<std::string> {
 protected:
  std::vector<CommHandle> join(std::uint32_t ranks, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> pairs = only_transport(GetParam());
    pairs.insert(pairs.end(), {"channels.max", "2", "buffers.step", "64KiB"});
    pairs.insert(pairs.end(), settings.begin(), settings.end());
    return init_all(context_.get(), CommSettings(pairs), ranks);
  }
  void all_reduce(const std::vector<CommHandle>& comms, std::size_t count) {
    const StreamHandle stream = make_stream(context_.get());
    std::vector<std::vector<std::int32_t>> values(comms.size(), std::vector(count, 1));
    must(context_.get(), weft_group_start(context_.get()));
    for (std::size_t rank = 0; rank < comms.size(); ++rank) {
      must(context_.get(), weft_all_reduce(values[rank].data(), values[rank].data(), count,
                                           WEFT_INT32, WEFT_SUM, comms[rank].get(), stream.get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(stream.get()));
    EXPECT_EQ(values.back().back(), static_cast<std::int32_t>(comms.size()));
  }
  void send_between(const std::vector<CommHandle>& comms, std::uint32_t from, std::uint32_t to) {
    const StreamHandle stream = make_stream(context_.get());
    std::int32_t value = 7;
    std::int32_t got = 0;
    must(context_.get(), weft_group_start(context_.get()));
    must(context_.get(), weft_send(&value, 1, WEFT_INT32, to, comms[from].get(), stream.get()));
    must(context_.get(), weft_recv(&got, 1, WEFT_INT32, from, comms[to].get(), stream.get()));
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(stream.get()));
    EXPECT_EQ(got, 7);
  }
  ContextHandle context_ = make_context();
};

TEST_P(Properties, AreThoseOfTheRank) {
  const std::vector<CommHandle> comms = join(3);
  const StreamHandle stream = make_stream(context_.get());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const weft_comm_properties found = properties_of(comms[rank].get());
    EXPECT_EQ(found.struct_size, sizeof(found));
    EXPECT_EQ(found.rank, rank);
    EXPECT_EQ(found.ranks, 3U);
    EXPECT_EQ(found.hosts, 1U);
    EXPECT_EQ(found.local_rank, rank);
    EXPECT_EQ(found.local_ranks, 3U);
    EXPECT_EQ(found.device_kind, WEFT_DEVICE_HOST);
    EXPECT_EQ(found.device, -1);
    EXPECT_EQ(found.channels, 2U);
    EXPECT_EQ(found.shares_memory, GetParam() == "net-socket" ? 0U : 1U);
    EXPECT_EQ(found.calls, 0U);
  }
  must(context_.get(), weft_group_start(context_.get()));
  std::vector<std::int32_t> values(3, 1);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    must(context_.get(), weft_all_reduce(&values[rank], &values[rank], 1, WEFT_INT32, WEFT_SUM,
                                         comms[rank].get(), stream.get()));
  }
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_stream_synchronize(stream.get()));
  for (const CommHandle& comm : comms)
    EXPECT_EQ(properties_of(comm.get()).calls, 1U);
}

// Of each ring's edge a memory transport holds the slots once, at the receiver; a net at both ends.
TEST_P(Properties, TellWhatMemoryIsHeld) {
  const std::vector<CommHandle> comms = join(3, {"collectives.all_reduce.algorithm", "ring"});
  constexpr std::uint64_t kSlots = std::uint64_t{8} * 64 * 1024;
  const std::uint64_t ends = GetParam() == "net-socket" ? 2 : 1;
  const std::uint64_t rings = 2 * ends * kSlots;
  for (const CommHandle& comm : comms)
    EXPECT_LE(properties_of(comm.get()).bytes_held, 1024U) << "no call has needed a connection";
  all_reduce(comms, 1 << 20);
  std::vector<std::uint64_t> before;
  for (const CommHandle& comm : comms) {
    before.push_back(properties_of(comm.get()).bytes_held);
    EXPECT_GE(before.back(), rings);
    EXPECT_LE(before.back(), rings + (std::uint64_t{64} << 10)) << "counters, cursors";
  }
  all_reduce(comms, 1 << 20);
  for (std::size_t rank = 0; rank < comms.size(); ++rank)
    EXPECT_EQ(properties_of(comms[rank].get()).bytes_held, before[rank]);
  send_between(comms, 0, 2);
  EXPECT_GT(properties_of(comms[0].get()).bytes_held, before[0]);
  EXPECT_EQ(properties_of(comms[1].get()).bytes_held, before[1]) << "it takes no part";
  EXPECT_GT(properties_of(comms[2].get()).bytes_held, before[2]);
  // Connected once for all.
  const std::uint64_t after = properties_of(comms[0].get()).bytes_held;
  send_between(comms, 0, 2);
  send_between(comms, 2, 0);
  EXPECT_EQ(properties_of(comms[0].get()).bytes_held, after);
}

/// Of ranks that write to each other, as over a net none does.
class PropertiesInMemory : public Properties {};

// Small calls write to each other directly, and need no ring.
TEST_P(PropertiesInMemory, RingsAreForThoseThatNeedThem) {
  const std::vector<CommHandle> comms = join(3, {"collectives.all_reduce.algorithm", "direct"});
  all_reduce(comms, 2);
  for (const CommHandle& comm : comms) {
    EXPECT_GT(properties_of(comm.get()).bytes_held, 1024U);
    EXPECT_LT(properties_of(comm.get()).bytes_held, std::uint64_t{1} << 20);
  }
}

TEST_P(Properties, AnOnlyRankHoldsNone) {
  const std::vector<CommHandle> comms = join(1);
  EXPECT_EQ(properties_of(comms[0].get()).bytes_held, 0U);
}

INSTANTIATE_TEST_SUITE_P(Wires, PropertiesInMemory, testing::Values("p2p", "shm"));

INSTANTIATE_TEST_SUITE_P(Wires, Properties, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(PropertiesStruct, MayBeOlderThanTheLibrary) {
  const ContextHandle context = make_context();
  const std::vector<CommHandle> comms = init_all(context.get(), CommSettings(), 2);
  weft_comm_properties properties;
  std::memset(&properties, 0x55, sizeof(properties));
  properties.struct_size = offsetof(weft_comm_properties, hosts);
  EXPECT_EQ(weft_comm_get_properties(comms[1].get(), &properties), WEFT_OK);
  EXPECT_EQ(properties.rank, 1U);
  EXPECT_EQ(properties.ranks, 2U);
  EXPECT_EQ(properties.hosts, 0x55555555U);
  properties.struct_size = sizeof(properties.struct_size);
  EXPECT_EQ(weft_comm_get_properties(comms[1].get(), &properties), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context.get()), HasSubstr("struct_size is 4, too small"));
  EXPECT_EQ(weft_comm_get_properties(comms[1].get(), nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_get_properties(nullptr, &properties), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST(PropertiesStruct, AreNotKnownBeforeTheRankHasJoined) {
  const ContextHandle context = make_context();
  weft_unique_id id;
  must(context.get(), weft_get_unique_id(context.get(), &id));
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  config.nonblocking = 1;
  weft_comm* comm = nullptr;
  ASSERT_EQ(weft_comm_init_rank(context.get(), &config, 2, &id, 0, &comm), WEFT_IN_PROGRESS);
  const CommHandle owner(comm);
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  EXPECT_EQ(weft_comm_get_properties(comm, &properties), WEFT_ERROR_INVALID_USAGE);
  EXPECT_THAT(last_error(context.get()), HasSubstr("still joining"));
}

TEST(DeviceMemory, OfADeviceThatIsNotOpenIsNone) {
  const ContextHandle context = make_context();
  weft_device_memory memory;
  std::memset(&memory, 0x55, sizeof(memory));
  memory.struct_size = offsetof(weft_device_memory, host_kept);
  EXPECT_EQ(weft_context_get_device_memory(context.get(), 0, &memory), WEFT_OK);
  EXPECT_EQ(memory.in_use, 0U);
  EXPECT_EQ(memory.kept, 0U);
  EXPECT_EQ(memory.host_in_use, 0U);
  EXPECT_EQ(memory.host_kept, 0x5555555555555555U) << "the caller has no room for it";
  memory.struct_size = 0;
  EXPECT_EQ(weft_context_get_device_memory(context.get(), 0, &memory), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context.get()), HasSubstr("weft_device_memory.struct_size is 0"));
  EXPECT_EQ(weft_context_get_device_memory(context.get(), 0, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_context_get_device_memory(nullptr, 0, &memory), WEFT_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft::test
