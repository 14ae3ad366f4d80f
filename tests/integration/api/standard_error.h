// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What this process writes to its standard error, for tests of reports that nobody answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <unistd.h>

namespace weft::test {

/// What this process writes to its standard error, until this is destroyed.
class StandardError {
 public:
  StandardError() : file_(std::tmpfile()), saved_(dup(STDERR_FILENO)) {
    dup2(fileno(file_), STDERR_FILENO);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;
  ~StandardError() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    std::fclose(file_);  // NOLINT(cert-err33-c): a scratch file
  }
  [[nodiscard]] std::size_t count(const std::string& text) const {
    std::string all(1 << 16, '\0');
    const ssize_t size = pread(fileno(file_), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    std::size_t found = 0;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
      ++found;
    return found;
  }

 private:
  std::FILE* file_;
  int saved_;
};

}  // namespace weft::test
