// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The receiving end: reads headers, matches them with posted buffers, reads payload into these.
//
// Nothing is buffered but a little read-ahead of stream 0. A message whose tag has no posted buffer
// stays in the kernel, and so do those behind it, until one is posted: the head-of-line rule.
#pragma once

#include <optional>
#include <vector>

#include "connection.h"

namespace weft::net_socket {

class Receiver final : public Connection {
 public:
  /// Takes over streams whose handshakes are done; all of them are set up already.
  static Result<std::unique_ptr<Receiver>> adopt(Net& net, std::string device, std::string peer,
                                                 std::vector<Fd> streams, uint64_t stripe);

  Result<weft_result> irecv(const weft_net_recv* buffers, uint64_t stride, uint64_t count,
                            Request** out) override;
  bool cancel(Request* request) override;
  void progress() override;
  void try_message() override;
  void on_tick(Clock::time_point /*now*/) override {}

 private:
  /// Most bytes of read-ahead.
  static constexpr size_t kStagingBytes = size_t{16} * 1024;

  Receiver(Net& net, std::string device, std::string peer, size_t streams, uint64_t stripe);
  void move_data();
  void read_first_stream();
  void read_other_stream(uint32_t index);
  /// Payload of the message under way on stream 0; false when nothing more can be read now.
  bool read_share(uint64_t& budget);
  /// Bytes of the next header; false likewise.
  bool read_header(uint64_t& budget);
  /// Gives the parsed header a posted buffer; false if there is none for its tag.
  bool match();
  /// What recv said when it gave no data.
  void no_data(Stream& stream, ssize_t got, int error);
  void end_of_stream();
  void complete_front();
  void tell_what_it_awaits();
  /// At rest, nothing is read that could tell of a broken path.
  void look_for_break();
  std::vector<Request*> take_pending() override;

  std::vector<Request*> posted_;  ///< In the order they were posted.
  RequestQueue active_;           ///< Matched messages, in the order they were sent.
  std::optional<Header> header_;  ///< Read, and waiting for a buffer.
  uint32_t sequence_ = 0;         ///< Of the next header.
  std::optional<Failure> ended_;  ///< The sender closed at the border of a message.
  size_t staged_begin_ = 0;
  size_t staged_end_ = 0;
  size_t read_ahead_ = kStagingBytes;
  std::vector<uint8_t> staging_;
};

}  // namespace weft::net_socket
