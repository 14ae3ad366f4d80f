// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/reference.h"

#include <exception>
#include <map>
#include <thread>
#include <utility>

#include <weft/weft.h>

#include "tests/gpu/device.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

/// A communicator of the host device, a thread for each rank. `by_rank`: it adds up by rank
/// numbers.
class HostTeam {
 public:
  HostTeam(std::uint32_t ranks, bool by_rank) : comms_(ranks), streams_(ranks) {
    const CommConfig config({{"transports.order", "p2p"},
                             {"collectives.deterministic", by_rank ? "true" : "false"},
                             {"collectives.all_reduce.algorithm", by_rank ? "chain" : "ring"},
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

  Bytes run(const Call& call, const std::vector<Bytes>& inputs, const std::vector<Bytes>& factors) {
    std::vector<Bytes> results(comms_.size());
    on_threads(comms_.size(), [&](std::size_t rank) {
      results[rank].resize(inputs[rank].size());
      weft_reduction reduction = call.reduction;
      if (!factors.empty()) {
        const weft_premul_sum_options made{.struct_size = sizeof(made),
                                           .type = call.type.weft,
                                           .residence = WEFT_SCALAR_NOW,
                                           .reserved = 0,
                                           .scalar = factors[rank].data()};
        check(weft_reduction_create_premul_sum(comms_[rank], &made, &reduction),
              "weft_reduction_create_premul_sum on the host");
      }
      check(weft_all_reduce(inputs[rank].data(), results[rank].data(),
                            inputs[rank].size() / call.type.bytes, call.type.weft, reduction,
                            comms_[rank], streams_[rank]),
            "weft_all_reduce on the host");
      check(weft_stream_synchronize(streams_[rank]), "weft_stream_synchronize on the host");
      if (!factors.empty()) {
        check(weft_reduction_destroy(comms_[rank], reduction), "weft_reduction_destroy");
      }
    });
    return std::move(results[0]);
  }

 private:
  std::vector<weft_comm*> comms_;
  std::vector<weft_stream*> streams_;
};

std::map<std::pair<std::size_t, bool>, HostTeam> g_host_teams;

}  // namespace

Bytes reduced_by_host(const Call& call, const std::vector<Bytes>& inputs,
                      const std::vector<Bytes>& factors) {
  // One rank alone has no order.
  const bool by_rank = call.by_rank && inputs.size() > 1;
  return g_host_teams
      .try_emplace({inputs.size(), by_rank}, static_cast<std::uint32_t>(inputs.size()), by_rank)
      .first->second.run(call, inputs, factors);
}

void forget_references() {
  g_host_teams.clear();
}

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

}  // namespace weft::gpu_test
