// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a bootstrap is told by its communicator: deadlines, interfaces, and how this host is called.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class LocalLetters;

struct BootstrapOptions {
  /// How long a join, and each all-gather, may take; 0 is without limit.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// Whoever waits longer than this writes once what it waits for, though no deadline is set.
  std::optional<std::chrono::nanoseconds> report_after;
  /// Interfaces to listen on (see interfaces.h); empty for the default.
  std::vector<std::string> interfaces;
  /// How this host is called in messages to people.
  std::string host_label;
  /// A descriptor that becomes readable when a join, or an all-gather after it, is to be given up
  /// (ABORTED); -1 for none. Not owned, not read; outlives the membership.
  int cancel_fd = -1;
  /// Where ranks of this context find each other; null for none. Outlives the membership.
  LocalLetters* local_letters = nullptr;
};

}  // namespace weft
