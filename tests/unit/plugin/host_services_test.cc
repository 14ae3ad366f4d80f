// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The services that a plugin instance is given, called as a plugin calls them.
#include "core/plugin/host_services.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <latch>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/fd.h"
#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

class Services : public testing::Test {
 protected:
  void SetUp() override {
    const auto add = [&](const char* key, ParameterType type, const char* text) {
      Parameter parameter;
      parameter.section = "sample";
      parameter.key = key;
      parameter.type = type;
      parameter.may_be_off = true;
      settings_.emplace_back(parameter, parse_value(parameter, text).value());
    };
    add("eager", ParameterType::kFlag, "true");
    add("streams", ParameterType::kInteger, "4");
    add("buffer", ParameterType::kBytes, "64KiB");
    add("patience", ParameterType::kDuration, "250ms");
    add("never", ParameterType::kDuration, "off");
    add("path", ParameterType::kText, "/tmp/x");
    add("interfaces", ParameterType::kList, "eth0,^docker");
    make();
  }
  void make() {
    services_ = std::make_unique<HostServices>("sample", context_.logger, *context_.reactor,
                                               context_.runtime, settings_);
    host_ = services_->table();
    self_ = host_->instance;
  }
  weft_parameter_value parameter(const char* name) {
    weft_parameter_value value{};
    value.struct_size = sizeof(value);
    EXPECT_EQ(host_->get_parameter(self_, name, &value), WEFT_OK) << name;
    return value;
  }
  /// What the last refusal said.
  std::string said() {
    const auto failure = services_->take_failure();
    return failure ? failure->what : "nothing";
  }

  test::Context context_;
  PluginSettings settings_;
  std::unique_ptr<HostServices> services_;
  const weft_host* host_ = nullptr;
  weft_host_instance* self_ = nullptr;
};

TEST_F(Services, TableIsWholeAndOfThisDraft) {
  EXPECT_EQ(host_->struct_size, sizeof(weft_host));
  EXPECT_EQ(host_->abi_version, static_cast<std::uint32_t>(WEFT_PLUGIN_ABI_VERSION));
  EXPECT_EQ(host_->draft, static_cast<std::uint32_t>(WEFT_PLUGIN_DRAFT));
  EXPECT_EQ(host_->memory->struct_size, sizeof(weft_host_memory));
  EXPECT_EQ(host_->get_extension(self_, "weft.host.example/1"), nullptr);
}

TEST_F(Services, ParametersAreTyped) {
  EXPECT_EQ(parameter("eager").type, WEFT_PARAMETER_FLAG);
  EXPECT_EQ(parameter("eager").number, 1);
  EXPECT_EQ(parameter("streams").number, 4);
  EXPECT_EQ(parameter("streams").text, nullptr);
  EXPECT_EQ(parameter("buffer").type, WEFT_PARAMETER_BYTES);
  EXPECT_EQ(parameter("buffer").number, 65536);
  EXPECT_EQ(parameter("patience").number, 250'000'000);
  EXPECT_EQ(parameter("never").number, -1);
  EXPECT_STREQ(parameter("path").text, "/tmp/x");
  const auto list = parameter("interfaces");
  ASSERT_EQ(list.item_count, 2U);
  EXPECT_STREQ(list.items[0], "eth0");
  EXPECT_STREQ(list.items[1], "^docker");
}

