// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank of a net under test, through the plugin ABI alone: its own host, plugin instance and
// net. What the suites need of it is here in short form: waiting, registered buffers, completions
// by their user value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plugin_api/net.h>

#include "tests/support/fake_host.h"

namespace weft::test {

/// The plugin under test: `PLUGIN.so` of the command line. Loaded once, never unloaded.
const weft_plugin_descriptor& plugin_under_test();
/// Parameters for every rank that does not set them itself: `name` and value as in the file.
std::map<std::string, std::string>& common_parameters();
/// Adds one of the command line, `PARAMETER=VALUE`; a message if it is not of that form.
std::optional<std::string> add_common_parameter(const std::string& text);
/// Loads the plugin that the suite is about; a message if it cannot.
std::optional<std::string> load_plugin_under_test(const std::string& path);

using Bytes = std::vector<std::uint8_t>;

/// `size` bytes that depend on `seed`.
Bytes pattern(std::size_t size, std::uint64_t seed);

/// Calls `step` until it answers true; false once `seconds` have passed without.
bool eventually(const std::function<bool()>& step, int seconds = 60);

/// Descriptors that this process has open.
std::size_t open_descriptors();

class NetRank {
 public:
  struct Options {
    std::uint32_t rank = 0;
    Bytes key = Bytes(32, 0x5a);
    /// Parameters as they would be written in the file; the others have their defaults.
    std::map<std::string, std::string> parameters;
  };

  NetRank() : NetRank(Options()) {}
  explicit NetRank(const Options& options);
  NetRank(const NetRank&) = delete;
  NetRank& operator=(const NetRank&) = delete;
  ~NetRank();

  [[nodiscard]] const weft_net_interface& api() const { return *api_; }
  [[nodiscard]] weft_net* net() const { return net_; }
  [[nodiscard]] FakeHost& host() { return host_; }
  /// What open answered (constructed with good options it is WEFT_OK).
  [[nodiscard]] weft_result opened() const { return opened_; }

  /// The first device. Fails the test if there is none.
  const weft_net_device& device();

  /// Polls once and keeps what ended.
  void poll();
  /// The completion with this user value, taken out of what has ended.
  std::optional<weft_net_completion> take(std::uint64_t user);
  [[nodiscard]] std::size_t untaken() const { return ended_.size(); }

 private:
  FakeHost host_;
  weft_plugin* plugin_ = nullptr;
  const weft_net_interface* api_ = nullptr;
  weft_net* net_ = nullptr;
  weft_result opened_ = WEFT_ERROR_INTERNAL;
  std::map<std::uint64_t, weft_net_completion> ended_;
};

/// A connection's end with its registrations; closes them.
class End {
 public:
  End() = default;
  End(NetRank* rank, weft_net_connection* connection) : rank_(rank), connection_(connection) {}
  End(End&& other) noexcept;
  End& operator=(End&& other) noexcept;
  ~End() { close(); }

  [[nodiscard]] weft_net_connection* get() const { return connection_; }
  [[nodiscard]] NetRank& rank() const { return *rank_; }
  void close();

  /// Sends or receives once; registers the memory first. The memory must outlive the request.
  weft_result send(const Bytes& data, std::uint64_t user, std::uint32_t tag = 0,
                   std::uint64_t value = 0, weft_net_request** request = nullptr,
                   std::uint32_t flags = 0);
  weft_result receive(Bytes& room, std::uint64_t user, std::uint32_t tag = 0,
                      weft_net_request** request = nullptr);
  weft_result receive_group(std::vector<Bytes>& rooms, std::uint64_t first_user,
                            std::uint32_t tag = 0);
  /// The same, but polls both ends while there is no room.
  void must_send(End& peer, const Bytes& data, std::uint64_t user, std::uint32_t tag = 0,
                 std::uint64_t value = 0);
  void must_receive(End& peer, Bytes& room, std::uint64_t user, std::uint32_t tag = 0);
  [[nodiscard]] std::string error_text() const;

 private:
  weft_net_registration* registration_of(const void* data, std::size_t size);

  NetRank* rank_ = nullptr;
  weft_net_connection* connection_ = nullptr;
  std::map<std::pair<const void*, std::size_t>, weft_net_registration*> registrations_;
};

/// Both ends of a new connection from `sender` to `receiver`, ready for use.
struct Link {
  End sender;
  End receiver;
};
Link make_link(NetRank& sender, NetRank& receiver);

/// Polls both ranks until this completion of `rank` has come.
weft_net_completion await(NetRank& rank, NetRank& other, std::uint64_t user);

}  // namespace weft::test
