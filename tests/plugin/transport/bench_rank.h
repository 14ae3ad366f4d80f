// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of a transport under test: a plugin instance of its own, opened through the ABI alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <plugin_api/transport.h>

#include "tests/support/fake_host.h"

namespace weft::test {

/// A plugin's shared object; loaded once and never unloaded.
const weft_plugin_descriptor* load_plugin(const std::string& path);

using Key = std::vector<std::uint8_t>;
Key default_key();

/// Bytes of a blob, kept by the test as the bootstrap would.
using Bytes = std::vector<std::uint8_t>;
Bytes copy_blob(const weft_blob& blob);
weft_blob as_blob(const Bytes& bytes);

/// One protocol of a connection.
struct Protocol {
  weft_protocol protocol = WEFT_PROTOCOL_SIMPLE;
  std::uint32_t steps = 8;
  std::uint32_t step_bytes = 4096;
};

/// A rank with its own plugin instance and transport.
class Rank {
 public:
  struct Options {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 2;
    std::string host_id = "this-host";
    std::int32_t device = -1;
    std::uint64_t communicator = 42;
    const weft_host_memory* memory = nullptr;  ///< What the host offers; none.
    Key key = default_key();
    /// Parameters of type TEXT; the others have the plugin's fallback.
    std::map<std::string, std::string> parameters = {};
  };

  Rank(const weft_plugin_descriptor* entry, Options options);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank();

  /// Closes the transport; the instance stays, and may open another one.
  void leave();
  void join(std::uint64_t communicator);

  [[nodiscard]] const weft_transport_interface& table() const { return *table_; }
  [[nodiscard]] weft_plugin* plugin() const { return plugin_; }
  [[nodiscard]] weft_transport* transport() const { return transport_; }
  [[nodiscard]] FakeHost& host() { return host_; }
  [[nodiscard]] std::uint32_t number() const { return options_.rank; }

  Bytes peer_info() const;
  /// Asks whether this end could connect to the rank that gave `info`.
  weft_can_connect can_connect(std::uint32_t rank, const Bytes& info, bool same_process = true,
                               bool same_host = true) const;

  /// One end; null when refused, and `result` then says how.
  weft_connection* prepare(weft_direction direction, std::uint32_t peer, std::uint64_t number,
                           const std::vector<Protocol>& protocols, weft_result* result = nullptr);
  static Bytes blob(const weft_transport_interface& table, weft_connection* connection);
  Bytes blob(weft_connection* connection) const { return blob(*table_, connection); }
  weft_result connect(weft_connection* connection, const Bytes& peer_blob) const;
  weft_protocol_view describe(weft_connection* connection,
                              weft_protocol protocol = WEFT_PROTOCOL_SIMPLE) const;
  void close(weft_connection* connection) const { table_->close_connection(connection); }

 private:
  FakeHost host_;
  Options options_;
  const weft_plugin_descriptor* entry_;
  weft_plugin* plugin_ = nullptr;
  const weft_transport_interface* table_ = nullptr;
  weft_transport* transport_ = nullptr;
};

/// Number of open descriptors of this process.
std::uint64_t count_descriptors();
/// Lines of /proc/self/maps, or of another file, that hold `text`.
std::uint64_t count_lines(const std::string& file, const std::string& text);
/// Whether the page of `address` is mapped.
bool is_mapped(const void* address);

/// Sleeps on a counter as the contract says, until it is at least `value` or `error` is set; where
/// nobody may sleep, it looks.
void wait_for(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value,
              std::uint32_t* error);
/// Stores a counter and wakes who sleeps on it.
void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value);

/// Sends `steps` slots of a pattern that depends on `seed` through one end.
void send_pattern(const weft_protocol_view& view, std::uint64_t steps, std::uint64_t seed);
/// Receives them, and writes into what has come; the number of slots that were not as expected.
std::uint64_t receive_pattern(const weft_protocol_view& view, std::uint64_t steps,
                              std::uint64_t seed);

}  // namespace weft::test
