// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The exported functions: they check handles and arguments, call core/comm, and turn errors and
// exceptions into codes. Nothing is decided here.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/base/version.h"
#include "core/bootstrap/job_environment.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/group.h"
#include "core/comm/member.h"
#include "core/comm/stream.h"
#include "core/config/environment.h"

namespace {

using weft::Error;
using weft::Result;
using weft::Status;
using weft::api::answer;
using weft::api::guarded;
using weft::api::null_argument;
using weft::api::refuse;
using weft::api::refuse_null;

// The one piece of thread state outside a context: why there is none. Like errno.
std::string& creation_error() {
  thread_local std::string text;
  return text;
}

std::size_t copy_text(std::string_view source, char* text, std::size_t size) {
  if (text != nullptr && size > 0) {
    const std::size_t length = std::min(size - 1, source.size());
    std::ranges::copy(source.substr(0, length), text);
    text[length] = '\0';
  }
  return source.size() + 1;
}

Result<weft::Config> config_for(weft::Context& context, const weft_comm_config* config) {
  if (config == nullptr) return context.config();
  constexpr std::size_t kLeast = offsetof(weft_comm_config, device_kind);
  if (config->struct_size < kLeast) {
    return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                      fmt::format("weft_comm_config.struct_size is {}, less than the {} of the "
                                  "first version",
                                  config->struct_size, kLeast),
                      "set it to sizeof(weft_comm_config)");
  }
  if (config->setting_count == 0) return context.config();
  if (config->settings == nullptr) {
    return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                      fmt::format("weft_comm_config.settings is NULL, and setting_count is {}",
                                  config->setting_count),
                      "give setting_count pairs of a key and a value");
  }
  std::map<std::string, std::string> overrides;
  for (std::size_t i = 0; i < config->setting_count; ++i) {
    const char* name = config->settings[2 * i];
    const char* value = config->settings[2 * i + 1];
    if (name == nullptr || value == nullptr) {
      return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                        fmt::format("weft_comm_config.settings: pair {} holds NULL", i),
                        "give setting_count pairs of a key and a value");
    }
    overrides[name] = value;
  }
  return context.config().with_overrides(overrides);
}

// The device of rank `offset` after the one that the configuration names.
Result<weft::DeviceRuntime*> device_for(weft::Context& context, const weft_comm_config* config,
                                        std::int32_t offset) {
  constexpr std::size_t kLeast = offsetof(weft_comm_config, nonblocking);
  if (config == nullptr || config->struct_size < kLeast ||
      config->device_kind == WEFT_DEVICE_HOST) {
    return &context.runtime();
  }
  return weft::api::device_of(context, config->device_kind, config->device + offset,
                              "weft_comm_config.device_kind");
}

bool is_nonblocking(const weft_comm_config* config) {
  return config != nullptr && config->struct_size >= offsetof(weft_comm_config, reserved) &&
         config->nonblocking != 0;
}

weft::UniqueId to_core(const weft_unique_id& id) {
  weft::UniqueId copy;
  std::memcpy(copy.bytes.data(), id.bytes, sizeof(id.bytes));
  return copy;
}

// Keeps context and handle counts in step: handles are counted as users of the context.
weft_comm* wrap(weft_context* context, std::unique_ptr<weft::Member> member) {
  auto* comm = new weft_comm{.owner = context, .member = std::move(member)};
  context->context->users().fetch_add(1);
  return comm;
}

void unwrap(weft_comm* comm) {
  weft_context* const owner = comm->owner;
  delete comm;
  owner->context->users().fetch_sub(1);
}

weft_comm_properties properties_of(const weft::Communicator& communicator) {
  const weft::CommunicatorFacts facts = communicator.facts();
  const weft::DeviceRuntime& runtime = communicator.runtime();
  return {.struct_size = sizeof(weft_comm_properties),
          .rank = communicator.rank(),
          .ranks = communicator.ranks(),
          .hosts = facts.hosts,
          .local_rank = facts.local_rank,
          .local_ranks = facts.local_ranks,
          .device_kind = runtime.name() == "host" ? WEFT_DEVICE_HOST : WEFT_DEVICE_CUDA,
          .device = runtime.index(),
          .channels = facts.channels,
          .shares_memory = facts.shares_memory ? 1U : 0U,
          .most_direct = facts.most_direct,
          .calls = facts.calls,
          .bytes_held = facts.bytes_held,
          .calls_by_outputs = facts.by_outputs,
          .calls_by_slots = facts.by_slots};
}

