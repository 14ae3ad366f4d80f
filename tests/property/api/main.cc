// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Random calls of the public API over random ranks, transports and settings, each checked element
// by element:
//
//   api-property [--operation NAME] [--cases N] [--seed SEED] [--processes WEFT]
//   api-property --operation NAME --replay CASE [--with-those-before] [--processes WEFT]
//
// --operation is one of all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all,
// gather, scatter, all_to_all_v, all_gather_v, reduce_scatter_v, send_recv and mix; without it, all
// in turn. N cases of each, 1000
// unless given; the seed is random unless given.
// --processes runs a process for each rank, by the command WEFT run. A failure ends the run: it
// prints the case, and the command that replays it alone.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/api/handles.h"
#include "tests/property/api/cases.h"
#include "tests/property/api/ranks.h"
#include "tests/support/process.h"

namespace {

using namespace weft::test;  // NOLINT(google-build-using-namespace)

// Communicators are dear, so each serves several cases.
constexpr std::uint64_t kCasesOfAWorld = 20;
constexpr std::uint64_t kCasesOfAJob = 5;
constexpr std::chrono::minutes kJobPatience{10};

struct Options {
  std::string program;
  std::optional<Subject> subject;
  std::uint64_t cases = 1000;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> replay;
  bool with_those_before = false;
  std::string weft;  // the command, for a process each
  // Of one of those processes: the folder of tables, and what to run.
  std::string tables;
  std::uint64_t world_seed = 0;
  std::uint64_t first = 0;
};

std::uint64_t number(const std::string& text) {
  std::size_t used = 0;
  const std::uint64_t value = std::stoull(text, &used, 0);
  if (used != text.size()) throw std::invalid_argument(text + " is no number");
  return value;
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  options.program = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw std::invalid_argument(word + " wants a value");
      return words[++i];
    };
    if (word == "--operation") {
      options.subject = parse_subject(value());
      if (!options.subject) throw std::invalid_argument("no operation is called " + words[i]);
    } else if (word == "--cases") {
      options.cases = number(value());
    } else if (word == "--seed") {
      options.seed = number(value());
    } else if (word == "--replay") {
      options.replay = number(value());
    } else if (word == "--with-those-before") {
      options.with_those_before = true;
    } else if (word == "--processes") {
      options.weft = value();
    } else if (word == "--rank-of") {
      options.world_seed = number(value());
    } else if (word == "--first") {
      options.first = number(value());
    } else if (word == "--tables") {
      options.tables = value();
    } else {
      throw std::invalid_argument("unknown option " + word);
    }
  }
  return options;
}

/// Cases that follow one another in one world.
struct Run {
  Subject subject;
  std::uint64_t world_seed;
  World world;
  std::uint64_t first;
  std::vector<Case> cases;

  Run(Subject of, std::uint64_t seed, std::uint64_t from, std::uint64_t count, bool processes)
      : subject(of), world_seed(seed), world(draw_world(seed, of, processes)), first(from) {
    for (std::uint64_t i = 0; i < count; ++i)
      cases.push_back(draw_case(case_seed(seed, from + i), of, world));
  }
};

std::string config_file(const std::string& tables, Tuning tuning) {
  return tables + "/" + name_of(tuning) + ".yaml";
}

// What the ranks of a job wrote of themselves, each line behind a prefix with the rank.
std::vector<std::string> digests_in(const std::string& out) {
  const std::string mark = "digest ";
  std::vector<std::string> found;
  for (std::size_t at = out.find(mark); at != std::string::npos; at = out.find(mark, at + 1))
    found.push_back(out.substr(at, out.find('\n', at) - at));
  return found;
}

void try_in_processes(const Options& options, const Run& run, const std::string& tables) {
  const Outcome outcome = weft::test::run(
      {.arguments = {options.weft, "run", "-n", std::to_string(run.world.ranks), "--",
                     options.program, "--operation", name_of(run.subject), "--rank-of",
                     hex(run.world_seed), "--first", std::to_string(run.first), "--cases",
                     std::to_string(run.cases.size()), "--tables", tables},
       .environment = {},
       .input = {}},
      kJobPatience);
  // Ranks name the cases that they failed in.
  std::vector<std::uint64_t> seeds;
  std::vector<std::uint64_t> named;
  for (const Case& one : run.cases) {
    seeds.push_back(one.seed);
    if (outcome.err.find(hex(one.seed)) != std::string::npos) named.push_back(one.seed);
  }
  if (outcome.exit_status != 0) {
    throw Failure(named.empty() ? seeds : named, outcome.describe());
  }
  const std::vector<std::string> digests = digests_in(outcome.out);
  if (digests.size() != run.world.ranks) {
    throw Failure(seeds, "a rank said nothing: " + outcome.describe());
  }
  for (const std::string& digest : digests) {
    if (digest != digests[0]) {
      throw Failure(seeds, "ranks got other bits of what is one result: " + outcome.describe());
    }
  }
}

