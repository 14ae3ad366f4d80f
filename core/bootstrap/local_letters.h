// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Letters between ranks of one context: they need no socket. Where all ranks of hundreds are in one
// process, and all exchange with all, this is what makes their connections come up in time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/bootstrap/message.h"

namespace weft {

/// Any thread may call any member; nothing blocks.
class LocalLetters {
 public:
  /// Takes a letter, unless it does not want any more. Runs on the thread that brings it, must not
  /// call back here.
  using Taker = std::function<bool(int from, std::vector<std::byte>& text)>;

  /// `rank` of the communicator with that key takes letters here, until the same is stopped.
  void listen(const MessageKey& key, int rank, Taker taker) {
    const std::scoped_lock lock(mutex_);
    takers_.insert_or_assign({key, rank}, std::move(taker));
  }
  /// No letter is brought after this, or being brought.
  void stop(const MessageKey& key, int rank) {
    const std::scoped_lock lock(mutex_);
    takers_.erase({key, rank});
  }
  /// False, with `text` as it was, where `to` does not listen here: it may be in another process,
  /// may not have begun yet or may have left.
  [[nodiscard]] bool bring(const MessageKey& key, int from, int to, std::vector<std::byte>& text) {
    const std::scoped_lock lock(mutex_);
    const auto found = takers_.find({key, to});
    return found != takers_.end() && found->second(from, text);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<MessageKey, int>, Taker> takers_;  // guarded by mutex_
};

}  // namespace weft