// Writes as much as the caller's struct_size says that it has room for, but for struct_size itself.
template <typename Answer>
Status give(const Answer& what, const char* name, Answer* out) {
  constexpr std::size_t kSkip = sizeof(what.struct_size);
  if (out->struct_size <= kSkip) {
    return weft::fail(WEFT_ERROR_INVALID_ARGUMENT,
                      fmt::format("{}.struct_size is {}, too small for any of its fields", name,
                                  out->struct_size),
                      fmt::format("set it to sizeof({})", name));
  }
  std::memcpy(reinterpret_cast<char*>(out) + kSkip, reinterpret_cast<const char*>(&what) + kSkip,
              std::min<std::size_t>(out->struct_size, sizeof(what)) - kSkip);
  return {};
}

// A rank that is to join. What `before` does may block, until the descriptor is readable.
struct Joiner {
  std::uint32_t ranks = 0;
  weft::UniqueId id;
  std::uint32_t rank = 0;
  std::int32_t device_offset = 0;
  std::function<Status(int cancel_fd)> before;
};

weft_result join_in_background(weft_context* owner, weft::Config settings,
                               weft::DeviceRuntime& device, Joiner joiner, weft_comm** out) {
  weft::Context& context = *owner->context;
  auto created =
      weft::Communicator::create(context, std::move(settings), joiner.rank, joiner.ranks, device);
  if (!created) return refuse(owner, created.error());
  auto member = weft::Member::start(std::move(*created), joiner.id, std::move(joiner.before));
  if (!member) return refuse(owner, member.error());
  *out = wrap(owner, std::move(*member));
  return WEFT_IN_PROGRESS;
}

weft_result join(weft_context* owner, const weft_comm_config* config, Joiner joiner,
                 weft_comm** out) {
  weft::Context& context = *owner->context;
  auto settings = config_for(context, config);
  if (!settings) return refuse(owner, settings.error());
  auto device = device_for(context, config, joiner.device_offset);
  if (!device) return refuse(owner, device.error());
  if (is_nonblocking(config)) {
    return join_in_background(owner, std::move(*settings), **device, std::move(joiner), out);
  }
  if (joiner.before) {
    if (const Status done = joiner.before(-1); !done) return refuse(owner, done.error());
  }
  auto start = [&context, settings = std::move(*settings), id = joiner.id, rank = joiner.rank,
                ranks = joiner.ranks, runtime = *device] {
    return weft::Communicator::join(context, settings, id, rank, ranks, *runtime);
  };
  const auto joined = std::make_shared<std::unique_ptr<weft::Communicator>>();
  const auto run = [start = std::move(start), joined]() -> Status {
    WEFT_TRY_ASSIGN(*joined, start());
    return {};
  };
  const auto deliver = [owner, out, joined] {
    *out = wrap(owner, std::make_unique<weft::Member>(std::move(*joined)));
  };
  const auto undo = [] {};  // whoever has not been handed over goes
  return weft::api::block(owner, nullptr, run, deliver, undo);
}

// All ranks of a communicator, in the background: every one, or none.
weft_result start_all(weft_context* context, const weft_comm_config* config, std::uint32_t ranks,
                      const weft::UniqueId& id, weft_comm** out) {
  std::vector<weft_comm*> started;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    weft_comm* comm = nullptr;
    const weft_result result = join(context, config,
                                    {.ranks = ranks,
                                     .id = id,
                                     .rank = rank,
                                     .device_offset = static_cast<std::int32_t>(rank),
                                     .before = {}},
                                    &comm);
    if (result < 0) {
      std::ranges::for_each(started, unwrap);
      return result;
    }
    started.push_back(comm);
  }
  std::ranges::copy(started, out);
  return WEFT_IN_PROGRESS;
}

}  // namespace

