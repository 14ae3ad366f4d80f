// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/core_parameters.h"

#include <chrono>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/log.h"
#include "core/model/direct_peers.h"
#include "core/model/inbox_message.h"
#include "core/model/multicast.h"

namespace weft {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kShortestTimeout = nanoseconds(std::chrono::milliseconds(1)).count();
constexpr std::int64_t kLongestTimeout = nanoseconds(std::chrono::hours(24 * 7)).count();
constexpr std::int64_t kMaximumChannels = 64;
constexpr std::int64_t kMostNetPorts = 64;

std::vector<std::string> log_levels() {
  std::vector<std::string> names;
  for (weft_log_level level = WEFT_LOG_TRACE; level <= WEFT_LOG_ERROR; ++level) {
    names.emplace_back(log_level_name(level));
  }
  return names;
}

void add_plugins(std::vector<Parameter>& table) {
  table.push_back(
      {.section = "plugins",
       .key = "path",
       .type = ParameterType::kList,
       .path = true,
       .of_context = true,
       .default_text = "",
       .help = "Folders that plugins are loaded from, first match first; where empty, the folder "
               "that Weft was installed with."});
}

void add_transports(std::vector<Parameter>& table) {
  table.push_back({.section = "transports",
                   .key = "order",
                   .type = ParameterType::kList,
                   .minimum = 1,
                   .agreed = true,
                   .default_text = "p2p,shm,net",
                   .help =
                       "Transports to try for a pair of ranks; the first that can carry it does. "
                       "\"net\" stands for the plugins of transports.net."});
  table.push_back({.section = "transports",
                   .key = "net",
                   .type = ParameterType::kList,
                   .agreed = true,
                   .default_text = "net-ib,net-ofi,net-socket",
                   .help = "Net plugins to try, in order, for pairs that only a net can join."});
  table.push_back({.section = "transports",
                   .key = "net_ports",
                   .type = ParameterType::kInteger,
                   .unit = "ports",
                   .minimum = 0,
                   .maximum = kMostNetPorts,
                   .default_text = "0",
                   .help =
                       "Ports of a rank to each net, over which channels are dealt out, what "
                       "is received to others than what is sent; each has connections of its "
                       "own, and a thread that moves messages where no worker "
                       "waits. 0: one for a rank on a CPU, whose workers move messages themselves; "
                       "for one on a GPU half of the processors that each rank of the host has, "
                       "at most 8. Ranks need not agree."});
  table.push_back(
      {.section = "transports",
       .key = "net_stripes",
       .type = ParameterType::kInteger,
       .unit = "stripes",
       .minimum = 0,
       .maximum = kMostInboxStripes,
       .agreed = true,
       .default_text = "0",
       .help = "Between GPUs that a net joins, in how many stripes small messages of 12 KiB and "
               "more go, each by a port of its own. 0: as many as all ranks have ports that "
               "do not receive meanwhile, at most four between two and two between four."});
  table.push_back({.section = "transports",
                   .key = "single_copy",
                   .type = ParameterType::kBytes,
                   .minimum = 0,
                   .maximum = std::int64_t{1} << 50,
                   .agreed = true,
                   .default_text = "64KiB",
                   .help =
                       "Sends, and blocks of all-to-all, gather and scatter, of so many bytes and "
                       "more between processes of a host are read straight from the sender's "
                       "memory, where the transport can; 0 copies all through its slots."});
  table.push_back(
      {.section = "transports",
       .key = "rules",
       .type = ParameterType::kRules,
       .agreed = true,
       .default_text = "[]",
       .help =
           "Exceptions for some pairs: the first rule that matches a pair decides, and no plugin "
           "outside its list is used. \"between\" is same-process, same-host, same-fabric, any, "
           "a host name, a network as 10.0.0.0/24, or a list of two of the last three, one for "
           "each end."});
}

void add_collective(std::vector<Parameter>& table, const std::string& operation,
                    std::vector<std::string> algorithms, std::vector<std::string> protocols) {
  const auto add = [&](const char* key, std::vector<std::string> choices, const char* what) {
    table.push_back({.section = "collectives",
                     .key = fmt::format("{}.{}", operation, key),
                     .type = ParameterType::kList,
                     .choices = choices,
                     .minimum = 1,
                     .agreed = true,
                     .default_text = fmt::format("{}", fmt::join(choices, ",")),
                     .help = fmt::format("{} that {} may use.", what, operation)});
  };
  add("algorithm", std::move(algorithms), "Algorithms");
  add("protocol", std::move(protocols), "Protocols");
}

void add_collectives(std::vector<Parameter>& table) {
  const std::vector<std::string> protocols = {"simple", "ll", "ll128"};
  add_collective(table, "all_reduce",
                 {"ring", "tree", "pat", "chain", "direct", "two-shot", "multicast"}, protocols);
  add_collective(table, "all_gather", {"ring", "pat", "direct", "multicast"}, protocols);
  add_collective(table, "reduce_scatter", {"ring", "pat", "chain", "direct", "multicast"},
                 protocols);
  add_collective(table, "broadcast", {"ring", "tree", "direct"}, protocols);
  add_collective(table, "reduce", {"ring", "tree", "chain", "direct"}, protocols);
  table.push_back({.section = "collectives",
                   .key = "all_to_all.protocol",
                   .type = ParameterType::kList,
                   .choices = {"ll", "ll128"},
                   .minimum = 1,
                   .agreed = true,
                   .default_text = "ll,ll128",
                   .help = "Protocols by which all_to_all may go through the inboxes of GPUs; what "
                           "goes by none of them goes in pairs."});
  table.push_back(
      {.section = "collectives",
       .key = "deterministic",
       .type = ParameterType::kFlag,
       .agreed = true,
       .default_text = "false",
       .help = "Whether floating-point numbers are always combined in the order of ranks' numbers, "
               "from rank 0 on, each step rounded to their type: then the bits of results depend "
               "on the inputs and their order alone, not on size, algorithm, channels, transport "
               "or placement. Ways that combine in another order are left out."});
}

void add_tuner(std::vector<Parameter>& table) {
  table.push_back({.section = "tuner",
                   .key = "plugin",
                   .type = ParameterType::kText,
                   .agreed = true,
                   .default_text = "tuner",
                   .help = "Plugin that says which way of doing an operation is the fastest; none "
                           "leaves it to the built-in costs."});
  table.push_back({.section = "tuner",
                   .key = "table",
                   .type = ParameterType::kText,
                   .path = true,
                   .of_context = true,
                   .default_text = "",
                   .help = "Table of costs for the plugin tuner, the same on every rank; where "
                           "this stands in a file, its place counts from that file's folder."});
}

void add_resources(std::vector<Parameter>& table) {
  table.push_back({.section = "channels",
                   .key = "max",
                   .type = ParameterType::kInteger,
                   .unit = "channels",
                   .minimum = 0,
                   .maximum = kMaximumChannels,
                   .agreed = true,
                   .default_text = "0",
                   .help = "Most channels that an operation is spread over, and on GPUs most CTAs "
                           "that move its data, whichever way it goes; 0 leaves it to the "
                           "topology."});
  table.push_back({.section = "channels",
                   .key = "least_bytes",
                   .type = ParameterType::kBytes,
                   .minimum = std::int64_t{1} << 10,
                   .maximum = std::int64_t{1} << 30,
                   .agreed = true,
                   .default_varies = true,
                   .default_text = "64KiB",
                   .help = "How much of a collective each channel carries at least, of each rank's "
                           "part, before it is spread over one more; where unset, 16KiB between "
                           "GPUs, and 8KiB of a ring's first few where a net joins any of them: "
                           "at most four between two, two between four, and no more than a rank "
                           "has ports by its processors."});
  table.push_back({.section = "buffers",
                   .key = "step",
                   .type = ParameterType::kBytes,
                   .minimum = std::int64_t{4} << 10,
                   .maximum = std::int64_t{4} << 20,
                   .power_of_two = true,
                   .agreed = true,
                   .default_varies = true,
                   .default_text = "128KiB",
                   .help =
                       "Size of one step of a connection's buffer; a buffer has 8 steps, of GPUs "
                       "4. Two CPU ranks that a net joins take 256KiB unless it is set, with a "
                       "processor for each channel; GPUs of which a net joins any 512KiB, "
                       "256KiB for sends and exchanges; GPUs 64KiB through host memory, and where "
                       "one of those that reach each other has a communicator already. Rings of "
                       "more than two GPUs that reach each other have 8 steps of 80KiB, or of "
                       "56KiB in such a later communicator."});
  table.push_back(
      {.section = "buffers",
       .key = "direct",
       .type = ParameterType::kBytes,
       .minimum = 0,
       .maximum = std::int64_t{kMostDirectBytes},
       .agreed = true,
       .default_varies = true,
       .default_text = "16KiB",
       .help =
           "Largest call, or block of a call, that up to 8 ranks which memory joins, or "
           "GPUs over a net, write straight into each other's, which takes four times as much at "
           "each rank for each other one; where unset, 256KiB between GPUs, but 1MiB "
           "between those that reach each other without lines of 128 bytes, or where "
           "a collectives.OPERATION.protocol leaves ll128 out, and 64KiB where a net joins any "
           "of them. Two-shots cut calls of any "
           "size into pieces that fit there; between GPUs that reach each other they "
           "have as much again of their own, less with more than 4 ranks, unless "
           "they go by lines of 128 bytes or "
           "collectives.all_reduce.algorithm leaves two-shot out."});
  table.push_back(
      {.section = "buffers",
       .key = "outputs_from",
       .type = ParameterType::kBytes,
       .minimum = 0,
       .maximum = std::int64_t{1} << 50,
       .agreed = true,
       .default_text = "0B",
       .help = "Broadcasts and all-gathers of so many bytes of output and more may write "
               "straight into the outputs of other ranks, of GPUs of one host that reach "
               "each other: in each call all ranks tell whether theirs is open to the "
               "others, and if one is not, data goes through slots. Between processes "
               "that is so once the others have mapped it, which they do in the background. "
               "0 always takes slots. Channels of less than 128KiB do so, too."});
  table.push_back({.section = "buffers",
                   .key = "outputs_mapped",
                   .type = ParameterType::kBytes,
                   .minimum = 0,
                   .maximum = std::int64_t{1} << 40,
                   .agreed = true,
                   .default_text = "4GiB",
                   .help = "Of its outputs each rank shares at most so many bytes at a time with "
                           "ranks of other processes, where buffers.outputs_from lets those write "
                           "there. What a program has freed meanwhile stays in use for a second or "
                           "so. 0 shares nothing."});
  table.push_back(
      {.section = "buffers",
       .key = "both_ends_from",
       .type = ParameterType::kBytes,
       .minimum = 0,
       .maximum = std::int64_t{1} << 50,
       .agreed = true,
       .default_varies = true,
       .default_text = "0B",
       .help = "Broadcasts and reduces of so many bytes and more, by rings between two GPUs that "
               "reach each other, have half of their steps in slots at the other end than "
               "p2p.mode says, so that the link carries stores and loads side by side, and has "
               "something to carry while one call ends and the next begins. 0 takes no such "
               "slots; where unset, 2MiB by NVLink, else 0."});
  table.push_back({.section = "buffers",
                   .key = "multicast",
                   .type = ParameterType::kBytes,
                   .minimum = 0,
                   .maximum = std::int64_t{kMostMulticastBytes},
                   .agreed = true,
                   .default_text = "0B",
                   .help =
                       "Memory of each rank for calls by multicast, rounded up to what the driver "
                       "gives: with it, switches of NVLink combine and store for 2 to 8 GPUs of "
                       "one host. Nobody has run that on hardware. So a call goes that way only "
                       "where its options, a list of algorithms or a tuner's table leave or name "
                       "no other. 0: no multicast is asked for."});
  table.push_back({.section = "windows",
                   .key = "copy_from",
                   .type = ParameterType::kBytes,
                   .minimum = 0,
                   .maximum = std::int64_t{1} << 50,
                   .agreed = true,
                   .default_text = "32MiB",
                   .help =
                       "Calls that move data without reducing it, whose output lies in a window, "
                       "are left to the GPUs' copy engines from so many bytes of output on, by "
                       "communicators of up to 8 ranks whose buffers.direct is not 0; 0 "
                       "leaves all to kernels."});
  table.push_back(
      {.section = "windows",
       .key = "reduce_from",
       .type = ParameterType::kBytes,
       .minimum = 0,
       .maximum = std::int64_t{1} << 50,
       .agreed = true,
       .default_text = "0B",
       .help = "All-reduces and reduce-scatters, and reduces of two ranks, whose inputs lie "
               "in a window, and outputs of all-reduces, are moved by the GPUs' copy "
               "engines and summed up by a kernel beside, from so many bytes of input on; "
               "0 leaves all to kernels."});
  table.push_back({.section = "windows",
                   .key = "staging",
                   .type = ParameterType::kBytes,
                   .minimum = std::int64_t{1} << 20,
                   .maximum = std::int64_t{1} << 40,
                   .agreed = true,
                   .default_text = "64MiB",
                   .help =
                       "Memory of each GPU for what such reductions have read and not yet summed "
                       "up; made when a communicator first needs it."});
  table.push_back({.section = "bootstrap",
                   .key = "interfaces",
                   .type = ParameterType::kList,
                   .default_text = "",
                   .help =
                       "Network interfaces for the bootstrap: \"eth\" is a prefix, \"=eth0\" an "
                       "exact name, \"^docker\" excludes; where empty, any that is up."});
}

void add_timeouts(std::vector<Parameter>& table) {
  const auto add = [&table](std::string key, std::string default_text, std::string help) {
    table.push_back({.section = "timeouts",
                     .key = std::move(key),
                     .type = ParameterType::kDuration,
                     .minimum = kShortestTimeout,
                     .maximum = kLongestTimeout,
                     .may_be_off = true,
                     .default_text = std::move(default_text),
                     .help = std::move(help)});
  };
  add("bootstrap", "60s", "How long to wait for all ranks to come before naming who is missing.");
  add("report", "60s",
      "How long a rank waits before it writes what it waits for; it goes on waiting.");
  add("operation", "off", "How long one operation may take before it fails.");
}

void add_log(std::vector<Parameter>& table) {
  table.push_back({.section = "log",
                   .key = "level",
                   .type = ParameterType::kChoice,
                   .choices = log_levels(),
                   .of_context = true,
                   .default_text = "warn",
                   .help = "The least level that is written."});
  std::vector<std::string> topic_levels = log_levels();
  topic_levels.emplace_back("inherit");
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const std::string topic(topic_name(static_cast<Topic>(i)));
    table.push_back({.section = "log",
                     .key = "topics." + topic,
                     .type = ParameterType::kChoice,
                     .choices = topic_levels,
                     .of_context = true,
                     .default_text = "inherit",
                     .help = fmt::format("The same for lines on the topic \"{}\" alone; inherit is "
                                         "log.level.",
                                         topic)});
  }
  table.push_back({.section = "log",
                   .key = "format",
                   .type = ParameterType::kChoice,
                   .choices = {"text", "json"},
                   .of_context = true,
                   .default_text = "text",
                   .help = "How a line is written: for people, or one JSON object a line."});
}

}  // namespace

std::vector<Parameter> core_parameters() {
  std::vector<Parameter> table;
  add_plugins(table);
  add_transports(table);
  add_collectives(table);
  add_tuner(table);
  add_resources(table);
  add_timeouts(table);
  add_log(table);
  return table;
}

}  // namespace weft
