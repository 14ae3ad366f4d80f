// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/team.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>

namespace weft::gpu_test {
namespace {

weft_context* g_context = nullptr;

std::mutex g_teams_mutex;
std::vector<Team*> g_teams;

/// `action(i)` for i below `count`, each on a thread of its own; throws what one of them threw.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& action) {
  std::vector<std::exception_ptr> thrown(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        action(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::exception_ptr first;
  for (const std::exception_ptr& each : thrown) {
    if (each == nullptr) continue;
    if (first == nullptr) first = each;
    try {
      std::rethrow_exception(each);
    } catch (const Unsupported&) {
      first = each;  // what the others say follows from it
    } catch (...) {
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

struct CommConfig {
  explicit CommConfig(Settings given) : settings(std::move(given)) {
    for (const auto& [name, value] : settings) {
      pointers.push_back(name.c_str());
      pointers.push_back(value.c_str());
    }
    config.struct_size = sizeof(config);
    config.setting_count = static_cast<std::uint32_t>(settings.size());
    config.settings = pointers.data();
  }
  CommConfig(const CommConfig&) = delete;
  CommConfig& operator=(const CommConfig&) = delete;

  const Settings settings;
  std::vector<const char*> pointers;
  weft_comm_config config{};
};

// Device memory that is free; by device and size, since freeing may wait for kernels.
std::mutex g_memory_mutex;
std::multimap<std::pair<int, std::size_t>, std::byte*> g_memory;

std::byte* take_memory(int device, std::size_t bytes) {
  {
    const std::scoped_lock lock(g_memory_mutex);
    const auto found = g_memory.find({device, bytes});
    if (found != g_memory.end()) {
      std::byte* memory = found->second;
      g_memory.erase(found);
      return memory;
    }
  }
  void* memory = nullptr;
  CUDA(cudaSetDevice(device));
  CUDA(cudaMalloc(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

void call_weft(const Call& call, const void* send, void* recv, weft_comm* comm,
               weft_stream* stream) {
  std::ostringstream what;
  what << call;
  check(call.broadcast
            ? weft_broadcast(send, recv, call.count, call.type.weft, call.root, comm, stream)
            : weft_all_reduce(send, recv, call.count, call.type.weft, call.reduction, comm, stream),
        what.str());
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// A communicator of the host device, a thread for each rank.
class HostTeam {
 public:
  explicit HostTeam(std::uint32_t ranks) : comms_(ranks), streams_(ranks) {
    const CommConfig config({{"transports.order", "p2p"},
                             {"collectives.all_reduce.algorithm", "ring"},
                             {"collectives.all_reduce.protocol", "simple"}});
    check(weft_comm_init_all(context(), &config.config, ranks, comms_.data()),
          "weft_comm_init_all on the host");
    for (weft_stream*& stream : streams_)
      check(weft_stream_create(context(), &stream), "weft_stream_create");
  }
  HostTeam(const HostTeam&) = delete;
  HostTeam& operator=(const HostTeam&) = delete;
  ~HostTeam() {
    for (weft_stream* stream : streams_)
      static_cast<void>(weft_stream_destroy(stream));
    for (weft_comm* comm : comms_)
      static_cast<void>(weft_comm_destroy(comm));
  }

  Bytes run(const Call& call, const std::vector<Bytes>& inputs) {
    std::vector<Bytes> results(comms_.size());
    on_threads(comms_.size(), [&](std::size_t rank) {
      results[rank].resize(call.bytes());
      call_weft(call, inputs[rank].data(), results[rank].data(), comms_[rank], streams_[rank]);
      check(weft_stream_synchronize(streams_[rank]), "weft_stream_synchronize on the host");
    });
    return std::move(results[0]);
  }

 private:
  std::vector<weft_comm*> comms_;
  std::vector<weft_stream*> streams_;
};

std::map<std::size_t, HostTeam> g_host_teams;

}  // namespace

Options& options() {
  static Options options;
  return options;
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Problem(WEFT_ERROR_DEVICE, std::string(what) + ": " + cudaGetErrorString(error));
}

weft_context* context() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (weft_context_create(nullptr, &g_context) == WEFT_OK) return;
    std::array<char, 4096> text{};
    static_cast<void>(weft_last_error(nullptr, text.data(), text.size()));
    std::fprintf(stderr, "gpu_test: weft_context_create: %s\n", text.data());
    std::exit(1);
  });
  return g_context;
}

void forget_context() {
  g_host_teams.clear();
  if (g_context != nullptr) static_cast<void>(weft_context_destroy(g_context));
}

std::string last_error() {
  std::array<char, 4096> text{};
  static_cast<void>(weft_last_error(context(), text.data(), text.size()));
  return text.data();
}

void check(weft_result result, const std::string& what) {
  if (result == WEFT_OK) return;
  const std::string text = what + ": " + weft_result_name(result) + ": " + last_error();
  if (result == WEFT_ERROR_UNSUPPORTED) throw Unsupported(result, text);
  throw Problem(result, text);
}

int device_count() {
  static const int kCount = [] {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
    return count;
  }();
  return kCount;
}

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.name();
}

Bytes expected_by_host(const Call& call, const std::vector<Bytes>& inputs) {
  return g_host_teams.try_emplace(inputs.size(), static_cast<std::uint32_t>(inputs.size()))
      .first->second.run(call, inputs);
}

// ---- the team ----

Team::Team(Mode mode, const Layout& layout, const Settings& settings)
    : mode_(mode), layout_(layout) {
  const char* own = std::getenv("WEFT_RANK");
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    if (mode == Mode::kProcess && std::to_string(rank) != own) continue;
    members_.push_back({.rank = rank, .device = layout.one_device ? 0 : static_cast<int>(rank)});
  }
  Settings all = settings;
  if (!options().algorithm.empty()) {
    all.emplace_back("collectives.all_reduce.algorithm", options().algorithm);
  }
  if (!options().protocol.empty()) {
    all.emplace_back("collectives.all_reduce.protocol", options().protocol);
  }
  for (Member& member : members_) {
    CUDA(cudaSetDevice(member.device));
    CUDA(cudaStreamCreateWithFlags(&member.cuda, cudaStreamNonBlocking));
    check(weft_stream_from_cuda(context(), member.device, member.cuda, &member.stream),
          "weft_stream_from_cuda");
  }
  join(all);
  const std::scoped_lock lock(g_teams_mutex);
  g_teams.push_back(this);
}

void Team::join(const Settings& settings) {
  CommConfig shared(settings);
  shared.config.device_kind = WEFT_DEVICE_CUDA;
  weft_unique_id id{};
  if (mode_ != Mode::kProcess) check(weft_get_unique_id(context(), &id), "weft_get_unique_id");
  issue([&](Member& member) {
    weft_comm_config config = shared.config;
    config.device = member.device;
    if (mode_ == Mode::kProcess) {
      check(weft_comm_init_env(context(), &config, &member.comm), "weft_comm_init_env");
    } else {
      check(weft_comm_init_rank(context(), &config, layout_.ranks, &id, member.rank, &member.comm),
            "weft_comm_init_rank");
    }
  });
}

Team::~Team() {
  leave();
  for (Member& member : members_) {
    static_cast<void>(weft_stream_destroy(member.stream));
    static_cast<void>(cudaSetDevice(member.device));
    static_cast<void>(cudaStreamDestroy(member.cuda));
  }
}

void Team::leave() {
  {
    const std::scoped_lock lock(g_teams_mutex);
    std::erase(g_teams, this);
  }
  const auto destroy = [](Member& member) {
    static_cast<void>(weft_comm_destroy(std::exchange(member.comm, nullptr)));
  };
  if (mode_ == Mode::kThreads) {
    on_threads(members_.size(), [&](std::size_t i) { destroy(members_[i]); });
  } else {
    std::ranges::for_each(members_, destroy);
  }
}

void Team::abort_all() {
  const std::scoped_lock lock(g_teams_mutex);
  for (Team* team : g_teams) {
    for (Member& member : team->members_)
      static_cast<void>(weft_comm_abort(member.comm));
  }
}

void Team::each(const Action& action) {
  const auto act = [&](std::size_t i) {
    CUDA(cudaSetDevice(members_[i].device));
    action(members_[i]);
  };
  if (mode_ == Mode::kThreads) return on_threads(members_.size(), act);
  for (std::size_t i = 0; i < members_.size(); ++i)
    act(i);
}

void Team::issue(const Action& action) {
  if (mode_ != Mode::kOneThread) return each(action);
  gpu_test::check(weft_group_start(context()), "weft_group_start");
  try {
    each(action);
  } catch (...) {
    static_cast<void>(weft_group_end(context()));
    throw;
  }
  gpu_test::check(weft_group_end(context()), "weft_group_end");
}

void Team::synchronize() {
  each([](Member& member) {
    check(weft_stream_synchronize(member.stream),
          "rank " + std::to_string(member.rank) + ": weft_stream_synchronize");
  });
}

// ---- memory ----

Zone::Zone(int device, std::size_t bytes, std::size_t offset)
    : device_(device), bytes_(bytes), offset_(offset) {
  const std::size_t least = 2 * kGuard + offset + bytes;
  const std::size_t grain = least > (std::size_t{2} << 20) ? std::size_t{2} << 20 : kGuard;
  capacity_ = (least + grain - 1) / grain * grain;
  memory_ = take_memory(device, capacity_);
  image_.resize(least);
}

Zone::~Zone() {
  const std::scoped_lock lock(g_memory_mutex);
  g_memory.emplace(std::pair(device_, capacity_), memory_);
}

void Zone::write(const Bytes& content, int poison, cudaStream_t stream) {
  poison_ = poison & 0xFF;
  std::memset(image_.data(), poison_, image_.size());
  if (!content.empty()) {
    std::memcpy(image_.data() + kGuard + offset_, content.data(), content.size());
  }
  CUDA(cudaMemcpyAsync(memory_, image_.data(), image_.size(), cudaMemcpyHostToDevice, stream));
  CUDA(cudaStreamSynchronize(stream));
}

std::span<const std::byte> Zone::read(cudaStream_t stream) {
  CUDA(cudaMemcpyAsync(image_.data(), memory_, image_.size(), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  const std::size_t begin = kGuard + offset_;
  const std::size_t end = begin + bytes_;
  for (std::size_t i = 0; i < image_.size(); ++i) {
    if (i == begin) i = end;
    if (static_cast<int>(image_[i]) == poison_) continue;
    throw Problem(WEFT_ERROR_INTERNAL,
                  i < begin ? "changed, " + std::to_string(begin - i) + " bytes before the buffer"
                            : "changed, " + std::to_string(i - end) + " bytes behind the buffer");
  }
  return {image_.data() + begin, bytes_};
}

// ---- a trial ----

Trial::Trial(Team& team, const Call& call)
    : team_(team), call_(call), buffers_(team.layout().ranks), inputs_(team.layout().ranks) {
  for (const Member& member : team.members()) {
    Buffers& own = buffers(member);
    own.recv =
        std::make_unique<Zone>(member.device, call.bytes(), call.recv_offset * call.type.bytes);
    if (call.in_place) continue;
    own.send =
        std::make_unique<Zone>(member.device, call.bytes(), call.send_offset * call.type.bytes);
  }
}

void Trial::prepare(std::uint64_t seed) {
  on_threads(inputs_.size(), [&](std::size_t rank) {
    inputs_[rank] = random_elements(call_, seed * 1000003 + rank);
  });
  expected_ = expected_by_host(call_, inputs_);
  // Never the same poison twice in a row.
  const int poison = static_cast<int>(seed * 2 + 1);
  team_.each([&](Member& member) {
    Buffers& own = buffers(member);
    const Bytes& input = inputs_[member.rank];
    own.recv->write(call_.in_place ? input : Bytes(), poison, member.cuda);
    if (own.send != nullptr) own.send->write(input, poison, member.cuda);
  });
}

void Trial::issue(Member& member) {
  const Buffers& own = buffers(member);
  const void* send = call_.in_place ? own.recv->data() : own.send->data();
  // Of a broadcast, only the root's send counts.
  if (call_.broadcast && !call_.in_place && member.rank != call_.root) send = nullptr;
  call_weft(call_, send, own.recv->data(), member.comm, member.stream);
}

void Trial::check() {
  std::vector<std::span<const std::byte>> got(buffers_.size());
  team_.each([&](Member& member) {
    std::ostringstream who;
    who << "rank " << member.rank << ": " << call_;
    Buffers& own = buffers(member);
    const auto fail = [&](const std::string& what) {
      throw Problem(WEFT_ERROR_INTERNAL, who.str() + ": " + what);
    };
    try {
      got[member.rank] = own.recv->read(member.cuda);
    } catch (const Problem& problem) {
      fail(std::string("recv ") + problem.what());
    }
    const std::string wrong = judge(call_, inputs_, expected_, got[member.rank]);
    if (!wrong.empty()) fail(wrong);
    if (own.send == nullptr) return;
    try {
      const auto sent = own.send->read(member.cuda);
      if (!same(sent, inputs_[member.rank])) fail("the send buffer was changed");
    } catch (const Problem& problem) {
      fail(std::string("send ") + problem.what());
    }
  });
  // Whatever the order of the additions: all ranks have the same bits.
  const Member& first = team_.members().front();
  for (const Member& member : team_.members()) {
    if (same(got[member.rank], got[first.rank])) continue;
    std::ostringstream text;
    text << "ranks " << first.rank << " and " << member.rank << " got different bits: " << call_;
    throw Problem(WEFT_ERROR_INTERNAL, text.str());
  }
}

void Trial::run(std::uint64_t seed) {
  prepare(seed);
  team_.issue([&](Member& member) { issue(member); });
  team_.synchronize();
  check();
}

}  // namespace weft::gpu_test
