// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes as a stranger on a bootstrap port may send them: through the parser in pieces, into every
// decoder as they are, and as the payload of rightly framed messages.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/bootstrap/message.h"
#include "core/bootstrap/unique_id.h"

using namespace weft;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const MessageKey key{};

  MessageParser stranger(key);
  const std::size_t piece = size == 0 ? 1 : 1 + data[0] % 64U;
  for (auto rest = input; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
    stranger.feed(rest.first(std::min(piece, rest.size())));
    while (true) {
      const auto message = stranger.next();
      if (!message || !*message) break;
    }
    if (stranger.buffered() > size) std::abort();
  }

  // What is decoded is written again as it was: nothing is read that the format does not say.
  const auto same = [input](const auto& message) {
    if (message && !std::ranges::equal(message->encode(), input)) std::abort();
  };
  same(HelloMessage::decode(input));
  same(WelcomeMessage::decode(input));
  same(ErrorMessage::decode(input));
  same(RingHelloMessage::decode(input));
  same(GatherBeginMessage::decode(input));
  same(QuestionMessage::decode(input));
  same(LetterMessage::decode(input));
  same(MemberMessage::decode(input));

  if (size <= kMaxControlPayload) {
    std::vector<std::byte> frame;
    append_message(frame, key, MessageType::kHello, input);
    MessageParser friendly(key);
    friendly.feed(frame);
    const auto message = friendly.next();
    if (!message || !*message || !std::ranges::equal((*message)->payload, input)) std::abort();
  }

  if (size >= sizeof(UniqueId)) {
    UniqueId id;
    std::ranges::copy(input.first(sizeof(UniqueId)), id.bytes.begin());
    const auto contents = read_unique_id(id);
    if (contents && contents->roots.empty()) std::abort();
  }
  return 0;
}