extern "C" {

const char* weft_version(void) {
  return weft::version_text();
}

// Both tables hold literals, whose views end with a zero.
const char* weft_result_name(weft_result result) {
  return weft::result_name(result).data();
}

const char* weft_result_description(weft_result result) {
  return weft::result_description(result).data();
}

size_t weft_last_error(weft_context* context, char* text, size_t size) {
  const auto copy = [&](std::string_view source) { return copy_text(source, text, size); };
  return context != nullptr ? context->context->read_last_error(copy) : copy(creation_error());
}

weft_result weft_context_create(const weft_context_options* options, weft_context** out) {
  const auto refuse = [](const Error& error) {
    try {
      creation_error() = error.to_string();
    } catch (const std::bad_alloc&) {
      creation_error().clear();  // better none than that of an earlier failure
    }
    return error.code();
  };
  if (out == nullptr) return refuse(Error(WEFT_ERROR_INVALID_ARGUMENT, "out is NULL"));
  if (options != nullptr && options->struct_size < sizeof(weft_context_options)) {
    return refuse(weft::or_no_memory([&] {
      return Error(WEFT_ERROR_INVALID_ARGUMENT,
                   fmt::format("weft_context_options.struct_size is {}, less than the {} of "
                               "this version",
                               options->struct_size, sizeof(weft_context_options)),
                   "set it to sizeof(weft_context_options)");
    }));
  }
  try {
    const char* file = options != nullptr ? options->config_file : nullptr;
    auto context = weft::Context::create(file != nullptr ? file : "", weft::capture_environment());
    if (!context) return refuse(context.error());
    *out = new weft_context{.context = std::move(*context)};
    return WEFT_OK;
  } catch (const std::bad_alloc&) {
    return refuse(weft::or_no_memory(
        [] { return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory for a context"); }));
  } catch (const std::exception& error) {
    return refuse(Error(WEFT_ERROR_INTERNAL, error.what()));
  }
}

weft_result weft_context_destroy(weft_context* context) {
  if (context == nullptr) return WEFT_OK;
  return guarded(context, [&]() -> weft_result {
    if (const auto users = context->context->users().load(); users != 0) {
      return context->context->remember(
          Error(WEFT_ERROR_INVALID_USAGE,
                fmt::format("{} communicators, streams and graphs of the context are alive", users),
                "destroy them before the context"));
    }
    delete context;
    return WEFT_OK;
  });
}

weft_result weft_context_get_device_memory(weft_context* context, int32_t device,
                                           weft_device_memory* out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&] {
    const weft::HeldMemory held = context->context->held_memory(device);
    return answer(context, give(weft_device_memory{.struct_size = sizeof(weft_device_memory),
                                                   .reserved = 0,
                                                   .in_use = held.in_use,
                                                   .kept = held.kept,
                                                   .host_in_use = held.host_in_use,
                                                   .host_kept = held.host_kept},
                                "weft_device_memory", out));
  });
}

weft_result weft_get_unique_id(weft_context* context, weft_unique_id* out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    const auto id = context->context->serve_rendezvous(context->context->config());
    if (!id) return context->context->remember(id.error());
    std::memcpy(out->bytes, id->bytes.data(), sizeof(out->bytes));
    return WEFT_OK;
  });
}

weft_result weft_comm_init_rank(weft_context* context, const weft_comm_config* config,
                                uint32_t ranks, const weft_unique_id* id, uint32_t rank,
                                weft_comm** out) {
  if (context == nullptr || id == nullptr || out == nullptr) {
    return refuse_null(context, out == nullptr ? "out" : id == nullptr ? "id" : "context");
  }
  return guarded(context, [&] {
    return join(
        context, config,
        {.ranks = ranks, .id = to_core(*id), .rank = rank, .device_offset = 0, .before = {}}, out);
  });
}

