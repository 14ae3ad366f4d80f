// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/gpu/basics.h"

namespace weft::gpu_bench {

namespace {

constexpr const char* kUsage =
    "usage: gpu-collectives [OPTION]...\n"
    "  --measure WHICH   times of operations; host-cost: what eager calls take of the thread that\n"
    "                    makes them, beside bare launches; joins: how long ranks join and what\n"
    "                    memory of a GPU that takes, before calls and after (times)\n"
    "  --operations LIST all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all,\n"
    "                    sendrecv; or all (all_reduce; of host-cost five)\n"
    "  --sizes LIST      sizes and ranges MIN:MAX or MIN:MAX:FACTOR (8:64KiB,16MiB:1GiB), as\n"
    "                    nccl-tests understands them: of all ranks' blocks together\n"
    "  --type TYPE       float32, bfloat16 or float16 (float32)\n"
    "  --place WHICH     out, in or both (out); all_to_all and sendrecv are never in place\n"
    "  --modes LIST      thread, process: a thread or a process for each GPU; none (both)\n"
    "  --libraries LIST  nccl, nccl-window, weft, weft-window (the first three;\n"
    "                    weft if there is --weft)\n"
    "  --launch WHICH    graph, eager or both (both up to 8 MiB, eager above)\n"
    "  --weft FOLDER     that holds libweft.so.0\n"
    "  --nccl FILE       (libnccl.so.2)\n"
    "  --gpus N          (all, up to 16)\n"
    "  --hosts N         of processes: the GPUs are divided between N hosts, which both libraries\n"
    "                    are told of (WEFT_HOST_ID, NCCL_HOSTID), so that a net joins them (1)\n"
    "  --rounds N        of which the median counts (7)\n"
    "  --graph-calls N   in one graph, each on buffers of its own (20)\n"
    "  --limits          first measure what links between GPUs can do\n"
    "  --json FILE       write the results there, a JSON object a line\n"
    "  --commit TEXT     of Weft, for the results\n"
    "  --limit SECONDS   end everything after so long (230)\n"
    "  --each-limit SECONDS  end one operation in one mode after so long, and go on with the next\n"
    "  --multicast       leave NVLink multicast (NVLS) to NCCL; without, NCCL_NVLS_ENABLE=0\n";

[[noreturn]] void usage_error(std::string_view option, std::string_view what) {
  complain(text("%.*s: %.*s; see %s --help", static_cast<int>(option.size()), option.data(),
                static_cast<int>(what.size()), what.data(), kProgram));
  std::exit(2);
}

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = list.find(separator);
    parts.push_back(list.substr(0, end));
    if (end == std::string_view::npos) return parts;
    list.remove_prefix(end + 1);
  }
}

uint64_t integer_of(std::string_view option, std::string_view value, uint64_t least,
                    uint64_t most) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < least ||
      number > most) {
    usage_error(option,
                text("needs a number from %llu to %llu", static_cast<unsigned long long>(least),
                     static_cast<unsigned long long>(most)));
  }
  return number;
}

size_t size_of(std::string_view value) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 4> kUnits = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}}};
  unsigned shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (!value.ends_with(unit)) continue;
    value.remove_suffix(unit.size());
    shift = bits;
    break;
  }
  return integer_of("--sizes", value, 1, uint64_t{1} << (36 - shift)) << shift;
}

std::vector<size_t> sizes_of(std::string_view list) {
  std::vector<size_t> sizes;
  for (const std::string_view part : split(list, ',')) {
    const std::vector<std::string_view> range = split(part, ':');
    if (range.size() > 3) usage_error("--sizes", "a range is MIN:MAX or MIN:MAX:FACTOR");
    const size_t max = size_of(range.size() > 1 ? range[1] : range[0]);
    const size_t factor = range.size() > 2 ? integer_of("--sizes", range[2], 2, 1024) : 2;
    for (size_t size = size_of(range[0]); size <= max; size *= factor)
      sizes.push_back(size);
  }
  if (sizes.empty()) usage_error("--sizes", "holds no size");
  return sizes;
}

std::vector<std::string> names_of(std::string_view option, std::string_view list,
                                  const std::vector<std::string_view>& known) {
  std::vector<std::string> names;
  for (const std::string_view name : split(list, ',')) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      usage_error(option,
                  text("does not know \"%.*s\"", static_cast<int>(name.size()), name.data()));
    }
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> operations_of(std::string_view list) {
  std::vector<std::string_view> known;
  known.reserve(kOperations.size());
  for (const Operation& operation : kOperations)
    known.emplace_back(operation.name);
  if (list == "all") return {known.begin(), known.end()};
  return names_of("--operations", list, known);
}

ElementType type_of(std::string_view name) {
  for (const ElementType& type : kTypes) {
    if (name == type.name) return type;
  }
  usage_error("--type", "is float32, bfloat16 or float16");
}

double seconds_of(std::string_view option, std::string_view value) {
  return static_cast<double>(integer_of(option, value, 1, 86400));
}

uint32_t number_of(std::string_view option, std::string_view value, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(integer_of(option, value, least, most));
}

