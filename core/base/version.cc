// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/version.h"

namespace weft {

const char* version_text() {
  return WEFT_VERSION_TEXT;
}

}  // namespace weft
