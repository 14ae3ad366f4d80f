// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A soak: for minutes random calls, communicators, graphs, windows and aborts beside kernels of the
// program's own, every result checked, and nothing may grow. A process for all ranks, or one for
// each where a launcher starts it: weft run -n 2 -- gpu_soak. Status: 0 all is well, 1 something is
// wrong, 2 usage, 3 it hung, 77 there is no CUDA device.
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/gpu/command_line.h"
#include "tests/gpu/device.h"
#include "tests/gpu/reference.h"
#include "tests/gpu/soak_growth.h"
#include "tests/gpu/soak_load.h"
#include "tests/gpu/soak_probe.h"
#include "tests/gpu/soak_round.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "gpu_soak: random operations beside kernels that compute, and nothing may grow\n"
    "  --minutes=N       for so long (8)\n"
    "  --rounds=N        so many instead; each makes its communicators anew\n"
    "  --seed=N          of everything (drawn, and printed)\n"
    "  --first-round=N   where to begin: what a round does hangs on the seed and its number (0)\n"
    "  --steps=N         of a round (12)\n"
    "  --only=NAME       steps of this name alone: calls, windows, options, two communicators,\n"
    "                    graphs, a new communicator, ended under way, an abort\n"
    "  --ranks=N         of this process (2); a launcher's environment counts before it\n"
    "  --one-thread      one for all ranks\n"
    "  --each-step       tells what is held before each step, too\n"
    "  --one-device      all ranks on device 0, as also where there are fewer devices than ranks\n"
    "  --largest=BYTES   of a call (32 MiB)\n"
    "  --patience=N      seconds for a step (120)\n"
    "  --host            the host device stands in for CUDA's: proves the soak itself\n"
    "  --plant=WHAT      a defect that has to be found: \"result\" spoils one; \"heap\", "
    "\"device\",\n"
    "                    \"library\" (of a device), \"descriptor\" and \"thread\" lose one each "
    "round.\n"
    "                    Status 0: it was found\n";

struct Wanted {
  double minutes = 8;
  std::uint64_t rounds = 0;  // 0: as many as there is time for
  std::uint64_t first_round = 0;
  std::size_t steps = 12;
  std::uint32_t ranks = 2;
  bool one_thread = false;
  bool each_step = false;
  std::string only;
  std::string plant;
};

/// What each plant has to be found by.
const std::map<std::string, std::string>& plants() {
  static const std::map<std::string, std::string> kPlants{
      {"result", "was changed|is not what"}, {"heap", "heap grew"},
      {"device", "device memory grew"},      {"library", "library memory grew"},
      {"descriptor", "descriptors grew"},    {"thread", "threads grew"}};
  return kPlants;
}

Wanted parse(int argc, char** argv) {
  Wanted wanted;
  Options& own = options();
  own.seed = std::random_device{}();
  own.largest = std::size_t{32} << 20;
  own.patience = 120;
  const std::map<std::string_view, std::function<void(std::string_view)>> kOptions{
      {"--minutes", [&](auto value) { wanted.minutes = number_of<double>(value); }},
      {"--rounds", [&](auto value) { wanted.rounds = number_of<std::uint64_t>(value); }},
      {"--first-round", [&](auto value) { wanted.first_round = number_of<std::uint64_t>(value); }},
      {"--steps", [&](auto value) { wanted.steps = number_of<std::size_t>(value); }},
      {"--ranks", [&](auto value) { wanted.ranks = number_of<std::uint32_t>(value); }},
      {"--one-thread", [&](auto) { wanted.one_thread = true; }},
      {"--each-step", [&](auto) { wanted.each_step = true; }},
      {"--only", [&](auto value) { wanted.only = value; }},
      {"--plant", [&](auto value) { wanted.plant = value; }},
      {"--seed", [&](auto value) { own.seed = number_of<std::uint64_t>(value); }},
      {"--one-device", [&](auto) { own.one_device = true; }},
      {"--largest", [&](auto value) { own.largest = number_of<std::size_t>(value); }},
      {"--patience", [&](auto value) { own.patience = number_of<int>(value); }},
      {"--host", [&](auto) { own.host = true; }},
      {"--help", [&](auto) {
         std::cout << kUsage;
         std::exit(0);
       }}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const auto option = kOptions.find(argument.substr(0, equals));
    if (option == kOptions.end()) usage_error("unknown option " + std::string(argument));
    option->second(argument.substr(std::min(equals + 1, argument.size())));
  }
  if (!wanted.plant.empty() && !plants().contains(wanted.plant)) {
    usage_error("nothing called \"" + wanted.plant + "\" can be planted");
  }
  if (!wanted.only.empty() && !Round::has_step(wanted.only)) {
    usage_error("no step is called \"" + wanted.only + '"');
  }
  if (const char* ranks = std::getenv("WEFT_WORLD_SIZE"))
    wanted.ranks = number_of<std::uint32_t>(ranks);
  // Windows of CPUs' memory are never mapped, which a warning tells of each.
  if (own.host) setenv("WEFT_LOG_LEVEL", "error", 0);
  if (wanted.ranks < 2) usage_error("it takes two ranks");
  return wanted;
}

