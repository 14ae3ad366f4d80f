// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Outputs of a rank that ranks of other processes write to: memory that its program mapped and said
// it may be exported, and that nobody registered.
//
// Who knows what. The owner of memory alone knows what lies at an address now: its driver has a
// number for each piece, which is never used again. The others know what they have mapped. So it is
// the owner that offers an output in a call, and only a place in a *mapping*, a stretch of pieces
// that every other rank has said to have mapped; an offer is a number of that mapping, its
// generation and an offset, never an address. In each call the owner asks for the numbers anew:
// pieces that were freed, or made anew at the same addresses, are other pieces, and nothing is
// offered there. All ranks see all offers and branch alike (core/device/output_agreement.h).
//
// Order of a mapping, each step by a letter (core/comm/output_letters.h) but the offers:
//  1. An output lies in none: its owner wants one. The call goes by slots, and waits for nothing.
//  2. In the background the owner finds the pieces, exports them and tells all others where they
//     are (kShared). Where too many descriptors are open for others already, it waits with that.
//  3. Each maps them, writes its OutputMap, and answers (kTaken), or answers why it cannot.
//  4. When all have mapped it the owner closes its descriptors, and may offer places there.
//  5. A piece is gone, or room is needed for another mapping: the owner offers it no more, and when
//     its last call that offered it has ended well (OutputCall::ended), writes so (kRevoked). As
//     every rank that writes into its output was waited for, nobody does any more.
//  6. Each other rank clears its OutputMap, waits until its own kernels that may have read it have
//     ended, unmaps, and answers (kReturned). It need not trust the owner for that.
//  7. When all have, the number is free for the next generation.
// Where one cannot map it, 4 is left out; the owner remembers the pieces, so that it does not ask
// again, and calls go by slots. If all that cannot say that the reason may pass, it asks again
// after a while.
//
// Letters can be lost, where a process has no descriptors for a moment. So the owner writes again
// to those whose answer to kShared or kRevoked does not come, and who is asked again answers again.
// Letters of a rank come in the order in which it wrote them.
//
// Each rank bounds what it shares, and the others what they map of it: the same number on all.
// Once calls have ended badly nothing changes any more: kernels of others may still write.
// What is mapped goes with this object.
//
// A captured call is replayed by a device that asks nobody, while its program may have mapped other
// memory at the same addresses: it offers nothing.
//
// Model: tests/models/output_mappings.pml
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/foreign_fd.h"
#include "core/base/fork_closed.h"
#include "core/base/log.h"
#include "core/comm/output_letters.h"
#include "core/model/output_table.h"

namespace weft {

/// What a rank's mappings need of its communicator; all of it outlives them.
struct OutputSurroundings {
  DeviceRuntime& runtime;
  Logger& log;
  std::uint32_t rank = 0;
  std::vector<std::uint64_t> pids{};  ///< Of the ranks, in order.
  std::uint64_t most_bytes = 0;       ///< That each rank shares at a time; alike on all.
  OutputMap* map = nullptr;           ///< This rank's, empty.
  std::uint64_t* ended = nullptr;     ///< OutputCall::ended
  std::function<void(std::uint32_t to, std::vector<std::byte> letter)> post{};
  /// Whether letters to a rank are still on their way. Called by work() alone.
  std::function<bool(std::uint32_t to)> brings{};
  /// Has work() called soon. Any thread; does not block.
  std::function<void()> wake{};
  /// Whether calls have ended badly, as far as kernels have reported.
  std::function<bool()> has_failed{};
  /// How long answers have been awaited is told by this.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// Threads: offer and number_call by the one that makes the calls; work and take by the reactor's;
/// the rest by any. None waits for another rank, nor offer and number_call for the driver.
class OutputMappings {
 public:
  explicit OutputMappings(OutputSurroundings surroundings, ProcessWitness witness);
  /// No kernel of this rank runs any more.
  ~OutputMappings();
  OutputMappings(const OutputMappings&) = delete;
  OutputMappings& operator=(const OutputMappings&) = delete;

  /// What this rank offers of an output in the call that it makes now: 0 where not all others have
  /// it mapped, and then it is wanted.
  [[nodiscard]] std::uint64_t offer(const void* begin, std::uint64_t bytes);
  /// OutputCall::number of that call, which offers something.
  [[nodiscard]] std::uint64_t number_call();

  /// Does what is due: now and then, and when woken. What there is no memory for it tries again the
  /// next time.
  void work();
  /// A letter of another rank.
  void take(std::uint32_t from, std::span<const std::byte> text);