void one_of_both(std::string_view option, std::string_view value, const char* a, const char* b) {
  if (value != a && value != b && value != "both") {
    usage_error(option, text("is %s, %s or both", a, b));
  }
}

Measure measure_of(std::string_view value) {
  if (value == "times") return Measure::kTimes;
  if (value == "host-cost") return Measure::kHostCost;
  if (value == "joins") return Measure::kJoins;
  usage_error("--measure", "is times, host-cost or joins");
}

/// Those that say what is timed. False if it is none of them.
bool set_work(Options& options, std::string_view option, std::string_view value) {
  if (option == "--measure") {
    options.measure = measure_of(value);
  } else if (option == "--operations") {
    options.operations = operations_of(value);
  } else if (option == "--sizes") {
    options.sizes = sizes_of(value);
  } else if (option == "--type") {
    options.type = type_of(value);
  } else if (option == "--place") {
    one_of_both(option, value, "out", "in");
    options.in_place.clear();
    if (value != "in") options.in_place.push_back(false);
    if (value != "out") options.in_place.push_back(true);
  } else if (option == "--modes") {
    options.modes.clear();
    if (value != "none") options.modes = names_of(option, value, {"thread", "process"});
  } else if (option == "--libraries") {
    options.libraries = names_of(option, value, {"nccl", "nccl-window", "weft", "weft-window"});
  } else if (option == "--launch") {
    one_of_both(option, value, "graph", "eager");
    options.graph = value != "eager";
    options.eager = value != "graph";
  } else {
    return false;
  }
  return true;
}

void set_option(Options& options, std::string_view option, std::string_view value) {
  if (set_work(options, option, value)) return;
  if (option == "--weft") {
    options.weft_folder = value;
  } else if (option == "--nccl") {
    options.nccl_file = value;
  } else if (option == "--gpus") {
    options.gpus = number_of(option, value, 2, kMaxRanks);
  } else if (option == "--hosts") {
    options.hosts = number_of(option, value, 1, kMaxRanks);
  } else if (option == "--rounds") {
    options.rounds = number_of(option, value, 1, 1000);
  } else if (option == "--graph-calls") {
    options.graph_calls = number_of(option, value, 1, 1000);
  } else if (option == "--json") {
    options.json_file = value;
  } else if (option == "--commit") {
    options.commit = value;
  } else if (option == "--limit") {
    options.limit = seconds_of(option, value);
  } else if (option == "--each-limit") {
    options.each_limit = seconds_of(option, value);
  } else if (option == "--role") {
    options.role = value;
  } else if (option == "--board") {
    options.board = static_cast<int>(integer_of(option, value, 0, 1 << 20));
  } else {
    usage_error(option, "unknown option");
  }
}

/// What is measured unless the user says otherwise.
void set_defaults(Options& options) {
  const bool host_cost = options.measure == Measure::kHostCost;
  if (options.operations.empty()) {
    options.operations = operations_of(
        host_cost ? "all_reduce,all_gather,broadcast,all_to_all,sendrecv" : "all_reduce");
  }
  if (!options.sizes.empty()) return;
  switch (options.measure) {
    case Measure::kTimes:
      options.sizes = sizes_of("8:64KiB,16MiB:1GiB");
      break;
    case Measure::kHostCost:
      options.sizes = sizes_of("8,128,4KiB,64KiB,256KiB,1MiB,64MiB");
      break;
    case Measure::kJoins:
      options.sizes = sizes_of("8,1GiB");
      break;
  }
}

void complete(Options& options) {
  set_defaults(options);
  for (const size_t size : options.sizes) {
    if (size % options.type.bytes != 0) {
      usage_error("--sizes", text("%zu bytes are no whole number of %s", size, options.type.name));
    }
  }
  if (options.libraries.empty()) {
    options.libraries = {"nccl", "nccl-window"};
    if (!options.weft_folder.empty()) options.libraries.emplace_back("weft");
  }
  const bool weft = std::any_of(options.libraries.begin(), options.libraries.end(),
                                [](const std::string& name) { return name.starts_with("weft"); });
  if (weft && options.weft_folder.empty()) usage_error("--libraries", "weft needs --weft FOLDER");
  const bool threads =
      std::find(options.modes.begin(), options.modes.end(), "thread") != options.modes.end();
  if (options.hosts > 1 && threads) {
    usage_error("--hosts", "a process is of one host: it needs --modes process");
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (option == "--limits") {
      options.limits = true;
    } else if (option == "--multicast") {
      options.multicast = true;
    } else if (i + 1 < argc) {
      set_option(options, option, argv[++i]);
    } else {
      usage_error(option, "unknown, or without its value");
    }
  }
  complete(options);
  return options;
}

uint32_t rank_of_role(const Options& options) {
  return number_of("--role", options.role, 0, options.gpus - 1);
}

void append_json(const Options& options, const std::string& line) {
  if (options.json_file.empty()) return;
  std::FILE* file = std::fopen(options.json_file.c_str(), "a");
  if (file == nullptr) {
    complain(text("%s: %s", options.json_file.c_str(), std::strerror(errno)));
    return;
  }
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

}  // namespace weft::gpu_bench
