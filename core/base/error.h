// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a failure is inside the core: a code, who reported it with its native value, what failed,
// what to try, and the chain of what was being done. Host code only (std::expected is C++23).
#pragma once

#include <cstdint>
#include <expected>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/types.h>

namespace weft {

/// Who reported the native value of an Error. That of kPeer is the rank which is to blame: the text
/// names it, so it is not shown once more.
enum class ErrorSource : std::uint8_t { kWeft, kErrno, kCuda, kVerbs, kFabric, kPeer, kPlugin };

/// A failure. A value: copied into the last error of a context, sent to peers as text.
class Error {
 public:
  /// `what` says what failed and with which peer, file or device; `hint` says what to try.
  Error(weft_result code, std::string what, std::string hint = {})
      : code_(code), what_(std::move(what)), hint_(std::move(hint)) {}

  /// A failed system call: `errno_value` is kept as the native value and spelled out in the text.
  /// ENOMEM becomes OUT_OF_MEMORY; EMFILE, ENFILE, EAGAIN and ENOSPC become OUT_OF_RESOURCES;
  /// everything else SYSTEM.
  static Error from_errno(int errno_value, std::string what, std::string hint = {});

  /// Attaches the reporter's own code, which the text then shows.
  Error& with_native(ErrorSource source, std::int64_t native) {
    source_ = source;
    native_ = native;
    return *this;
  }

  /// Adds what was being done when it failed; the latest added is printed first.
  Error& with_context(std::string doing) & {
    chain_.push_back(std::move(doing));
    return *this;
  }
  Error&& with_context(std::string doing) && {
    chain_.push_back(std::move(doing));
    return std::move(*this);
  }

  [[nodiscard]] weft_result code() const { return code_; }
  [[nodiscard]] ErrorSource source() const { return source_; }
  [[nodiscard]] std::int64_t native() const { return native_; }
  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] const std::string& hint() const { return hint_; }
  [[nodiscard]] const std::vector<std::string>& chain() const { return chain_; }

  /// One line: `doing: doing: what (errno 13, Permission denied); try: hint`.
  [[nodiscard]] std::string to_string() const;

 private:
  weft_result code_;
  ErrorSource source_ = ErrorSource::kWeft;
  std::int64_t native_ = 0;
  std::string what_;
  std::string hint_;
  std::vector<std::string> chain_;
};

/// Short enough to need none.
[[nodiscard]] inline Error no_memory() {
  return {WEFT_ERROR_OUT_OF_MEMORY, "out of memory"};
}
/// What `make` answers; where there is no memory for its words, that.
template <typename Make>
[[nodiscard]] Error or_no_memory(Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// The symbolic name of a result code, as documentation spells it: "WEFT_ERROR_TIMEOUT".
[[nodiscard]] std::string_view result_name(weft_result code);

/// One sentence on a result code, for a reader who has nothing else.
[[nodiscard]] std::string_view result_description(weft_result code);

[[nodiscard]] inline std::unexpected<Error> fail(Error error) {
  return std::unexpected<Error>(std::move(error));
}
[[nodiscard]] inline std::unexpected<Error> fail(weft_result code, std::string what,
                                                 std::string hint = {}) {
  return std::unexpected<Error>(Error(code, std::move(what), std::move(hint)));
}

}  // namespace weft

#define WEFT_CONCAT_INNER(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_INNER(a, b)

/// Returns the error of a Status or Result expression from the enclosing function, else goes on.
#define WEFT_TRY(expression) \
  do { \
    if (auto weft_try_result = (expression); !weft_try_result) \
      return std::unexpected<::weft::Error>(std::move(weft_try_result).error()); \
  } while (false)

/// Declares or assigns `target` from a Result expression, or returns its error.
#define WEFT_TRY_ASSIGN(target, expression) \
  auto WEFT_CONCAT(weft_try_, __LINE__) = (expression); \
  if (!WEFT_CONCAT(weft_try_, __LINE__)) \
    return std::unexpected<::weft::Error>(std::move(WEFT_CONCAT(weft_try_, __LINE__)).error()); \
  target = std::move(*WEFT_CONCAT(weft_try_, __LINE__))