void report(const Options& options, const Run& run, const Failure& failure) {
  std::printf("\nFAILED: %s\n\nthe ranks: %s\n", failure.what(), run.world.describe().c_str());
  const std::string program = options.program + " --operation " + name_of(run.subject) +
                              (options.weft.empty() ? "" : " --processes " + options.weft) +
                              " --replay ";
  if (failure.seeds().size() > 1) {
    std::printf("one of these %zu cases, or what they do together:\n", failure.seeds().size());
  }
  for (const Case& one : run.cases) {
    if (std::ranges::find(failure.seeds(), one.seed) == failure.seeds().end()) continue;
    std::printf("\ncase %s: %s\n  alone: %s%s\n  after those before it: %s%s --with-those-before\n",
                hex(one.seed).c_str(), one.describe(run.world).c_str(), program.c_str(),
                hex(one.seed).c_str(), program.c_str(), hex(one.seed).c_str());
  }
}

using Contexts = std::map<Tuning, ContextHandle>;

/// Whether all went well; says what did not.
bool try_run(const Options& options, const Contexts& contexts, const std::string& tables,
             const Run& run) {
  try {
    if (!options.weft.empty()) {
      try_in_processes(options, run, tables);
    } else {
      try_cases(contexts.at(run.world.tuning).get(), run.world, run.cases);
    }
    return true;
  } catch (const Failure& failure) {
    report(options, run, failure);
  } catch (const std::exception& error) {  // before the first case
    report(options, run, Failure({run.cases.at(0).seed}, error.what()));
  }
  return false;
}

int be_rank(const Options& options) {
  const Run run(options.subject.value(), options.world_seed, options.first, options.cases, true);
  if (run.world.hosts > 1) {
    const char* const rank = std::getenv("WEFT_RANK");
    if (rank == nullptr) throw std::invalid_argument("a rank of several hosts wants WEFT_RANK");
    const std::string host = "host-" + std::to_string(number(rank) % run.world.hosts);
    ::setenv("WEFT_HOST_ID", host.c_str(), 1);
  }
  const ContextHandle context = make_context(config_file(options.tables, run.world.tuning).c_str());
  try {
    const std::uint64_t digest = try_cases_as_process(context.get(), run.world, run.cases);
    std::printf("digest %s\n", hex(digest).c_str());
    return 0;
  } catch (const Failure& failure) {
    std::string seeds;
    for (const std::uint64_t seed : failure.seeds())
      seeds += " " + hex(seed);
    std::fprintf(stderr, "case%s: %s\n", seeds.c_str(), failure.what());
  }
  return 1;
}

int try_all(const Options& options) {
  const ScratchFolder folder;
  const bool processes = !options.weft.empty();
  Contexts contexts;
  for (const Tuning tuning : kTunings) {
    const std::string name = name_of(tuning);
    static_cast<void>(folder.write(name + ".table", table_text(tuning)));
    const std::string config =
        folder.write(name + ".yaml", "version: 1\ntuner: {table: " + name + ".table}\n");
    if (!processes) contexts[tuning] = make_context(config.c_str());
  }
  if (options.replay) {
    if (!options.subject) throw std::invalid_argument("--replay wants --operation");
    const std::uint64_t place = *options.replay & ((1U << kNumberBits) - 1);
    const std::uint64_t first = options.with_those_before ? 0 : place;
    const Run run(*options.subject, *options.replay >> kNumberBits, first, place - first + 1,
                  processes);
    std::printf("the ranks: %s\n%zu cases, the last %s\n", run.world.describe().c_str(),
                run.cases.size(), run.cases.back().describe(run.world).c_str());
    return try_run(options, contexts, folder.path(), run) ? 0 : 1;
  }
  const std::uint64_t seed =
      options.seed ? *options.seed : (std::uint64_t{std::random_device()()} << 16) | 1U;
  for (const Subject subject : kSubjects) {
    if (options.subject && *options.subject != subject) continue;
    std::printf("%s: again with: %s --operation %s --cases %llu --seed %s%s\n", name_of(subject),
                options.program.c_str(), name_of(subject),
                static_cast<unsigned long long>(options.cases), hex(seed).c_str(),
                processes ? (" --processes " + options.weft).c_str() : "");
    std::fflush(stdout);
    std::uint64_t done = 0;
    std::uint64_t worlds = 0;
    while (done < options.cases) {
      const std::uint64_t count =
          std::min(processes ? kCasesOfAJob : kCasesOfAWorld, options.cases - done);
      const Run run(subject, world_seed(seed, subject, worlds), 0, count, processes);
      if (!try_run(options, contexts, folder.path(), run)) return 1;
      done += count;
      ++worlds;
    }
    std::printf("%s: %llu cases in %llu groups of ranks were right\n", name_of(subject),
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(worlds));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse({argv, argv + argc});
    return options.tables.empty() ? try_all(options) : be_rank(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "api-property: %s\n", error.what());
    return 1;
  }
}