TEST_F(Services, ParametersNotInTheTableAreRefused) {
  weft_parameter_value value{};
  value.struct_size = sizeof(value);
  EXPECT_EQ(host_->get_parameter(self_, "colour", &value), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(said(), "get_parameter(\"colour\"): not in the plugin's table");
  EXPECT_EQ(host_->get_parameter(self_, nullptr, &value), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST_F(Services, AnOlderPluginGetsNoMoreThanItHasRoomFor) {
  weft_parameter_value value{};
  value.struct_size = offsetof(weft_parameter_value, text);
  value.text = "untouched";
  EXPECT_EQ(host_->get_parameter(self_, "path", &value), WEFT_OK);
  EXPECT_EQ(value.type, WEFT_PARAMETER_TEXT);
  EXPECT_STREQ(value.text, "untouched");
  EXPECT_EQ(value.struct_size, offsetof(weft_parameter_value, text));
  value.struct_size = 0;
  EXPECT_EQ(host_->get_parameter(self_, "path", &value), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST_F(Services, ErrorsBelongToTheThreadAndAreTakenOnce) {
  host_->set_error(self_, WEFT_ERROR_SYSTEM, WEFT_SOURCE_ERRNO, 13, "line one\nline two", nullptr);
  std::thread([&] {
    EXPECT_FALSE(services_->take_failure());
    host_->set_error(self_, WEFT_ERROR_PEER, WEFT_SOURCE_PEER, 3, "theirs", "ask them");
    EXPECT_EQ(services_->take_failure()->hint, "ask them");
  }).join();
  const auto failure = services_->take_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, WEFT_ERROR_SYSTEM);
  EXPECT_EQ(failure->native, 13);
  EXPECT_EQ(failure->what, "line one line two");
  EXPECT_EQ(failure->hint, "");
  EXPECT_FALSE(services_->take_failure());
  host_->set_error(self_, WEFT_ERROR_SYSTEM, WEFT_SOURCE_ERRNO, 13, nullptr, nullptr);
  services_->clear_failure();
  EXPECT_FALSE(services_->take_failure());
}

TEST_F(Services, LogsUnderThePluginsTopic) {
  LogOptions options;
  options.level = WEFT_LOG_ERROR;
  options.topics[static_cast<std::size_t>(Topic::kPlugin)] = WEFT_LOG_INFO;
  context_.logger.configure(options);
  EXPECT_EQ(host_->log_enabled(self_, WEFT_LOG_INFO), 1);
  EXPECT_EQ(host_->log_enabled(self_, WEFT_LOG_DEBUG), 0);
  testing::internal::CaptureStderr();
  host_->log(self_, WEFT_LOG_DEBUG, __FILE__, __LINE__, "quiet");
  host_->log(self_, WEFT_LOG_INFO, __FILE__, __LINE__, "two\nlines");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr("sample: two lines"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("quiet")));
}

TEST_F(Services, MemoryIsZeroedAlignedAndNamed) {
  weft_memory memory{};
  memory.struct_size = sizeof(memory);
  ASSERT_EQ(host_->memory->allocate(self_, WEFT_MEMORY_HOST, -1, 10000, 0, &memory), WEFT_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.address) % 4096, 0U);
  EXPECT_GE(memory.size, 10000U);
  EXPECT_EQ(memory.kind, WEFT_MEMORY_HOST);
  EXPECT_EQ(memory.device, -1);
  auto* bytes = static_cast<unsigned char*>(memory.address);
  EXPECT_EQ(bytes[0] + bytes[9999], 0);
  bytes[9999] = 1;
  weft_memory found{};
  found.struct_size = sizeof(found);
  ASSERT_EQ(host_->memory->query(self_, bytes + 9999, &found), WEFT_OK);
  EXPECT_EQ(found.address, memory.address);
  EXPECT_EQ(found.allocation_id, memory.allocation_id);
  EXPECT_EQ(host_->memory->query(self_, bytes + 10000, &found), WEFT_ERROR_UNSUPPORTED);
  weft_memory second{};
  second.struct_size = sizeof(second);
  ASSERT_EQ(host_->memory->allocate(self_, WEFT_MEMORY_HOST, -1, 1, 0, &second), WEFT_OK);
  EXPECT_NE(second.allocation_id, memory.allocation_id);
  host_->memory->free(self_, &memory);
  host_->memory->free(self_, &second);
  EXPECT_EQ(context_.runtime.live, 0);
}

TEST_F(Services, MemoryGivenBackTwiceIsNotFreedTwice) {
  weft_memory memory{};
  memory.struct_size = sizeof(memory);
  ASSERT_EQ(host_->memory->allocate(self_, WEFT_MEMORY_HOST, -1, 64, 0, &memory), WEFT_OK);
  host_->memory->free(self_, &memory);
  testing::internal::CaptureStderr();
  host_->memory->free(self_, &memory);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("sample: gave back memory at "));
  EXPECT_EQ(context_.runtime.live, 0);
}

TEST_F(Services, MemoryThatCannotBeHadIsRefusedWithAReason) {
  weft_memory memory{};
  memory.struct_size = sizeof(memory);
  const weft_host_memory& service = *host_->memory;
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_CUDA, 0, 64, 0, &memory), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(), "no rank of this context runs on CUDA device 0");
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_DMABUF, 0, 64, 0, &memory), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(),
            "memory of kind 2 on device 0 cannot be allocated: there is host memory (kind 0, "
            "device -1) and CUDA memory (kind 1)");
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_HOST, -1, 64, WEFT_SHARING_DESCRIPTOR, &memory),
            WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(), "ordinary host memory cannot be handed to another process");
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_HOST, -1, UINT64_MAX, 0, &memory),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(said(), "18446744073709551615 bytes of memory asked for");
  weft_memory no_room{};
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_HOST, -1, 64, 0, &no_room),
            WEFT_ERROR_INVALID_ARGUMENT);
  context_.runtime.fail = true;
  EXPECT_EQ(service.allocate(self_, WEFT_MEMORY_HOST, -1, 64, 0, &memory),
            WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(said(), "cannot allocate 64 bytes of host memory");
  std::uint64_t count = 0;
  EXPECT_EQ(service.segments(self_, &memory, nullptr, 0, 0, &count), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(), "ordinary host memory is not made of segments");
  EXPECT_EQ(service.on_revoke(self_, 1, nullptr, nullptr), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(), "ordinary host memory goes only when the plugin itself gives it back");
  weft_memory_export exported{};
  exported.struct_size = sizeof(exported);
  EXPECT_EQ(service.export_memory(self_, &memory, WEFT_SHARING_IPC, &exported),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(said(), "export_memory: this instance did not allocate that memory");
  context_.runtime.fail = false;
  ASSERT_EQ(service.allocate(self_, WEFT_MEMORY_HOST, -1, 64, 0, &memory), WEFT_OK);
  EXPECT_EQ(service.export_memory(self_, &memory, WEFT_SHARING_IPC, &exported),
            WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(), "ordinary host memory cannot be handed to another process");
  service.free(self_, &memory);
  EXPECT_EQ(context_.runtime.live, 0);
}

TEST_F(Services, ImportTakesTheDescriptorOverEvenWhenItRefuses) {
  weft_memory_export from{};
  from.struct_size = sizeof(from);
  from.sharing = WEFT_SHARING_DESCRIPTOR;
  from.descriptor = ::eventfd(0, EFD_CLOEXEC);
  weft_memory memory{};
  memory.struct_size = sizeof(memory);
  EXPECT_EQ(host_->memory->import_memory(self_, &from, -1, nullptr, &memory),
            WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(said(),
            "only CUDA memory that travels by WEFT_SHARING_IPC or WEFT_SHARING_DESCRIPTOR can be "
            "imported, wherever the driver puts it");
  EXPECT_EQ(::close(from.descriptor), -1);
}

TEST_F(Services, WatchesUntilUnwatched) {
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  struct Seen {
    int fd;
    std::atomic<int> calls{0};
  } seen{event.get()};
  weft_watch watch = 0;
  const auto ready = [](void* user, std::uint32_t events) {
    auto& mine = *static_cast<Seen*>(user);
    eventfd_t value = 0;
    if ((events & EPOLLIN) != 0) eventfd_read(mine.fd, &value);
    ++mine.calls;
    mine.calls.notify_all();
  };
  ASSERT_EQ(host_->watch(self_, event.get(), EPOLLIN, ready, &seen, &watch), WEFT_OK);
  eventfd_write(event.get(), 1);
  seen.calls.wait(0);
  host_->unwatch(self_, watch);
  const int calls = seen.calls;
  eventfd_write(event.get(), 1);
  host_->unwatch(self_, watch);
  host_->unwatch(self_, 4711);
  EXPECT_EQ(seen.calls, calls);
  EXPECT_EQ(host_->watch(self_, -1, EPOLLIN, ready, &seen, &watch), WEFT_ERROR_SYSTEM);
  const auto failure = services_->take_failure();
  EXPECT_EQ(failure->source, WEFT_SOURCE_ERRNO);
  EXPECT_EQ(failure->native, EBADF);
  EXPECT_EQ(host_->watch(self_, event.get(), EPOLLIN, nullptr, &seen, &watch),
            WEFT_ERROR_INVALID_ARGUMENT);
}

TEST_F(Services, LeftoversAreTakenBackWithAWarning) {
  LogOptions options;
  options.level = WEFT_LOG_WARN;
  context_.logger.configure(options);
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  weft_watch watch = 0;
  ASSERT_EQ(host_->watch(
                self_, event.get(), EPOLLIN, [](void*, std::uint32_t) {}, nullptr, &watch),
            WEFT_OK);
  weft_memory memory{};
  memory.struct_size = sizeof(memory);
  ASSERT_EQ(host_->memory->allocate(self_, WEFT_MEMORY_HOST, -1, 64, 0, &memory), WEFT_OK);
  testing::internal::CaptureStderr();
  services_.reset();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr("sample: left 1 watched descriptors behind"));
  EXPECT_THAT(text, testing::HasSubstr("sample: left 1 pieces of memory behind"));
  EXPECT_EQ(context_.runtime.live, 0);
}

TEST_F(Services, CountersAddUpOverThreads) {
  weft_counter* counter = nullptr;
  ASSERT_EQ(host_->counter(self_, "bytes_sent_total", "Bytes sent.", &counter), WEFT_OK);
  weft_counter* again = nullptr;
  ASSERT_EQ(host_->counter(self_, "bytes_sent_total", "Other words.", &again), WEFT_OK);
  EXPECT_EQ(counter, again);
  constexpr int kRounds = 1'000'000;  // so that both count at once for a while
  std::latch both(2);
  std::thread other([&] {
    both.arrive_and_wait();
    for (int i = 0; i < kRounds; ++i)
      host_->count(counter, 2);
  });
  both.arrive_and_wait();
  for (int i = 0; i < kRounds; ++i)
    host_->count(counter, 1);
  other.join();
  const auto counters = services_->counters();
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].name, "bytes_sent_total");
  EXPECT_EQ(counters[0].help, "Bytes sent.");
  EXPECT_EQ(counters[0].value, 3U * kRounds);
  EXPECT_EQ(host_->counter(self_, "Bytes sent", "", &counter), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(said(), "\"Bytes sent\" is no name for a counter");
  for (int i = 0; i < 1023; ++i) {
    ASSERT_EQ(host_->counter(self_, ("c" + std::to_string(i)).c_str(), "", &counter), WEFT_OK);
  }
  EXPECT_EQ(host_->counter(self_, "one_more", "", &counter), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(said(), "more than 1024 counters");
}

TEST_F(Services, TheClockDoesNotJumpBack) {
  const std::uint64_t before = host_->now_ns(self_);
  EXPECT_GE(host_->now_ns(self_), before);
  EXPECT_GT(before, 0U);
}

}  // namespace
}  // namespace weft
