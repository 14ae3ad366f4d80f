// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Libraries that are found when the program runs, so that it starts without them.
#pragma once

#include <dlfcn.h>
#include <memory>
#include <string>

#include "bench/gpu/basics.h"

namespace weft::gpu_bench {

class SharedObject {
 public:
  explicit SharedObject(const std::string& file)
      : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Failure{text("cannot load it: %s", dlerror())};
  }

  /// Null if there is none.
  template <class Function>
  void find(Function*& to, const char* name) const {
    to = reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  template <class Function>
  void get(Function*& to, const char* name) const {
    find(to, name);
    if (to == nullptr) throw Failure{text("has no %s", name)};
  }

 private:
  void* handle_;  // For the life of the process.
};

/// A T that could be made, or why not.
template <class T>
class Loaded {
 public:
  template <class... Arguments>
  explicit Loaded(const Arguments&... arguments) {
    try {
      value_ = std::make_unique<T>(arguments...);
    } catch (const Failure& failure) {
      failure_ = failure.what;
    }
  }
  [[nodiscard]] const T& get() const {
    if (value_ == nullptr) throw Failure{failure_};
    return *value_;
  }
  [[nodiscard]] const T* find() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  std::string failure_;
};

}  // namespace weft::gpu_bench