/// Ends the program where a step takes too long: its communicators are aborted before, so that
/// ranks tell what they waited for. Halfway it tells what devices still do.
class Watch {
 public:
  Watch() : thread_([this] { watch(); }) {}
  ~Watch() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void begin(std::string step) {
    const std::scoped_lock lock(mutex_);
    step_ = std::move(step);
    since_ = Clock::now();
  }
  [[nodiscard]] std::string step() {
    const std::scoped_lock lock(mutex_);
    return step_;
  }
  /// `tell` is asked by the watch's thread, until another one or none is set.
  void on_late(std::function<std::string()> tell) {
    const std::scoped_lock lock(mutex_);
    tell_ = std::move(tell);
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    bool aborted = false;
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return over_; })) {
      const auto limit = std::chrono::seconds(options().patience);
      if (Clock::now() - since_ > limit / 2 && told_ != since_ && tell_) {
        told_ = since_;
        std::cout << step_ << " has taken half of " << options().patience << " s\n"
                  << what_is_late() << std::flush;
      }
      if (Clock::now() - since_ < limit) continue;
      if (!aborted) {
        aborted = true;
        std::cout << "FAILED: " << step_ << " takes longer than " << options().patience << " s"
                  << std::endl;
        Team::abort_all();
      } else if (Clock::now() - since_ > limit + std::chrono::seconds(15)) {
        std::cout << "FAILED: " << step_ << " hangs, and the program ends here" << std::endl;
        _exit(3);
      }
    }
  }

  [[nodiscard]] std::string what_is_late() const {
    try {
      return tell_();
    } catch (const Problem& problem) {
      return std::string("nothing can be told: ") + problem.what() + '\n';
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_ = "the beginning";  // guarded by mutex_, as all below
  Clock::time_point since_ = Clock::now();
  Clock::time_point told_;
  std::function<std::string()> tell_;
  bool over_ = false;
  std::thread thread_;
};

/// Has a watch tell something as long as this lives.
class Late {
 public:
  Late(Watch& watch, std::function<std::string()> tell) : watch_(watch) {
    watch.on_late(std::move(tell));
  }
  ~Late() { watch_.on_late({}); }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

 private:
  Watch& watch_;
};

/// Loses one of what was planted.
void lose(const std::string& plant) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  if (plant == "heap") {
    static std::vector<std::vector<char>*> lost;
    lost.push_back(new std::vector<char>(kBytes, 'x'));
  } else if (plant == "device") {
    void* memory = nullptr;
    use_device(0);
    CUDA(cudaMalloc(&memory, kBytes));
  } else if (plant == "library") {
    void* memory = nullptr;
    check(weft_memory_allocate(context(), WEFT_DEVICE_CUDA, 0, kBytes, &memory),
          "weft_memory_allocate");
  } else if (plant == "descriptor") {
    static_cast<void>(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } else if (plant == "thread") {
    std::thread([] { pause(); }).detach();
  }
}

class Program {
 public:
  explicit Program(const Wanted& wanted) : wanted_(wanted) {
    const char* rank = std::getenv("WEFT_RANK");
    mode_ = rank != nullptr     ? Mode::kProcess
            : wanted.one_thread ? Mode::kOneThread
                                : Mode::kThreads;
    const bool shares = options().one_device || device_count() < static_cast<int>(wanted.ranks);
    layout_ = {wanted.ranks, shares};
    tells_ = rank == nullptr || std::string_view(rank) == "0";
    if (shares) {
      devices_ = {0};
    } else if (mode_ == Mode::kProcess) {
      devices_ = {number_of<int>(rank)};
    } else {
      for (int device = 0; device < static_cast<int>(wanted.ranks); ++device)
        devices_.push_back(device);
    }
  }

  /// What is wrong, empty if nothing.
  std::string run() {
    std::uint64_t number = wanted_.first_round;
    try {
      const Load load(devices_, options().seed);
      const Probe probe(devices_);
      std::array second{SecondStreams(layout_.ranks), SecondStreams(layout_.ranks),
                        SecondStreams(layout_.ranks)};
      Soak soak{.mode = mode_,
                .layout = layout_,
                .steps = wanted_.steps,
                .second = second,
                .done = done_,
                .tell =
                    [&](const std::string& step) {
                      if (step.starts_with("step")) steps_ += (steps_.empty() ? "" : "; ") + step;
                      watch_.begin("round " + std::to_string(number) + ", " + step);
                      if (wanted_.each_step && tells_) tell_held(number, step);
                    },
                .spoils = wanted_.plant == "result",
                .only = wanted_.only};
      const Late late(watch_, [&] {
        std::string text = Team::tell_streams();
        for (const SecondStreams& streams : second)
          text += streams.tell();
        const std::uint64_t before = load.launched();
        text += probe.tell();
        return text + std::to_string(load.launched() - before) + " kernels of the load meanwhile\n";
      });
      while (!round(soak, number))
        ++number;
      kernels_ = load.launched();
    } catch (const std::exception& problem) {
      return watch_.step() + " (--seed=" + std::to_string(options().seed) +
             " --first-round=" + std::to_string(number) + "): " + problem.what();
    }
    if (!growth_.can_tell()) return "too few rounds to tell whether anything grows";
    return growth_.grown();
  }

  void report() const {
    std::cout << rounds_ << " rounds in " << seconds() << " s, " << layout_.ranks << " ranks on "
              << (layout_.one_device ? "one device" : "a device each") << " by "
              << (mode_ == Mode::kProcess     ? "processes"
                  : mode_ == Mode::kOneThread ? "one thread"
                                              : "threads")
              << ": " << done_.communicators << " communicators, " << done_.calls << " calls ("
              << done_.windows << " with windows, " << done_.options << " with options, of which "
              << done_.refused << " refused), " << done_.graphs << " graphs, " << done_.aborts
              << " aborts (" << done_.misnamed << " told as a mismatch), " << kernels_
              << " kernels beside\n"
              << growth_.text() << std::endl;
  }

 private:
  /// Answers whether it was the last.
  bool round(Soak& soak, std::uint64_t number) {
    Round round(soak, number);
    round.run();
    ++rounds_;
    const bool wanted =
        wanted_.rounds != 0 ? rounds_ >= wanted_.rounds : seconds() >= 60 * wanted_.minutes;
    // All ranks end with the same round, and none holds or frees memory while another one looks.
    const bool is_last = round.any(wanted);
    free_memory();
    forget_references();  // which keep a plan for each size
    lose(wanted_.plant);
    static_cast<void>(round.any(false));
    const std::int64_t device = other_device_bytes(round);
    round.close();
    Usage usage = process_usage(devices_);
    usage.device = device;
    tell_rise(number, usage);
    growth_.add(usage);
    if (tells_ && seconds() >= next_told_) {
      next_told_ = seconds() + 30;
      std::cout << seconds() << " s, " << rounds_ << " rounds, " << done_.calls
                << " calls: " << text_of(usage) << std::endl;
    }
    return is_last;
  }

  /// That the library does not hold, in any process: a call of all ranks.
  std::int64_t other_device_bytes(Round& round) const {
    const std::int64_t bytes = device_bytes(devices_);
    const weft_device_memory library = library_memory(devices_);
    const auto own = static_cast<std::int64_t>(library.in_use + library.kept);
    return bytes - (mode_ == Mode::kProcess && layout_.one_device ? round.total(own) : own);
  }

  void tell_held(std::uint64_t number, const std::string& step) const {
    Usage usage = process_usage(devices_);
    usage.device = device_bytes(devices_) - usage.in_use - usage.kept;
    std::cout << "round " << number << ", before " << step << ": " << text_of(usage) << std::endl;
  }

  /// With what the round did, since only the first such round may show what it was.
  void tell_rise(std::uint64_t number, const Usage& usage) {
    const std::string steps = std::exchange(steps_, {});
    const std::string risen = growth_.can_tell() ? growth_.risen(usage) : "";
    if (!tells_ || risen.empty()) return;
    std::cout << "round " << number << ": " << risen << " (" << steps << ")" << std::endl;
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  const Wanted wanted_;
  const Clock::time_point begin_ = Clock::now();
  Mode mode_ = Mode::kThreads;
  Layout layout_;
  bool tells_ = true;
  std::vector<int> devices_;
  Watch watch_;
  Done done_;
  Growth growth_;
  std::uint64_t rounds_ = 0;
  std::uint64_t kernels_ = 0;
  double next_told_ = 0;
  std::string steps_;  // of the round so far
};

bool is_found(const std::string& plant, const std::string& wrong) {
  const std::string& words = plants().at(plant);
  const std::size_t bar = words.find('|');
  return wrong.find(words.substr(0, bar)) != std::string::npos ||
         (bar != std::string::npos && wrong.find(words.substr(bar + 1)) != std::string::npos);
}

int run(int argc, char** argv) {
  const Wanted wanted = parse(argc, argv);
  if (device_count() == 0) {
    std::cerr << "gpu_soak: no CUDA device can be used here\n";
    return 77;
  }
  std::cout << std::fixed;
  std::cout.precision(1);
  std::cout << "--seed=" << options().seed << std::endl;
  Program program(wanted);
  const std::string wrong = program.run();
  program.report();
  int status = wrong.empty() ? 0 : 1;
  if (!wrong.empty()) std::cout << "FAILED: " << wrong << std::endl;
  if (!wanted.plant.empty()) {
    status = is_found(wanted.plant, wrong) ? 0 : 1;
    std::cout << "the planted defect was " << (status == 0 ? "" : "not ") << "found" << std::endl;
  }
  // What is left after a failure may still wait for peers.
  if (!wrong.empty()) _exit(status);
  forget_context();
  std::cout << "passed" << std::endl;
  return status;
}

}  // namespace
}  // namespace weft::gpu_test

int main(int argc, char** argv) {
  weft::gpu_test::keep_little_of_what_is_freed();
  // As in gpu_test: queues for the streams of all ranks, and no kernel is loaded while others spin.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  return weft::gpu_test::run(argc, argv);
}
