// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of ranks that joined without blocking, where ranks must be connected first.
#pragma once

#include <span>

#include "core/base/error.h"
#include "core/comm/start.h"

namespace weft {

/// Lets a thread of the first call's rank start `calls`, all of which have a background, and
/// answers WEFT_IN_PROGRESS. Until they are started their ranks and streams are held: Member::query
/// tells IN_PROGRESS, Stream::synchronize waits. If they cannot be, all their communicators fail
/// with the reason: other ranks may wait for those calls, and the caller was told that they go on.
/// Errors, with nothing started: OUT_OF_RESOURCES or OUT_OF_MEMORY (no thread), what
/// Communicator::check_call answers.
Result<weft_result> start_later(std::span<const Call> calls);

}  // namespace weft
