// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Uses the public API as it must not be used, in the way that its argument names, and writes what
// it was answered: "misuse: error NAME TEXT".

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <weft/weft.h>

namespace {

/// The communicator of one rank that most cases misuse.
struct Program {
  weft_context* context = nullptr;
  weft_comm* comm = nullptr;
  weft_stream* stream = nullptr;
  std::array<float, 8> send{};
  std::array<float, 8> recv{};

  Program() {
    if (weft_context_create(nullptr, &context) != WEFT_OK ||
        weft_comm_init_all(context, nullptr, 1, &comm) != WEFT_OK ||
        weft_stream_create(context, &stream) != WEFT_OK) {
      std::fputs("cannot begin\n", stderr);
      std::exit(2);  // NOLINT(concurrency-mt-unsafe): there are no other threads of this program
    }
  }

  weft_result all_reduce(const void* from, std::size_t count, weft_data_type type,
                         weft_reduction reduction = WEFT_SUM) {
    return weft_all_reduce(from, recv.data(), count, type, reduction, comm, stream);
  }
  weft_result init_all(const weft_comm_config& config, std::uint32_t ranks = 1) const {
    std::array<weft_comm*, 2> comms{};
    return weft_comm_init_all(context, &config, ranks, comms.data());
  }
};

weft_comm_config settings() {
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  return config;
}

void report(weft_context* context, weft_result result) {
  std::string text(weft_last_error(context, nullptr, 0), '\0');
  weft_last_error(context, text.data(), text.size());
  std::printf("misuse: error %s %s\n", weft_result_name(result), text.c_str());
  static_cast<void>(std::fflush(stdout));
}

// Each answers what the misuse was answered.
using Case = std::function<weft_result(Program&)>;

std::map<std::string, Case> settings_cases() {
  return {
      {"struct-size",
       [](Program& p) -> weft_result {
         weft_comm_config config = settings();
         config.struct_size = 4;
         return p.init_all(config);
       }},
      {"properties-size",
       [](Program& p) -> weft_result {
         weft_comm_properties properties{};
         return weft_comm_get_properties(p.comm, &properties);
       }},
      {"device-kind",
       [](Program& p) -> weft_result {
         weft_comm_config config = settings();
         config.device_kind = 77;
         return p.init_all(config);
       }},
      {"cuda",
       [](Program& p) -> weft_result {
         weft_comm_config config = settings();
         config.device_kind = WEFT_DEVICE_CUDA;
         config.device = 1000;
         return p.init_all(config);
       }},
      {"stream-per-thread",
       [](Program& p) -> weft_result {
         weft_stream* none = nullptr;
         return weft_stream_from_cuda(p.context, 0, reinterpret_cast<void*>(std::uintptr_t{2}),
                                      &none);
       }},
      {"null-setting",
       [](Program& p) -> weft_result {
         const std::array<const char*, 2> pairs = {"channels.max", nullptr};
         weft_comm_config config = settings();
         config.settings = pairs.data();
         config.setting_count = 1;
         return p.init_all(config);
       }},
      {"null-settings",
       [](Program& p) -> weft_result {
         weft_comm_config config = settings();
         config.setting_count = 1;
         return p.init_all(config);
       }},
      {"table-of-one",
       [](Program& p) -> weft_result {
         const std::array<const char*, 2> pairs = {"tuner.table", "/nonexistent/table.yaml"};
         weft_comm_config config = settings();
         config.settings = pairs.data();
         config.setting_count = 1;
         return p.init_all(config, 2);
       }},
      {"no-ranks",
       [](Program& p) -> weft_result {
         weft_comm* none = nullptr;
         return weft_comm_init_all(p.context, nullptr, 0, &none);
       }},
  };
}

std::map<std::string, Case> call_cases() {
  return {
      {"null",
       [](Program& p) -> weft_result {
         return weft_all_reduce(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32, WEFT_SUM, p.comm,
                                nullptr);
       }},
      {"other-context",
       [](Program& p) -> weft_result {
         const Program other;
         return weft_all_reduce(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32, WEFT_SUM, p.comm,
                                other.stream);
       }},
      {"null-buffer", [](Program& p) { return p.all_reduce(nullptr, 8, WEFT_FLOAT32); }},
      {"alignment",
       [](Program& p) -> weft_result {
         return p.all_reduce(reinterpret_cast<const char*>(p.send.data()) + 1, 2, WEFT_FLOAT32);
       }},
      {"type", [](Program& p) { return p.all_reduce(p.send.data(), 8, 99); }},
      {"reduction", [](Program& p) { return p.all_reduce(p.send.data(), 8, WEFT_FLOAT32, 99); }},
      {"count", [](Program& p) { return p.all_reduce(p.send.data(), SIZE_MAX / 2, WEFT_FLOAT32); }},
      {"call-algorithm",
       [](Program& p) -> weft_result {
         weft_call_options options{};
         options.struct_size = sizeof(options);
         options.algorithm = 99;
         return weft_comm_set_call_options(p.comm, &options);
       }},
      {"call-way",
       [](Program& p) -> weft_result {
         weft_call_options options{};
         options.struct_size = sizeof(options);
         options.algorithm = WEFT_CALL_ALGORITHM_TREE;
         if (weft_comm_set_call_options(p.comm, &options) != WEFT_OK) return WEFT_OK;
         return weft_all_gather(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32, p.comm, p.stream);
       }},
      {"blocks",
       [](Program& p) -> weft_result {
         std::array<weft_comm*, 2> comms{};
         if (weft_comm_init_all(p.context, nullptr, 2, comms.data()) != WEFT_OK) return WEFT_OK;
         return weft_all_gather(p.send.data(), p.recv.data(), SIZE_MAX / 16 / 4 * 3, WEFT_FLOAT32,
                                comms[0], p.stream);
       }},
      {"block",
       [](Program& p) -> weft_result {
         const std::size_t count = SIZE_MAX / 8;
         const std::size_t offset = 1;
         return weft_all_to_all_v(p.send.data(), &count, &offset, p.recv.data(), &count, &offset,
                                  WEFT_FLOAT32, p.comm, p.stream);
       }},
      {"overlap",
       [](Program& p) -> weft_result {
         return weft_all_to_all(p.send.data(), p.send.data() + 2, 4, WEFT_FLOAT32, p.comm,
                                p.stream);
       }},
      {"root",
       [](Program& p) -> weft_result {
         return weft_broadcast(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32, 5, p.comm, p.stream);
       }},
      {"partner",
       [](Program& p) { return weft_send(p.send.data(), 8, WEFT_FLOAT32, 5, p.comm, p.stream); }},
      {"send-alone",
       [](Program& p) { return weft_send(p.send.data(), 8, WEFT_FLOAT32, 0, p.comm, p.stream); }},
      {"unequal-halves",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_group_start(p.context));
         static_cast<void>(weft_send(p.send.data(), 8, WEFT_FLOAT32, 0, p.comm, p.stream));
         static_cast<void>(weft_recv(p.recv.data(), 4, WEFT_FLOAT32, 0, p.comm, p.stream));
         return weft_group_end(p.context);
       }},
  };
}