  /// Bytes of this rank that others have mapped, or are about to; of others that this one has.
  [[nodiscard]] std::uint64_t bytes_shared() const;
  [[nodiscard]] std::uint64_t bytes_mapped() const;
  /// Why the output that was wanted last is not shared; empty where it is.
  [[nodiscard]] std::string last_refusal() const;

 private:
  enum class State : std::uint8_t {
    kFree,
    kWanted,   ///< By the calling thread; all else is done by work() and take().
    kShared,   ///< Not yet taken by all.
    kMapped,   ///< By all.
    kRevoked,  ///< Not yet returned by all.
    kRefused,  ///< Nobody has it; kept so that it is not wanted again and again.
  };
  /// Which outputs a mapping stands for.
  enum class Scope : std::uint8_t {
    kWithin,    ///< All that lie in it.
    kTouching,  ///< Refused: all that have a part in it.
    kSame,      ///< Refused: that one.
  };
  struct Mapping {
    State state = State::kFree;
    std::uint32_t generation = 0;
    Scope scope = Scope::kWithin;
    const std::byte* begin = nullptr;  ///< Of what is wanted, then of all pieces.
    const std::byte* end = nullptr;
    std::vector<MemoryPiece> pieces;
    std::vector<ForkClosedFd> descriptors;  ///< While others copy them.
    std::uint32_t awaited = 0;              ///< A bit for each rank whose answer has not come.
    std::chrono::steady_clock::time_point asked;  ///< Those ranks, the last time,
    std::chrono::nanoseconds patience{};          ///< and how long after that again.
    std::uint64_t last_number = 0;                ///< Of the calls that offered it.
    std::uint64_t last_look = 0;                  ///< Which of all offers asked for it last.
    bool is_gone = false;                         ///< Some piece of it.
    bool may_be_wanted_again = false;             ///< Though refused: after a while.
    std::string refusal;
    [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(end - begin); }
    [[nodiscard]] bool stands_for(const std::byte* from, const std::byte* to) const;
  };
  /// What this rank has mapped of another one.
  struct Import {
    std::uint32_t generation = 0;
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    bool is_revoked = false;
    std::uint64_t until = 0;  ///< Once revoked: the last call of this rank that may write there.
  };
  using ImportName = std::pair<std::uint32_t, std::uint32_t>;  // owner, mapping

  [[nodiscard]] bool is_there(const Mapping& mapping, const std::byte* begin,
                              const std::byte* end) const;
  void want(const std::byte* begin, const std::byte* end);
  [[nodiscard]] std::uint32_t oldest_idle(std::uint64_t ended, std::uint64_t looks) const;
  [[nodiscard]] std::uint64_t ended() const;
  void move();
  void look_after_own(std::uint64_t ended);
  void free_number(std::uint64_t ended);
  void ask_again();
  void share_wanted(std::uint64_t ended);
  [[nodiscard]] bool may_export(std::size_t pieces) const;
  bool make_room(std::uint64_t bytes, std::uint64_t ended);
  [[nodiscard]] Status find_pieces(Mapping& wanted) const;
  [[nodiscard]] Status export_pieces(Mapping& found) const;
  void share(std::uint32_t number);
  void revoke(std::uint32_t number);
  void ask(std::uint32_t number, bool again = false);
  void refuse(Mapping& mapping, std::string why, bool may_be_wanted_again);
  void take_answer(std::uint32_t from, const OutputLetter& letter);
  void take_shared(std::uint32_t from, const OutputLetter& letter);
  void take_revoked(std::uint32_t from, const OutputLetter& letter);
  [[nodiscard]] Status map_shared(std::uint32_t from, const OutputLetter& letter);
  void return_revoked(std::uint64_t ended);
  void say_once(const std::string& why);
  void post(std::uint32_t to, const OutputLetter& letter) const {
    around_.post(to, encode_output_letter(letter));
  }
  [[nodiscard]] std::uint32_t others() const;

  const OutputSurroundings around_;
  const ProcessWitness witness_;

  mutable std::mutex mutex_;
  std::array<Mapping, kMostMappings> mappings_;  // guarded by mutex_, as all down to imports_
  std::uint64_t calls_ = 0;                      // that gave a number
  std::uint64_t looks_ = 0;
  bool needs_number_ = false;  // for what is wanted all are in use
  std::uint64_t bytes_mapped_ = 0;
  std::string last_refusal_;
  // The reactor's thread alone.
  std::map<ImportName, Import> imports_;
  std::set<std::string> said_;
};

}  // namespace weft
