// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank's membership in a communicator, over TCP: an all-gather for what ranks must tell one
// another while they set up, and a watch that names the rank that died. Never payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/bootstrap/failure_watch.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/options.h"
#include "core/bootstrap/root.h"
#include "core/bootstrap/unique_id.h"

namespace weft {

/// What a letter is about: each subject has a reader of its own.
enum class LetterSubject : std::uint8_t {
  kPairs = 0,    ///< Connections of two ranks.
  kOutputs = 1,  ///< Memory that others map.
};
inline constexpr std::size_t kLetterSubjects = 2;
/// What a letter of any subject may say.
inline constexpr std::size_t kMostLetterText = kMaxLetterBytes - 1;

/// Threads: all_gather and barrier by one thread at a time; everything else by any. The reactor and
/// the logger outlive it. Destroyed without leave(), it is dead to the others. Not to be destroyed
/// by a callback of the reactor.
class Bootstrap {
 public:
  /// Blocks until all `nranks` ranks have come and are connected, or fails on all of them with the
  /// same text. An only rank needs neither root nor network.
  static Result<std::unique_ptr<Bootstrap>> join(const UniqueId& id, int rank, int nranks,
                                                 const BootstrapOptions& options, Reactor& reactor,
                                                 Logger& log);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// Everyone's block, by rank; blocks may differ in size, 64 MiB all together. Blocks until all
  /// ranks called it with the same `what`, which errors name ("transport blobs"). After an error
  /// the membership has failed: the others are told, and every later call answers the first
  /// failure.
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine,
                                                         std::string_view what);
  Status barrier(std::string_view what);

  /// `callback` is called once, on the reactor's thread, when another rank died or failed; also
  /// when that happened before. The error's source is kPeer, its native value the rank. Not called
  /// for failures of this rank itself, nor after leave().
  void on_failure(std::function<void(const Error&)> callback);
  /// See FailureWatch.
  void on_question(std::function<void(const Question&)> callback);
  void ask(std::span<const std::byte> question);
  void on_round(std::function<void(const RoundText&)> callback);
  bool hand_on(std::size_t side, int asker, std::span<const std::byte> text);
  /// See Letters. Nothing for an only rank. Letters wait until the reader of kPairs is set, which
  /// comes last: those of a subject that has no reader by then are dropped.
  void on_letter(LetterSubject subject,
                 std::function<void(int from, std::vector<std::byte> text)> callback);
  /// Of any subject.
  void on_undelivered(std::function<void(int to, const Error& why)> callback);
  /// At most kMostLetterText.
  void post(int to, LetterSubject subject, std::vector<std::byte> text);
  /// On the reactor's thread alone: see Letters::brings.
  [[nodiscard]] bool brings_letters(int to) const;
  [[nodiscard]] std::vector<Departure> departed_neighbours() const;
  /// Tells every other rank that this rank's communicator failed. They get the text, and as code
  /// PEER (MISMATCH stays MISMATCH). Nothing if there was a failure before.
  void announce_failure(const Error& error);
  /// Wakes a blocked all_gather of this rank with `error`, which later calls answer too. Others are
  /// not told.
  void interrupt(const Error& error);
  /// An orderly goodbye: closing this rank's sockets is no failure to others from now on, and
  /// nothing that others do is one here. The neighbours get the last words. No letters come or go
  /// any more. Not from a callback of letters.
  void leave(std::span<const std::byte> last_words = {});

  /// The first failure, if any.
  [[nodiscard]] std::optional<Error> failure() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] int nranks() const;
  /// Who `rank` is; valid as long as this.
  [[nodiscard]] const PeerIdentity& peer(int rank) const;

 private:
  struct State;
  explicit Bootstrap(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