// The sum of twice the input, for float32.
weft_result make_reduction(weft_comm* comm, weft_reduction* out,
                           weft_scalar_residence residence = WEFT_SCALAR_NOW) {
  const float two = 2;
  weft_premul_sum_options options{};
  options.struct_size = sizeof(options);
  options.type = WEFT_FLOAT32;
  options.residence = residence;
  options.scalar = &two;
  return weft_reduction_create_premul_sum(comm, &options, out);
}

std::map<std::string, Case> reduction_cases() {
  return {
      {"destroyed-reduction",
       [](Program& p) -> weft_result {
         weft_reduction made = WEFT_SUM;
         if (make_reduction(p.comm, &made) != WEFT_OK ||
             p.all_reduce(p.send.data(), 8, WEFT_FLOAT32, made) != WEFT_OK ||
             weft_reduction_destroy(p.comm, made) != WEFT_OK) {
           return WEFT_OK;
         }
         return p.all_reduce(p.send.data(), 8, WEFT_FLOAT32, made);
       }},
      {"reduction-of-another",
       [](Program& p) -> weft_result {
         weft_comm* other = nullptr;
         weft_reduction made = WEFT_SUM;
         if (weft_comm_init_all(p.context, nullptr, 1, &other) != WEFT_OK ||
             make_reduction(other, &made) != WEFT_OK) {
           return WEFT_OK;
         }
         return p.all_reduce(p.send.data(), 8, WEFT_FLOAT32, made);
       }},
      {"reduction-of-another-type",
       [](Program& p) -> weft_result {
         weft_reduction made = WEFT_SUM;
         if (make_reduction(p.comm, &made) != WEFT_OK) return WEFT_OK;
         return p.all_reduce(p.send.data(), 8, WEFT_INT32, made);
       }},
      {"residence",
       [](Program& p) -> weft_result {
         weft_reduction made = WEFT_SUM;
         return make_reduction(p.comm, &made, 77);
       }},
  };
}

