// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What results are compared with: reductions of the same inputs on the host device.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/gpu/call.h"

namespace weft::gpu_test {

/// What the host device's all-reduce makes of these inputs, each of any number of elements, by the
/// type and the reduction of the call; a pre-multiplied sum's factors are those.
Bytes reduced_by_host(const Call& call, const std::vector<Bytes>& inputs,
                      const std::vector<Bytes>& factors = {});
/// Before the context ends.
void forget_references();

/// `action(i)` for i below `count`, each on a thread of its own; throws what one of them threw.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& action);

}  // namespace weft::gpu_test
