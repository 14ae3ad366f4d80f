// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The fixture as a C++ plugin that lets an exception out of its init.
#include <stdexcept>

#define FIXTURE_INIT_THROWS throw std::runtime_error("no license found")
#include "fixture_plugin.c"
