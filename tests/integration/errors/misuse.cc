// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Programs that use the public API as it must not be used: misuse_program.cc, one case a process.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

void add_program(Scenarios& all, const std::string& name, std::string message,
                 std::vector<std::string> arguments, Environment environment = {}) {
  std::string test = name;  // A filter of tests takes '-' for something else.
  std::ranges::replace(test, '-', '_');
  all.push_back({.name = std::move(test),
                 .messages = {std::move(message)},
                 .play = [arguments = std::move(arguments),
                          environment = std::move(environment)](std::vector<Said>& said) {
                   Command command{.arguments = arguments, .environment = environment, .input = {}};
                   command.environment.try_emplace("XDG_CONFIG_HOME", "/nonexistent");
                   const Outcome outcome = run(command);
                   ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
                   said.push_back(said_in(outcome.out.substr(0, outcome.out.find('\n'))));
                 }});
}

void add_case(Scenarios& all, const std::string& name, std::string message,
              Environment environment = {}) {
  add_program(all, name, std::move(message), {MISUSE_PROGRAM, name}, std::move(environment));
}

}  // namespace

void add_misuse(Scenarios& all) {
  add_case(all, "null", "<argument> is NULL");
  add_case(all, "struct-size",
           "<struct>.struct_size is <number>, less than the <number> of <version>");
  add_case(all, "properties-size",
           "<struct>.struct_size is <number>, too small for any of its fields");
  add_case(all, "device-kind", "weft_comm_config.device_kind <number> is none");
  add_case(all, "null-setting", "weft_comm_config.settings: pair <number> holds NULL");
  add_case(all, "null-settings",
           "weft_comm_config.settings is NULL, and setting_count is <number>");
  add_case(all, "table-of-one",
           "<where>: <key> counts for a whole context, not for one communicator");
  add_case(all, "no-ranks", "a communicator of 0 ranks");
  add_case(all, "context-in-use",
           "<number> communicators, streams and graphs of the context are alive");
  add_case(all, "init-all-in-group", "weft_comm_init_all inside a group: it is a group of its own");
  add_case(all, "group-end", "weft_group_end without weft_group_start on this thread");
  add_case(all, "gone-in-group",
           "a communicator was destroyed in the group that had noted calls of it");
  add_case(all, "group-of-nothing", "nothing of the group was started: <what>");
  add_case(all, "other-context", "the stream belongs to another context than the communicator");
  add_case(all, "graph-elsewhere", "the stream belongs to another context than the graph");
  add_case(all, "wait-for-capture", "the stream is captured: its calls are recorded, not run");
  add_case(all, "end-no-capture", "the stream is not captured");
  add_case(all, "capture-in-group", "<function> inside a group: its calls are not made yet");
  add_case(all, "half-captured", "a group calls on a stream that is captured and on another one");
  add_case(all, "graph-of-finalized",
           "rank <rank> of <ranks>, whose calls the graph holds, has finalized or destroyed its "
           "communicator");
  add_case(all, "null-buffer", "<which> buffer is NULL, and count is <number>");
  add_case(all, "alignment", "buffer <address> is not aligned to its elements of <number> bytes");
  add_case(all, "type", "<number> is no element type");
  add_case(all, "reduction", "<number> is no reduction");
  add_case(all, "call-algorithm", "weft_call_options.<field> <number> is none");
  add_case(all, "call-way", "the call's options want <call>, which leaves no way: <ways>");
  add_case(all, "destroyed-reduction", "reduction <number> is none of this communicator");
  add_case(all, "reduction-of-another", "reduction <number> is none of this communicator");
  add_case(all, "reduction-of-another-type",
           "reduction <number> multiplies <type>, but the call is of <type>");
  add_case(all, "residence", "weft_premul_sum_options.residence <number> is none");
  add_case(all, "window-of-nothing", "a window of <number> bytes at <address>");
  add_case(all, "windows-without-end",
           "a communicator registers up to <number> windows in its life");
  add_case(all, "window-not-mapped", "window <number> is not mapped: <why>");
  add_case(all, "window-of-nobody", "rank <rank> is none of this communicator of <ranks>");
  add_case(all, "window-sizes",
           "rank <rank> registers a window of <number> bytes, rank <rank> one of <number>");
  add_case(all, "memory-of-nothing", "0 bytes of memory were asked for");
  // The allocators of sanitizers end a program that asks for so much, unless told otherwise.
  add_case(all, "memory-too-large", "cannot allocate <number> bytes on device <device>",
           {{"ASAN_OPTIONS", "allocator_may_return_null=1"},
            {"TSAN_OPTIONS", "allocator_may_return_null=1"}});
  add_case(all, "memory-twice", "<address> is no memory of weft_memory_allocate, or was freed");
  add_case(all, "root", "root <rank> is not a rank of this communicator of <ranks>");
  add_case(all, "partner", "partner <rank> is not a rank of this communicator of <ranks>");
  add_case(all, "count", "<number> elements of <number> bytes are more than memory can hold");
  add_case(all, "blocks",
           "<number> blocks of <number> elements of <number> bytes are more than memory can hold");
  add_case(all, "block",
           "<which>_counts[<rank>] is <number> and <which>_offsets[<rank>] is <number>: more "
           "elements of <number> bytes than memory can hold");
  add_case(all, "overlap", "the buffers of <operation> overlap, which cannot work in place");
  add_program(all, "kernel", "this version has no kernel for <call> on devices of kind <device>",
              {MEMORY_DEVICE_PROGRAM, "kernel"});
  add_program(all, "crowded-device",
              "<ranks> ranks share device <device> of <host>, which runs <number> groups at once",
              {MEMORY_DEVICE_PROGRAM, "groups"});
  add_program(all, "captured-before",
              "the communicator's latest call was made on another stream, which is captured now",
              {MEMORY_DEVICE_PROGRAM, "order"});
  add_program(all, "wait-for-program's-capture",
              "the program is capturing the stream: to wait for it or to ask it would end that",
              {MEMORY_DEVICE_PROGRAM, "wait"});
  add_program(all, "null-stream-beside-a-capture",
              "the program is capturing a stream that waits for the null stream: a call on that "
              "would end the capture",
              {MEMORY_DEVICE_PROGRAM, "null"});
  add_program(all, "half-captured-transfers",
              "a group sends or receives on a stream that is captured and on one that is not, or "
              "not by the same capture",
              {MEMORY_DEVICE_PROGRAM, "group"});
  add_case(all, "send-alone", "rank <rank> sends to itself and does not receive in the same group");
  add_case(all, "unequal-halves",
           "rank <rank> sends <number> <type> to itself and receives <number> <type>");
  add_case(all, "still-joining", "rank <rank> of <ranks> is still joining its communicator");
  add_program(all, "still-connecting",
              "rank <rank> of <ranks> is still connecting for an earlier call",
              {CONNECTING_PROGRAM, "rank"});
  add_program(all, "held-stream", "an earlier call on the stream is still connecting its ranks",
              {CONNECTING_PROGRAM, "stream"});
  add_program(all, "never-connected",
              "rank <rank> is not connected with rank <rank> at the deadline",
              {CONNECTING_PROGRAM, "deadline"});
  add_case(all, "finalized", "rank <rank> of <ranks> has finalized its communicator");
  add_case(all, "forked", "this process was forked from the one that made the context");
  add_case(all, "stream-per-thread",
           "cudaStreamPerThread is another stream in each thread, and Weft has threads of its own");
  all.push_back({.name = "cuda",
                 .messages = {"CUDA device <number> cannot be used: <why>"},
                 .play = [](std::vector<Said>& said) {
                   // No host has so many, whether this build knows CUDA or not.
                   const Outcome outcome = run(Command{
                       .arguments = {MISUSE_PROGRAM, "cuda"}, .environment = {}, .input = {}});
                   said.push_back(said_in(outcome.out));
                   if (said.back().code == "WEFT_ERROR_INVALID_ARGUMENT") {
                     GTEST_SKIP() << "there is a device: " << said.back().text;
                   }
                 }});
}

}  // namespace weft::test
