// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/board.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "bench/gpu/basics.h"

namespace weft::gpu_bench {

void copy_text(char* to, size_t size, std::string_view from) {
  const size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

Board* map_board(int file) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) return static_cast<Board*>(memory);
  complain(text("mmap of the board: %s", std::strerror(errno)));
  std::exit(1);
}

}  // namespace weft::gpu_bench