// Of ranks on CPUs, whose memory is not mapped.
weft_result register_two(Program& p, std::size_t first, std::size_t second, weft_window** out) {
  weft_comm* comms[2] = {};
  if (weft_comm_init_all(p.context, nullptr, 2, comms) != WEFT_OK) return WEFT_OK;
  weft_window* another = nullptr;
  static_cast<void>(weft_group_start(p.context));
  static_cast<void>(weft_window_register(comms[0], p.send.data(), first, out));
  static_cast<void>(weft_window_register(comms[1], p.recv.data(), second, &another));
  return weft_group_end(p.context);
}

std::map<std::string, Case> window_cases() {
  return {
      {"window-of-nothing",
       [](Program& p) -> weft_result {
         weft_window* window = nullptr;
         return weft_window_register(p.comm, p.send.data(), 0, &window);
       }},
      {"windows-without-end",
       [](Program& p) -> weft_result {
         weft_result result = WEFT_OK;
         for (int i = 0; result == WEFT_OK && i <= 32767; ++i) {
           weft_window* window = nullptr;
           result = weft_window_register(p.comm, p.send.data(), 1, &window);
           if (result == WEFT_OK) result = weft_window_deregister(window);
         }
         return result;
       }},
      {"window-not-mapped",
       [](Program& p) -> weft_result {
         weft_window* window = nullptr;
         void* seen = nullptr;
         if (register_two(p, 16, 16, &window) != WEFT_OK) return WEFT_OK;
         return weft_window_pointer(window, 1, &seen);
       }},
      {"window-of-nobody",
       [](Program& p) -> weft_result {
         weft_window* window = nullptr;
         void* seen = nullptr;
         if (register_two(p, 16, 16, &window) != WEFT_OK) return WEFT_OK;
         return weft_window_pointer(window, 2, &seen);
       }},
      {"window-sizes",
       [](Program& p) -> weft_result {
         weft_window* window = nullptr;
         return register_two(p, 16, 8, &window);
       }},
      {"memory-of-nothing",
       [](Program& p) -> weft_result {
         void* memory = nullptr;
         return weft_memory_allocate(p.context, WEFT_DEVICE_HOST, 0, 0, &memory);
       }},
      {"memory-too-large",
       [](Program& p) -> weft_result {
         void* memory = nullptr;
         return weft_memory_allocate(p.context, WEFT_DEVICE_HOST, 0, SIZE_MAX / 4, &memory);
       }},
      {"memory-twice",
       [](Program& p) -> weft_result {
         void* memory = nullptr;
         if (weft_memory_allocate(p.context, WEFT_DEVICE_HOST, 0, 64, &memory) != WEFT_OK ||
             weft_memory_free(p.context, memory) != WEFT_OK) {
           return WEFT_OK;
         }
         return weft_memory_free(p.context, memory);
       }},
  };
}

