// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft explain OP SIZE`: the plan that a call of that size runs, and why. It asks a real
// communicator: started by hand it starts a job of its own, in a job its first rank speaks.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bootstrap/job_environment.h"
#include "core/comm/bound_plan.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/exchange_plan.h"
#include "core/config/environment.h"
#include "core/config/units.h"
#include "core/schedule/call_text.h"
#include "core/schedule/plan.h"
#include "tools/weft/bench_call.h"
#include "tools/weft/call_options.h"
#include "tools/weft/commands.h"
#include "tools/weft/session.h"

namespace weft::tool {
namespace {

struct ExplainOptions {
  std::string size_text;
  std::uint32_t ranks = 2;
  std::string device = "host";
  CallOptions call;
  WayWords way;
  Operation operation = Operation::kAllReduce;
};

Result<Task> task_of(const ExplainOptions& options, std::uint32_t ranks) {
  WEFT_TRY_ASSIGN(const std::int64_t bytes, parse_bytes(options.size_text));
  Task task{.operation = options.operation,
            .type = options.call.type(),
            .reduction = options.call.reduction(),
            .root = options.call.root,
            .count = 0,
            .options = options.way.options()};
  if (task.operation == Operation::kAllToAllV) return task;  // its blocks say
  task.count =
      count_for(task.operation, static_cast<std::uint64_t>(bytes), task.type, std::max(1U, ranks));
  return task;
}

/// The calls of all ranks; of all-to-all-v the blocks are those that `weft bench` has.
Result<std::vector<Call>> calls_of(const Task& task, std::uint64_t bytes, std::uint32_t ranks) {
  std::vector<Call> calls(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    calls[rank].task = task;
    if (task.operation == Operation::kSend) calls[rank].task.root = (rank + 1) % ranks;
    if (task.operation != Operation::kAllToAllV) continue;
    const UnevenBlocks blocks(bytes / element_size(task.type) / ranks, rank, ranks);
    WEFT_TRY_ASSIGN(calls[rank].blocks, read_blocks({.send_counts = blocks.counts.data(),
                                                     .send_offsets = blocks.offsets.data(),
                                                     .recv_counts = blocks.counts.data(),
                                                     .recv_offsets = blocks.offsets.data()},
                                                    task.type, rank, ranks));
  }
  return calls;
}

/// The plan of a call; where blocks differ, of those that `weft bench` has.
Result<Plan> plan_of(Task task, std::uint64_t bytes, Communicator& communicator) {
  if (!has_uneven_blocks(task.operation)) {
    WEFT_TRY_ASSIGN(const auto plan, communicator.plan(task));
    return *plan;
  }
  const UnevenBlocks uneven(bytes / element_size(task.type) / communicator.ranks(), 0,
                            communicator.ranks());
  std::vector<Block> blocks(uneven.counts.size());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = {.offset = uneven.offsets[i], .count = uneven.counts[i]};
  task.count = std::ranges::max(uneven.counts);
  WEFT_TRY_ASSIGN(const auto kept, communicator.plan(task));
  Plan plan = *kept;
  plan.blocks = std::move(blocks);
  return plan;
}

/// How those pairs are joined: a line for each, or, where they are many, for all that are alike.
void print_pairs(const Communicator& communicator,
                 std::span<const std::pair<std::uint32_t, std::uint32_t>> pairs) {
  constexpr std::size_t kMostLines = 6;
  constexpr std::size_t kMostNamed = 4;
  if (pairs.size() <= kMostLines) {
    for (const auto& [a, b] : pairs)
      fmt::print("ranks {} and {}: {}\n", a, b, communicator.describe_pair(a, b));
    return;
  }
  std::map<std::string, std::vector<std::string>> alike;
  for (const auto& [a, b] : pairs)
    alike[communicator.describe_pair(a, b)].push_back(fmt::format("{} and {}", a, b));
  for (auto& [how, which] : alike) {
    const std::size_t count = which.size();
    if (count > kMostNamed) which.resize(kMostNamed);
    fmt::print("{} pairs of ranks ({}{}): {}\n", count, fmt::join(which, ", "),
               count > kMostNamed ? ", ..." : "", how);
  }
}

Status explain_exchange(const Task& task, std::uint64_t bytes, const Communicator& communicator) {
  WEFT_TRY(communicator.check_task(task));
  WEFT_TRY_ASSIGN(const auto calls, calls_of(task, bytes, communicator.ranks()));
  if (communicator.rank() != 0) return {};
  const ExchangePlan plan = communicator.explain_exchange(calls);
  fmt::print("{}", to_text(plan));
  print_pairs(communicator, joined_pairs(plan));
  return {};
}

/// What holds the buffers of this rank of a job.
Result<DeviceRuntime*> device_of(const ExplainOptions& options, const JobEnvironment& job,
                                 Context& context) {
  if (options.device == "host") return &context.runtime();
  std::int32_t index = job.local_rank.value_or(static_cast<int>(job.rank));
  if (const std::size_t colon = options.device.find(':'); colon != std::string::npos) {
    const char* const end = options.device.data() + options.device.size();
    std::from_chars(options.device.data() + colon + 1, end, index);
  }
  return context.cuda_device(index);
}

/// In a job: joins it; rank 0 prints.
Status explain_as_rank(const ExplainOptions& options) {
  WEFT_TRY_ASSIGN(auto context, Context::create("", capture_environment()));
  WEFT_TRY_ASSIGN(const JobEnvironment job, read_job_environment(current_environment()));
  WEFT_TRY_ASSIGN(const Task task, task_of(options, static_cast<std::uint32_t>(job.world_size)));
  WEFT_TRY_ASSIGN(DeviceRuntime* const device, device_of(options, job, *context));
  WEFT_TRY_ASSIGN(const UniqueId id, unique_id_of(job, context->next_job_instance()));
  if (job.rank == 0 && job.world_size > 1) {
    WEFT_TRY(context->serve_rendezvous_at(id, context->config()));
  }
  WEFT_TRY_ASSIGN(
      auto communicator,
      Communicator::join(*context, context->config(), id, static_cast<std::uint32_t>(job.rank),
                         static_cast<std::uint32_t>(job.world_size), *device));
  WEFT_TRY_ASSIGN(const std::int64_t bytes, parse_bytes(options.size_text));
  if (!is_planned(task.operation)) {
    WEFT_TRY(explain_exchange(task, static_cast<std::uint64_t>(bytes), *communicator));
    return communicator->finish();
  }
  WEFT_TRY_ASSIGN(const Plan plan, plan_of(task, static_cast<std::uint64_t>(bytes), *communicator));
  if (job.rank == 0) {
    fmt::print("{}", to_text(plan));
    const std::string launch = communicator->describe_launch(plan);
    if (!launch.empty()) fmt::print("each rank: {}\n", launch);
    if (const std::uint64_t least = communicator->copied_from(task); least != 0) {
      fmt::print("windows: an output of {} or more that lies in one is written by copy engines\n",
                 size_text(least));
    }
    if (const std::uint64_t least = communicator->reduced_from(task); least != 0) {
      fmt::print(
          "windows: inputs of {} or more that lie in one, and outputs of an all-reduce, are read "
          "and\n"
          "         written by copy engines, beside a kernel that sums up\n",
          size_text(least));
    }
    const std::vector<NetEdge> hops = communicator->hops(plan);
    print_pairs(*communicator, joined_pairs(hops));
    for (const std::string& edge : communicator->describe_net_edges(hops))
      fmt::print("{}\n", edge);
  }
  return communicator->finish();
}

/// Starts this very command as a job.
Status start_job(const ExplainOptions& options) {
  WEFT_TRY(task_of(options, options.ranks));
  std::array<char, PATH_MAX + 1> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) {
    return fail(Error::from_errno(errno, "cannot find this program's own file"));
  }
  std::vector<std::string> words = {self.data(),
                                    "run",
                                    "-n",
                                    std::to_string(options.ranks),
                                    "--no-prefix",
                                    "--",
                                    self.data(),
                                    "explain",
                                    std::string(BenchCall{options.operation}.name()),
                                    options.size_text,
                                    "--device",
                                    options.device};
  const auto call = words_of(options.operation, options.call);
  words.insert(words.end(), call.begin(), call.end());
  const auto way = words_of(options.way);
  words.insert(words.end(), way.begin(), way.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(self.data(), arguments.data());
  return fail(Error::from_errno(errno, fmt::format("cannot start {}", self.data())));
}

// Empty where it is one.
std::string device_problem(const std::string& text) {
  if (text == "host" || text == "cuda") return {};
  if (text.starts_with("cuda:") && text.size() > 5 && text.size() < 9 &&
      std::all_of(text.begin() + 5, text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return {};
  }
  return fmt::format("\"{}\" is no device; there are host, cuda and cuda:N", text);
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command =
      app.add_subcommand("explain", "Print the plan that a call would run, and why");
  command->require_subcommand(1);
  std::vector<Operation> operations(kKnownOperations.begin(), kKnownOperations.end());
  operations.insert(operations.end(), kMoreExplained.begin(), kMoreExplained.end());
  for (const Operation operation : operations) {
    CLI::App* sub = command->add_subcommand(std::string(BenchCall{operation}.name()));
    sub->add_option("size", options->size_text, "Bytes of the call (8, 8MiB)")->required();
    sub->add_option("-n,--ranks", options->ranks, "Ranks of the job to start, on this host")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    sub->add_option("--device", options->device,
                    "Where ranks have their buffers: host, cuda (each on the GPU of its number on "
                    "its host) or cuda:N (all on GPU N)")
        ->check(CLI::Validator(device_problem, "DEVICE"))
        ->capture_default_str();
    add_call_options(*sub, operation, options->call);
    if (is_planned(operation)) {
      add_way_options(*sub, options->way);
    } else {
      add_limit_option(*sub, options->way);
    }
    sub->callback([options, operation, &exit_status] {
      options->operation = operation;
      const Status done = in_weft_run() ? explain_as_rank(*options) : start_job(*options);
      if (done) return;
      fmt::print(stderr, "weft explain: {}\n", done.error().to_string());
      exit_status = 1;
    });
  }
}

}  // namespace weft::tool
