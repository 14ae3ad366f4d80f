// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One end of a connection through a net: how the slots, heads and tails that kernels know, or their
// lines, become messages and come from them.
//
// Models, of lines: tests/models/inbox_messages.pml, tests/models/inbox_stripes.pml,
// tests/models/line_steps.pml
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plugin_api/net.h>
#include <plugin_api/transport.h>

#include "core/base/error.h"
#include "core/model/connection_view.h"
#include "core/model/landing.h"
#include "core/model/progress_op.h"
#include "core/transport/line_messages.h"
#include "core/transport/line_steps.h"

namespace weft {

/// Slots of a net-backed connection; both ends the same.
struct SlotGeometry {
  std::uint32_t steps = 8;
  std::uint32_t step_bytes = 0;
  /// Of a device that does not report ends: steps of up to so many bytes may go by lines of LL as
  /// well; 0: none.
  std::uint32_t line_payload = 0;
};

/// Ownership: of nothing but what it counts; its port owns the end of the net, the registration and
/// the block of memory that holds counters, slot descriptions and slots, or messages of inboxes.
///
/// Threads: used by whoever holds the port's lock, beside kernels, with which it shares the block
/// in the order that connection_view.h states. Nothing blocks.
class NetConnection {
 public:
  /// Of one that has `steps` slots, or halves of an inbox.
  NetConnection(weft_net_connection* connection, weft_direction way, std::uint32_t other,
                std::uint32_t steps);

  /// What the net reads or writes messages in.
  struct Messages {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  /// Bytes of the block for such slots, and how it lies in one, which is zeroed where lines are.
  [[nodiscard]] static std::size_t block_bytes(const SlotGeometry& geometry);
  Messages lay_out(std::byte* block, const SlotGeometry& geometry);
  /// The same of messages between inboxes by LL, whose block has LineMessages::bytes_for().
  Messages lay_out_lines(std::byte* block, const InboxHalves& halves);
  /// Payloads may be sent from where they lie, and received where they belong.
  void let_borrow();

  /// What the kernel at this end sees, and the same of steps by lines: not connected where there
  /// are none.
  [[nodiscard]] const ConnectionView& view() const { return view_; }
  [[nodiscard]] ConnectionView line_view() const;

  /// Takes note of an operation. False where it has no room in an inbox.
  [[nodiscard]] bool add(const ProgressOp& operation);

  [[nodiscard]] bool has_more() const { return posted_ < target_; }
  [[nodiscard]] bool is_waiting() const { return done_ < target_; }
  /// Of a sender: whether its next call would have to wait for a slot.
  [[nodiscard]] bool is_full() const { return ready() == done_ + view_.steps; }
  /// Of a sender without lines: whether there are messages that are ready and not handed to the
  /// net.
  [[nodiscard]] bool has_ready() const { return posted_ < ready(); }
  /// And their bytes; nothing where one had better not wait, since its payload is its owner's
  /// still.
  [[nodiscard]] std::optional<std::uint64_t> kept_bytes() const;

  /// Of a sender: the next message, if the kernel has stored all of it. INTERNAL where a kernel
  /// told of more than there is room for. `user` is left to the port.
  [[nodiscard]] Result<std::optional<weft_net_send>> next_send();
  /// Of a receiver: where the next message is to come to, if its slot is free.
  [[nodiscard]] std::optional<weft_net_recv> next_receive();
  /// The net has what next_send() or next_receive() told.
  void pass_on();
  /// The slot of the message that those tell.
  [[nodiscard]] std::uint32_t next_slot() const { return slot_of(posted_); }

  /// Whether the message of this slot is under way.
  [[nodiscard]] bool is_under_way(std::uint32_t slot) const;
  /// Of a receiver: stores what has come for the kernel. False where it cannot be what its sender
  /// says that it is.
  [[nodiscard]] bool take(std::uint32_t slot, const weft_net_completion& completion);
  /// The net is done with this message. Tells the kernel of those that are done in order, and
  /// answers how many more these are.
  std::uint64_t complete(std::uint32_t slot);

  /// How far it has got, for reports: "3 of 7 messages done, 2 under way".
  [[nodiscard]] std::string describe() const;

  weft_net_connection* const net;
  const weft_direction direction;
  const std::uint32_t peer;
  weft_net_registration* registration = nullptr;
  std::uint32_t index = 0;  ///< Among those of its port.
  void* block = nullptr;

 private:
  // Of a receiver whose payloads may land: operations that have steps to be posted, and where those
  // are to come to.
  struct Landing {
    std::uint64_t end = 0;  // the first step behind the operation
    LandingWalk walk;
  };

  [[nodiscard]] std::uint64_t ready() const;
  [[nodiscard]] std::uint64_t freed() const;
  [[nodiscard]] std::uint32_t slot_of(std::uint64_t step) const;
  [[nodiscard]] std::uint64_t step_of(std::uint32_t slot) const;
  [[nodiscard]] bool goes_by_lines(std::uint64_t step) const;
  [[nodiscard]] bool has_begun(std::uint64_t step) const;
  [[nodiscard]] std::byte* slot_data(std::uint64_t step) const;
  LandingWalk::Step step_to_post();
  void forget_posted_landings();

  ConnectionView view_;
  std::uint64_t target_ = 0;      // steps of all operations enqueued so far
  std::uint64_t posted_ = 0;      // handed to the net
  std::uint64_t done_ = 0;        // reported by it, in order
  std::vector<bool> slot_done_;   // reported out of order
  std::vector<bool> slot_lands_;  // stands for a payload that lands

  std::unique_ptr<LineMessages> lines_;    // of inboxes; else null
  std::unique_ptr<LineSteps> line_steps_;  // where steps may go by lines; else null

  std::vector<Landing> landings_;
  std::size_t landing_ = 0;
  std::optional<LandingWalk::Step> next_step_;  // of `posted_`, once it was asked for
};

}  // namespace weft