std::map<std::string, Case> graph_cases() {
  const auto capture = [](Program& p) {
    weft_graph* graph = nullptr;
    static_cast<void>(weft_stream_begin_capture(p.stream));
    static_cast<void>(p.all_reduce(p.send.data(), 8, WEFT_FLOAT32));
    static_cast<void>(weft_stream_end_capture(p.stream, &graph));
    return graph;
  };
  return {
      {"graph-elsewhere",
       [=](Program& p) -> weft_result {
         const Program other;
         weft_graph* const graph = capture(p);
         return weft_graph_launch(graph, other.stream);
       }},
      {"wait-for-capture",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_stream_begin_capture(p.stream));
         return weft_stream_synchronize(p.stream);
       }},
      {"end-no-capture",
       [](Program& p) -> weft_result {
         weft_graph* graph = nullptr;
         return weft_stream_end_capture(p.stream, &graph);
       }},
      {"capture-in-group",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_group_start(p.context));
         return weft_stream_begin_capture(p.stream);
       }},
      {"half-captured",
       [](Program& p) -> weft_result {
         weft_stream* other = nullptr;
         if (weft_stream_create(p.context, &other) != WEFT_OK) return WEFT_OK;
         static_cast<void>(weft_stream_begin_capture(other));
         static_cast<void>(weft_group_start(p.context));
         static_cast<void>(p.all_reduce(p.send.data(), 8, WEFT_FLOAT32));
         static_cast<void>(weft_all_reduce(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32, WEFT_SUM,
                                           p.comm, other));
         return weft_group_end(p.context);
       }},
      {"graph-of-finalized",
       [=](Program& p) -> weft_result {
         weft_graph* const graph = capture(p);
         if (weft_comm_finalize(p.comm) != WEFT_OK) return WEFT_OK;
         return weft_graph_launch(graph, p.stream);
       }},
  };
}

// A child hears it, whose answer is the program's.
weft_result call_in_child(Program& p) {
  const pid_t child = ::fork();
  if (child == 0) {
    report(p.context, p.all_reduce(p.send.data(), 8, WEFT_FLOAT32));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::_exit(status == 0 ? 0 : 1);
}

std::map<std::string, Case> life_cases() {
  return {
      {"context-in-use", [](Program& p) { return weft_context_destroy(p.context); }},
      {"init-all-in-group",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_group_start(p.context));
         return p.init_all(settings());
       }},
      {"group-end", [](Program& p) { return weft_group_end(p.context); }},
      {"gone-in-group",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_group_start(p.context));
         static_cast<void>(p.all_reduce(p.send.data(), 8, WEFT_FLOAT32));
         static_cast<void>(weft_comm_destroy(std::exchange(p.comm, nullptr)));
         return weft_group_end(p.context);
       }},
      {"group-of-nothing",
       [](Program& p) -> weft_result {
         static_cast<void>(weft_group_start(p.context));
         static_cast<void>(p.all_reduce(p.send.data(), 8, WEFT_FLOAT32));
         static_cast<void>(p.all_reduce(nullptr, 8, WEFT_FLOAT32));
         return weft_group_end(p.context);
       }},
      {"still-joining",
       [](Program& p) -> weft_result {
         weft_unique_id id;
         weft_comm_config config = settings();
         config.nonblocking = 1;
         weft_comm* joining = nullptr;
         if (weft_get_unique_id(p.context, &id) != WEFT_OK ||
             weft_comm_init_rank(p.context, &config, 2, &id, 0, &joining) != WEFT_IN_PROGRESS) {
           return WEFT_OK;
         }
         const weft_result result = weft_all_reduce(p.send.data(), p.recv.data(), 8, WEFT_FLOAT32,
                                                    WEFT_SUM, joining, p.stream);
         report(p.context, result);
         static_cast<void>(weft_comm_abort(joining));
         static_cast<void>(weft_comm_destroy(joining));
         ::_exit(0);
       }},
      {"finalized",
       [](Program& p) -> weft_result {
         if (weft_comm_finalize(p.comm) != WEFT_OK) return WEFT_OK;
         return p.all_reduce(p.send.data(), 8, WEFT_FLOAT32);
       }},
      {"forked", call_in_child},
  };
}

}  // namespace

int main(int argc, char** argv) {
  auto cases = settings_cases();
  cases.merge(call_cases());
  cases.merge(reduction_cases());
  cases.merge(window_cases());
  cases.merge(graph_cases());
  cases.merge(life_cases());
  const auto found = argc == 2 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    std::fputs("usage: misuse-program CASE\n", stderr);
    return 2;
  }
  Program program;
  report(program.context, found->second(program));
  // What is left of it, in whatever state, is not what this is about.
  std::_Exit(0);
}
