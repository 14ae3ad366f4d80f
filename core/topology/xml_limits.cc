// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/xml_limits.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace weft {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

/// Goes through the text once, from mark to mark.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Status run() {
    while (true) {
      at_ = text_.find('<', at_);
      if (at_ == std::string_view::npos) break;
      WEFT_TRY(mark());
    }
    at_ = text_.size();
    if (elements_ == 0) return refuse("holds no element");
    if (!open_.empty()) return refuse(fmt::format("ends before <{}> is closed", open_.back()));
    return {};
  }

 private:
  Status mark() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("<?xml ") || rest.starts_with("<!DOCTYPE ")) return header();
    if (rest.starts_with("<?") || rest.starts_with("<!")) {
      return refuse("holds something else than elements");
    }
    if (rest.starts_with("</")) return closing();
    return element();
  }

  /// The two lines that every file begins with. An internal subset, in brackets, could define
  /// entities.
  Status header() {
    const std::size_t end = text_.find('>', at_);
    if (elements_ != 0) return refuse("has a header in the middle");
    if (end == std::string_view::npos) return refuse("ends within its header");
    const std::string_view header = text_.substr(at_ + 1, end - at_ - 1);
    if (header.contains('[')) return refuse("declares things of its own");
    if (header.contains('<')) return refuse("has a header that is not ended");
    at_ = end + 1;
    return {};
  }

  Status closing() {
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) return refuse("ends within an element");
    const std::string_view name = text_.substr(at_ + 2, end - at_ - 2);
    if (open_.empty() || open_.back() != name) return refuse("closes an element that is not open");
    open_.pop_back();
    at_ = end + 1;
    return {};
  }

  Status element() {
    const std::size_t name_at = at_ + 1;
    std::size_t end = name_at;
    while (end < text_.size() && is_name(text_[end]))
      ++end;
    const std::string_view name = text_.substr(name_at, end - name_at);
    if (name.empty()) return refuse("holds an element without a name");
    if (++elements_ > kMaxXmlElements) {
      return refuse(fmt::format("holds more than {} elements", kMaxXmlElements));
    }
    if (open_.empty() && elements_ > 1) return refuse("holds a second outermost element");
    bool quoted = false;
    for (; end < text_.size() && (quoted || text_[end] != '>'); ++end) {
      if (text_[end] == '"') quoted = !quoted;
      if (text_[end] == '<' || (!quoted && text_[end] == '\'')) {
        return refuse(fmt::format("holds a <{}> that is not ended", name));
      }
    }
    if (end == text_.size()) return refuse("ends within an element");
    if (text_[end - 1] != '/') open_.push_back(name);
    if (open_.size() > kMaxXmlDepth) {
      return refuse(fmt::format("is nested deeper than {} elements", kMaxXmlDepth));
    }
    at_ = end + 1;
    return {};
  }

  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  Status refuse(std::string_view why) const {
    const auto lines = std::ranges::count(text_.substr(0, at_), '\n');
    return fail(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("line {}: the file {}", lines + 1, why),
                "take a file that weft topo --export or lstopo wrote");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
  std::vector<std::string_view> open_;
};

}  // namespace

Status check_xml(std::string_view text) {
  if (text.size() > kMaxXmlBytes) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("{} bytes, {} are allowed", text.size(), kMaxXmlBytes));
  }
  if (text.contains('\0')) return fail(WEFT_ERROR_INVALID_ARGUMENT, "the file holds zero bytes");
  return Scanner(text).run();
}

}  // namespace weft