weft_result weft_comm_init_all(weft_context* context, const weft_comm_config* config,
                               uint32_t ranks, weft_comm** out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    weft::Context& core = *context->context;
    if (core.open_group() != nullptr) {
      return core.remember(Error(WEFT_ERROR_INVALID_USAGE,
                                 "weft_comm_init_all inside a group: it is a group of its own",
                                 "call it outside of weft_group_start and weft_group_end"));
    }
    if (ranks == 0) {
      return core.remember(
          Error(WEFT_ERROR_INVALID_ARGUMENT, "a communicator of 0 ranks", "1 rank or more"));
    }
    // Before each of them takes memory, and a thread.
    if (const Status possible = weft::Communicator::check_numbers(0, ranks); !possible) {
      return core.remember(possible.error());
    }
    const auto id = core.serve_rendezvous(core.config());
    if (!id) return core.remember(id.error());
    // Nobody else comes to this rendezvous, which would wait for them.
    const auto end_if_failed = [&](weft_result joined) {
      if (joined < 0) core.end_rendezvous(*id);
      return joined;
    };
    if (is_nonblocking(config)) return end_if_failed(start_all(context, config, ranks, *id, out));
    core.groups().start();
    // However they end, the group does, and by its end they are told.
    weft_result result = WEFT_OK;
    for (std::uint32_t rank = 0; rank < ranks && result == WEFT_OK; ++rank) {
      result = guarded(context, [&] {
        return join(context, config,
                    {.ranks = ranks,
                     .id = *id,
                     .rank = rank,
                     .device_offset = static_cast<std::int32_t>(rank),
                     .before = {}},
                    &out[rank]);
      });
    }
    return end_if_failed(weft_group_end(context));
  });
}

weft_result weft_comm_init_env(weft_context* context, const weft_comm_config* config,
                               weft_comm** out) {
  if (context == nullptr || out == nullptr) {
    return refuse_null(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    weft::Context& core = *context->context;
    // Before anything may fail: on other ranks it need not.
    const std::uint64_t instance = core.next_job_instance();
    const auto job = weft::read_job_environment(weft::current_environment());
    if (!job) return refuse(context, job.error());
    const auto id = weft::unique_id_of(*job, instance);
    if (!id) return refuse(context, id.error());
    Joiner joiner{.ranks = static_cast<std::uint32_t>(job->world_size),
                  .id = *id,
                  .rank = static_cast<std::uint32_t>(job->rank),
                  .device_offset = 0,
                  .before = {}};
    if (job->rank == 0 && job->world_size > 1) {
      auto settings = config_for(core, config);
      if (!settings) return refuse(context, settings.error());
      joiner.before = [&core, id = *id, settings = std::move(*settings),
                       derived_port = job->derived_port](int cancel_fd) -> Status {
        Status served = core.serve_rendezvous_at(id, settings, cancel_fd);
        if (served || !derived_port) return served;
        return weft::fail(std::move(served.error())
                              .with_context("the port follows from WEFT_SECRET, "
                                            "WEFT_ROOT=HOST_OF_RANK_0:PORT sets another"));
      };
    }
    return join(context, config, std::move(joiner), out);
  });
}

weft_result weft_comm_finalize(weft_comm* comm) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Context& context = *comm->owner->context;
    const weft::Group* const group = context.open_group();
    if (group != nullptr && group->holds(comm->member->joined())) {
      return context.remember(Error(WEFT_ERROR_INVALID_USAGE,
                                    "weft_comm_finalize inside a group: its calls are not made yet",
                                    "weft_group_end first"));
    }
    return answer(comm->owner, comm->member->finalize());
  });
}

weft_result weft_comm_destroy(weft_comm* comm) {
  if (comm == nullptr) return WEFT_OK;
  return guarded(comm->owner, [&] {
    if (weft::Group* const group = comm->owner->context->open_group(); group != nullptr)
      group->leave_out(comm->member->joined());
    unwrap(comm);
    return WEFT_OK;
  });
}

weft_result weft_comm_abort(weft_comm* comm) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  return guarded(comm->owner, [&] {
    comm->member->abort();
    return WEFT_OK;
  });
}

