// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/origin.h"

#include <fmt/format.h>

namespace weft {

std::string Origin::to_string() const {
  switch (kind) {
    case OriginKind::kDefault:
      return "default";
    case OriginKind::kFile:
      return fmt::format("{}:{}:{}", name, line, column);
    case OriginKind::kEnvironment:
      return name;
    case OriginKind::kCommunicator:
      return "communicator";
  }
  return "unknown";
}

}  // namespace weft
