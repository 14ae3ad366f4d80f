// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/document.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

using nlohmann::json;

// Reads along without keeping anything, and stops where the nesting becomes too deep.
class DepthGuard : public nlohmann::json_sax<json> {
 public:
  [[nodiscard]] bool too_deep() const { return too_deep_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(json::number_integer_t /*value*/) override { return true; }
  bool number_unsigned(json::number_unsigned_t /*value*/) override { return true; }
  bool number_float(json::number_float_t /*value*/, const std::string& /*text*/) override {
    return true;
  }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(json::binary_t& /*value*/) override { return true; }
  bool key(std::string& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return enter(); }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  // Malformed input: the second reading says what is wrong with it.
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const json::exception& /*error*/) override {
    return false;
  }

 private:
  bool enter() {
    too_deep_ = ++depth_ > kDeepestDocument;
    return !too_deep_;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  bool too_deep_ = false;
};

}  // namespace

std::vector<std::byte> encode_document(const json& document) {
  const std::vector<std::uint8_t> packed = json::to_msgpack(document);
  std::vector<std::byte> bytes(packed.size());
  std::memcpy(bytes.data(), packed.data(), packed.size());
  return bytes;
}

json decode_document(std::span<const std::byte> bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto* last = first + bytes.size();
  DepthGuard guard;
  if (!json::sax_parse(first, last, &guard, json::input_format_t::msgpack) && guard.too_deep()) {
    throw std::invalid_argument("it is nested too deep");
  }
  return json::from_msgpack(first, last);
}

}  // namespace weft
