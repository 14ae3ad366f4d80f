// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Weft on real GPUs, through its public API: main of the tests beside this file. On a machine
// without a CUDA device it says so and ends with status 77.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/gpu/command_line.h"
#include "tests/gpu/job.h"
#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {
namespace {

constexpr const char* kUsage =
    "gpu_test, besides GoogleTest's own options:\n"
    "  --seed=N           of the random inputs (drawn, and printed)\n"
    "  --algorithm=NAME   of all-reduce on devices: collectives.all_reduce.algorithm\n"
    "  --protocol=NAME    likewise\n"
    "  --set=NAME=VALUE   a setting of the communicators of devices; may be repeated\n"
    "  --small            few and small calls, for slow checkers\n"
    "  --largest=BYTES    of a call (64 MiB)\n"
    "  --patience=N       seconds for one test; then its communicators are aborted (60)\n"
    "  --operation=NAME   where a test tries all of them: all_gather and so on, this one alone\n"
    "  --windows=KIND     buffers lie in windows wherever they can: of weft or cuda memory\n"
    "  --one-device       of a rank's process: all ranks are on device 0\n"
    "  --host             the host device stands in for four CUDA devices: proves these tests\n";

void parse(int argc, char** argv) {
  options().seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(std::min(equals + 1, argument.size()));
    if (name == "--seed") {
      options().seed = number_of<std::uint64_t>(value);
    } else if (name == "--algorithm") {
      options().algorithm = value;
    } else if (name == "--protocol") {
      options().protocol = value;
    } else if (name == "--set") {
      const std::size_t middle = value.find('=');
      if (middle == std::string_view::npos) usage_error("--set wants NAME=VALUE");
      options().settings.emplace_back(value.substr(0, middle), value.substr(middle + 1));
    } else if (name == "--small") {
      options().small = true;
    } else if (name == "--largest") {
      options().largest = number_of<std::size_t>(value);
    } else if (name == "--patience") {
      options().patience = number_of<int>(value);
    } else if (name == "--one-device") {
      options().one_device = true;
    } else if (name == "--host") {
      options().host = true;
    } else if (name == "--windows") {
      options().windows = value;
      if (value != "weft" && value != "cuda") usage_error("--windows is weft or cuda");
    } else if (name == "--operation") {
      options().operation = parse_operation(value);
      if (!options().operation) usage_error("unknown operation " + std::string(value));
    } else {
      usage_error("unknown option " + std::string(argument));
    }
  }
}

/// Aborts the communicators of a test that takes too long, so that it fails and the next can run;
/// if that is of no use, ends the program.
class Watchdog : public testing::EmptyTestEventListener {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() override {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void OnTestStart(const testing::TestInfo& info) override {
    begin(std::string(info.test_suite_name()) + "." + info.name());
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override { begin(""); }

 private:
  void begin(const std::string& test) {
    const std::scoped_lock lock(mutex_);
    test_ = test;
    since_ = Clock::now();
    aborted_ = false;
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return over_; })) {
      const auto limit = std::chrono::seconds(options().patience);
      if (test_.empty() || Clock::now() - since_ < limit) continue;
      if (!aborted_) {
        aborted_ = true;
        std::cout << test_ << " takes longer than " << options().patience
                  << " s: its communicators are aborted" << std::endl;
        Team::abort_all();
      } else if (Clock::now() - since_ > limit + std::chrono::seconds(15)) {
        // In GoogleTest's form, so that whoever counts lines counts it.
        std::cout << "[  FAILED  ] " << test_ << " (hangs, and the program ends here)" << std::endl;
        _exit(3);
      }
    }
  }

  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;  // guarded by mutex_, as all below
  Clock::time_point since_;
  bool aborted_ = false;
  bool over_ = false;
  std::thread thread_;
};

/// A rank of a job tells the others' parent which bits its all-reduces gave.
class TellBits : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& /*info*/) override { say_bits(own_bits()); }
};

int run(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--help") std::cout << kUsage << "\n";
  }
  testing::InitGoogleTest(&argc, argv);
  parse(argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  int count = device_count();
  const cudaError_t found = options().host ? cudaSuccess : cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0) {
    std::cerr << "gpu_test: no CUDA device can be used here: "
              << (found != cudaSuccess ? cudaGetErrorString(found) : "there is none") << "\n";
    return 77;
  }
  if (std::getenv("WEFT_RANK") == nullptr) {
    const std::string filter = GTEST_FLAG_GET(filter);
    const bool excludes = filter.find('-') != std::string::npos;
    GTEST_FLAG_SET(filter, filter + (excludes ? ":" : "-") + "RankOfJob.*");
    std::cout << count << (options().host ? " ranks of the host" : " CUDA devices")
              << "; --seed=" << options().seed << std::endl;
  }
  // GoogleTest deletes them.
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
  testing::UnitTest::GetInstance()->listeners().Append(new TellBits);
  const int status = RUN_ALL_TESTS();
  forget_context();
  return status;
}

}  // namespace
}  // namespace weft::gpu_test

int main(int argc, char** argv) {
  // Ranks on one device need streams that run at once: more queues than streams. And no kernel may
  // be loaded while another spins.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  return weft::gpu_test::run(argc, argv);
}
