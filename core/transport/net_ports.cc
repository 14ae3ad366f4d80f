// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ports of one rank's connections: one of each net where workers move their messages
// themselves, several where threads of the engine do it for a GPU. Each has a weft_net,
// connections, a lock and an engine of its own; channels are dealt out to them (port_of_channel). A
// failure of one is told to the communicator, which keeps the first that it hears of and aborts
// them all.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "core/transport/connection_edge.h"
#include "core/transport/connections.h"

namespace weft {

Result<std::unique_ptr<Connections::OpenedPort>> Connections::open_port(const NetPlugin& plugin) {
  WEFT_TRY_ASSIGN(const Secret key, derive_secret(context_.secret, plugin.id(), 0));
  weft_net_open_info info{};
  info.struct_size = sizeof(info);
  info.rank = context_.rank;
  info.ranks = context_.ranks;
  info.traffic_class = -1;
  info.job = context_.communicator;
  info.communicator = context_.communicator;
  info.key = reinterpret_cast<const std::uint8_t*>(key.data());
  info.key_size = key.size();
  auto opened = std::make_unique<OpenedPort>(plugin);
  WEFT_TRY_ASSIGN(opened->net, plugin.open(info));
  return opened;
}

Status Connections::open_ports(std::uint32_t count) {
  for (auto& [id, opened] : nets_) {
    for (std::size_t number = 0; number < std::max(count, 1U); ++number) {
      std::unique_ptr<OpenedPort> made;
      if (number == opened->ports.size()) {
        const auto add = [&]() -> Status {
          WEFT_TRY_ASSIGN(made, open_port(opened->plugin));
          WEFT_TRY_ASSIGN(const auto devices, opened->plugin.devices(made->net));
          // Ends were chosen by what was offered, and interfaces come and go.
          for (const std::string& name : opened->devices) {
            const auto found = std::ranges::find(devices, name, &NetDevice::name);
            if (found == devices.end()) {
              return fail(WEFT_ERROR_NETWORK, fmt::format("device {} is gone", name),
                          "start again once the host's interfaces have settled");
            }
            made->devices.push_back(static_cast<std::uint32_t>(found - devices.begin()));
          }
          return {};
        };
        if (auto added = add(); !added) {
          return fail(std::move(added.error())
                          .with_context(fmt::format("opening port {} of {} to net {}", number + 1,
                                                    count, id)));
        }
      }
      WEFT_TRY_ASSIGN(ProgressEngine* const engine,
                      context_.engine_of(static_cast<std::uint32_t>(number)));
      const std::scoped_lock lock(mutex_);  // an abort may look for the port
      if (made != nullptr) opened->ports.push_back(std::move(made));
      OpenedPort& port = *opened->ports[number];
      port.port = std::make_unique<NetPort>(opened->plugin, port.net, *context_.runtime, memory_,
                                            context_.path_failed, opened->unregistered);
      WEFT_TRY(engine->add(*port.port));
      port.engine = engine;
      ports_.push_back(&port);
    }
  }
  return {};
}

// Model: tests/models/engine_duty.pml
bool Connections::drive(bool about_to_sleep) {
  bool moved = false;
  for (const OpenedPort* opened : ports_) {
    if (!opened->port->busy()) continue;
    // Before a sleep the last look must not be skipped because another thread is at it.
    moved |= about_to_sleep ? opened->port->progress() : opened->port->try_progress();
  }
  if (!moved) run_ahead_.waits();
  if (!moved && about_to_sleep) hand_over();
  return moved;
}

bool Connections::keep(RunAhead::Time until) {
  for (const OpenedPort* opened : ports_) {
    if (opened->port->busy() && !opened->port->keep(until)) return false;
  }
  for (const OpenedPort* opened : ports_) {
    if (opened->port->busy()) opened->engine->look_in(*opened->port);
  }
  return true;
}

void Connections::leave() {
  const auto now = std::chrono::steady_clock::now();
  if (const auto until = run_ahead_.call_ended(now); until && keep(*until)) return;
  run_ahead_.sent(now);
  // The engine may be asleep on the net's descriptors, which a slot filled just now does not
  // touch: what is ready is given to the net here, under the lock. Where it polls it would only be
  // held up.
  for (const OpenedPort* opened : ports_) {
    if (opened->port->busy() && !opened->port->must_be_polled()) opened->port->progress();
  }
  hand_over();
}

void Connections::hand_over() {
  for (const OpenedPort* opened : ports_) {
    if (opened->port->busy()) opened->engine->take_over(*opened->port);
  }
}

bool Connections::busy() const {
  return std::ranges::any_of(ports_, [](const OpenedPort* opened) { return opened->port->busy(); });
}

void Connections::abort(std::uint32_t reason) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, opened] : transports_)
    opened->plugin.abort(opened->transport, reason);
  for (auto& [id, opened] : nets_) {
    for (const auto& port : opened->ports) {
      if (port->port != nullptr) {
        port->port->abort();
      } else {
        opened->plugin.abort(port->net);
      }
    }
  }
}

}  // namespace weft
