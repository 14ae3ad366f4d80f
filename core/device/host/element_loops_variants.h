// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tables of all compiled variants; only those that the build could compile exist.
#pragma once

#include "core/device/host/element_loops.h"

namespace weft::device {

extern const ElementLoops kLoopsBaseline;
extern const ElementLoops kLoopsAvx2;
extern const ElementLoops kLoopsAvx512;

}  // namespace weft::device
