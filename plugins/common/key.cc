// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Keyed hashes (HMAC-SHA-512/256 of libsodium).
#include "plugins/common/key.h"

#include <sodium.h>

namespace weft::plugins {

static_assert(sizeof(Mac) == crypto_auth_hmacsha512256_BYTES);

Key::~Key() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

Mac Key::sign(std::initializer_list<std::span<const std::byte>> parts) const {
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, bytes_.data(), bytes_.size());
  for (const std::span<const std::byte> part : parts) {
    crypto_auth_hmacsha512256_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                                     part.size());
  }
  Mac mac{};
  crypto_auth_hmacsha512256_final(&state, mac.data());
  return mac;
}

bool Key::verify(const Mac& mac, std::initializer_list<std::span<const std::byte>> parts) const {
  return sodium_memcmp(sign(parts).data(), mac.data(), mac.size()) == 0;
}

}  // namespace weft::plugins
