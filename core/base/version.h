// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which Weft this is.
#pragma once

namespace weft {

/// "0.1.0": what peers, plugins and people are told; static.
[[nodiscard]] const char* version_text();

}  // namespace weft
