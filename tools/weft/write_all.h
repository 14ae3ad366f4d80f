// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes into a descriptor, all of them.
#pragma once

#include <string_view>

namespace weft::tool {

/// Answers 0, or the errno that says why not all of it was written, as of a disk that is almost
/// full. Waits for a reader where the descriptor does not block.
[[nodiscard]] int write_all(int fd, std::string_view bytes);

}  // namespace weft::tool
