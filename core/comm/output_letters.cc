// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/output_letters.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/device_runtime.h"
#include "core/model/output_table.h"
#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kMostText = 512;

std::uint64_t number(const json& value, std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("not a whole number");
  const auto found = value.get<std::uint64_t>();
  if (found < least || found > most) throw std::invalid_argument("a number out of bounds");
  return found;
}

std::vector<SharedPiece> pieces_of(const json& list) {
  if (!list.is_array() || list.empty() || list.size() > kMostSharedPieces) {
    throw std::invalid_argument("not a list of pieces");
  }
  std::vector<SharedPiece> pieces;
  for (const json& item : list) {
    const SharedPiece piece{
        .descriptor = static_cast<std::uint32_t>(number(item.at(0), 0, INT32_MAX)),
        .bytes = number(item.at(1), 1, kMostOutputBytes)};
    if (piece.bytes % kExportGrain != 0) throw std::invalid_argument("a part of a piece");
    pieces.push_back(piece);
  }
  return pieces;
}

std::string text_of(const json& value) {
  auto text = value.get<std::string>();
  if (text.size() > kMostText) throw std::invalid_argument("a text is too long");
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return text;
}

}  // namespace

std::vector<std::byte> encode_output_letter(const OutputLetter& letter) {
  json document =
      json::array({static_cast<std::uint8_t>(letter.kind), letter.mapping, letter.generation});
  if (letter.kind == OutputLetter::Kind::kShared) {
    std::vector<std::uint8_t> witness(letter.witness_bytes.size());
    std::memcpy(witness.data(), letter.witness_bytes.data(), witness.size());
    json pieces = json::array();
    for (const SharedPiece& piece : letter.pieces)
      pieces.push_back(json::array({piece.descriptor, piece.bytes}));
    document.insert(document.end(), {json(letter.pid), json(letter.witness),
                                     json::binary(std::move(witness)), std::move(pieces)});
  }
  if (letter.kind == OutputLetter::Kind::kTaken) {
    document.push_back(letter.refusal.substr(0, kMostText));
    document.push_back(letter.may_pass);
  }
  return encode_document(document);
}

Result<OutputLetter> decode_output_letter(std::span<const std::byte> bytes) {
  try {
    const json document = decode_document(bytes);
    OutputLetter letter;
    const auto last = static_cast<std::uint64_t>(OutputLetter::Kind::kReturned);
    letter.kind = static_cast<OutputLetter::Kind>(number(document.at(0), 0, last));
    letter.mapping = static_cast<std::uint32_t>(number(document.at(1), 0, kMostMappings - 1));
    letter.generation = static_cast<std::uint32_t>(number(document.at(2), 1, kMostGeneration));
    if (letter.kind == OutputLetter::Kind::kShared) {
      letter.pid = number(document.at(3), 1, INT32_MAX);
      letter.witness = static_cast<std::uint32_t>(number(document.at(4), 0, INT32_MAX));
      const auto& witness = document.at(5).get_binary();
      if (witness.size() != letter.witness_bytes.size()) {
        throw std::invalid_argument("no witness");
      }
      std::memcpy(letter.witness_bytes.data(), witness.data(), witness.size());
      letter.pieces = pieces_of(document.at(6));
    }
    if (letter.kind == OutputLetter::Kind::kTaken) {
      letter.refusal = text_of(document.at(3));
      letter.may_pass = document.at(4).get<bool>();
    }
    return letter;
  } catch (const std::exception& problem) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("a peer wrote a letter about outputs that is none: {}", problem.what()),
                "run the same version of weft on every rank");
  }
}

}  // namespace weft
