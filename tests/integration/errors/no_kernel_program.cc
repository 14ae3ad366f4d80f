// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call on a communicator whose device has no kernel for it, as GPUs have none for some; writes
// what it was answered, as misuse_program.cc does.

#include <cstdio>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "tests/support/memory_runtime.h"

int main() {
  weft::test::MemoryRuntime runtime;
  const auto context = weft::Context::create("", weft::capture_environment());
  if (!context) return 2;
  const weft::Config& config = (*context)->config();
  const auto id = (*context)->serve_rendezvous(config);
  if (!id) return 2;
  const auto joined = weft::Communicator::join(**context, config, *id, 0, 1, runtime);
  if (!joined) return 2;
  const weft::Status checked =
      (*joined)->check_task({.operation = weft::Operation::kAllReduce, .count = 8});
  if (checked) return 2;
  std::printf("call: error %s %s\n", weft::result_name(checked.error().code()).data(),
              checked.error().to_string().c_str());
  return 0;
}