weft_result weft_comm_get_async_error(weft_comm* comm, weft_result* out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (out == nullptr) return null_argument(comm->owner, "out");
  return guarded(comm->owner, [&] {
    *out = answer(comm->owner, comm->member->query());
    return WEFT_OK;
  });
}

weft_result weft_comm_size(weft_comm* comm, uint32_t* out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (out == nullptr) return null_argument(comm->owner, "out");
  *out = comm->member->ranks();
  return WEFT_OK;
}

weft_result weft_comm_rank(weft_comm* comm, uint32_t* out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (out == nullptr) return null_argument(comm->owner, "out");
  *out = comm->member->rank();
  return WEFT_OK;
}

weft_result weft_comm_get_properties(weft_comm* comm, weft_comm_properties* out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (out == nullptr) return null_argument(comm->owner, "out");
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Context& context = *comm->owner->context;
    const weft::Communicator* communicator = comm->member->joined();
    if (communicator == nullptr) {
      const auto just_joined = comm->member->for_calls();
      if (!just_joined) return context.remember(just_joined.error());
      communicator = *just_joined;
    }
    return answer(comm->owner, give(properties_of(*communicator), "weft_comm_properties", out));
  });
}

size_t weft_comm_describe_pair(weft_comm* comm, uint32_t rank_a, uint32_t rank_b, char* text,
                               size_t size) {
  if (comm == nullptr) return 0;
  const weft::Communicator* const communicator = comm->member->joined();
  if (communicator == nullptr) return 0;
  try {
    const std::string described = communicator->describe_pair(rank_a, rank_b);
    return described.empty() ? 0 : copy_text(described, text, size);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

weft_result weft_group_start(weft_context* context) {
  if (context == nullptr) return null_argument(nullptr, "context");
  return guarded(context, [&] {
    context->context->groups().start();
    return WEFT_OK;
  });
}

weft_result weft_group_end(weft_context* context) {
  if (context == nullptr) return null_argument(nullptr, "context");
  return guarded(context, [&] {
    weft::Context& core = *context->context;
    weft::Group* const group = core.open_group();
    if (group == nullptr) return answer(context, weft::Group().end());
    // However it ends.
    struct Close {
      weft::Groups& groups;
      const weft::Group& group;
      ~Close() {
        if (!group.is_open()) groups.closed();
      }
    } const close{core.groups(), *group};
    return answer(context, group->end());
  });
}

weft_result weft_stream_create(weft_context* context, weft_stream** out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    auto stream = weft::Stream::create(*context->context);
    if (!stream) return context->context->remember(stream.error());
    *out = new weft_stream{.owner = context, .stream = std::move(*stream)};
    context->context->users().fetch_add(1);
    return WEFT_OK;
  });
}

weft_result weft_stream_from_cuda(weft_context* context, int32_t device, void* cuda_stream,
                                  weft_stream** out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    auto stream = weft::Stream::wrap(*context->context, device, cuda_stream);
    if (!stream) return context->context->remember(stream.error());
    *out = new weft_stream{.owner = context, .stream = std::move(*stream)};
    context->context->users().fetch_add(1);
    return WEFT_OK;
  });
}

weft_result weft_stream_synchronize(weft_stream* stream) {
  if (stream == nullptr) return null_argument(nullptr, "stream");
  return guarded(stream->owner,
                 [&] { return answer(stream->owner, stream->stream->synchronize()); });
}

weft_result weft_stream_query(weft_stream* stream) {
  if (stream == nullptr) return null_argument(nullptr, "stream");
  return guarded(stream->owner, [&]() -> weft_result {
    const auto state = stream->stream->query();
    return state ? *state : stream->owner->context->remember(state.error());
  });
}

weft_result weft_stream_destroy(weft_stream* stream) {
  if (stream == nullptr) return WEFT_OK;
  weft_context* owner = stream->owner;
  return guarded(owner, [&] {
    delete stream;
    owner->context->users().fetch_sub(1);
    return WEFT_OK;
  });
}

}  // extern "C"
