// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>
#include <sodium.h>

#include <fmt/format.h>

namespace weft {
namespace {

// Layout: magic 4, version 1, address count 1, zero 2, secret 32, addresses of 19 bytes each
// (family 1, port 2 big-endian, address 16), zeros.
constexpr std::array<std::byte, 4> kIdMagic{std::byte{'W'}, std::byte{'F'}, std::byte{'I'},
                                            std::byte{'D'}};
constexpr std::byte kVersion{1};
constexpr std::size_t kSecretOffset = 8;
constexpr std::size_t kAddressOffset = 40;
constexpr std::size_t kAddressBytes = 19;
static_assert(kAddressOffset + kMaxRootAddresses * kAddressBytes <= sizeof(UniqueId));

Status start_sodium() {
  if (sodium_init() < 0) {
    return fail(WEFT_ERROR_SYSTEM, "libsodium found no source of random numbers",
                "make /dev/urandom or getrandom(2) available");
  }
  return {};
}

}  // namespace

UniqueId make_unique_id(const UniqueIdContents& contents) {
  UniqueId id;
  const std::size_t count = std::min(contents.roots.size(), kMaxRootAddresses);
  std::ranges::copy(kIdMagic, id.bytes.begin());
  id.bytes[4] = kVersion;
  id.bytes[5] = static_cast<std::byte>(count);
  std::ranges::copy(contents.secret, id.bytes.begin() + kSecretOffset);
  for (std::size_t i = 0; i < count; ++i) {
    const SocketAddress& root = contents.roots[i];
    std::byte* at = id.bytes.data() + kAddressOffset + i * kAddressBytes;
    at[0] = static_cast<std::byte>(root.family);
    at[1] = static_cast<std::byte>(root.port >> 8U);
    at[2] = static_cast<std::byte>(root.port & 0xffU);
    std::ranges::copy(root.bytes, at + 3);
  }
  return id;
}

Result<UniqueIdContents> read_unique_id(const UniqueId& id) {
  const auto reject = [](std::string_view why) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("this is no unique id: {}", why),
                "pass the 128 bytes of weft_get_unique_id unchanged to every rank");
  };
  if (!std::equal(kIdMagic.begin(), kIdMagic.end(), id.bytes.begin())) {
    return reject("it does not begin as one");
  }
  if (id.bytes[4] != kVersion) {
    return fail(WEFT_ERROR_UNSUPPORTED,
                fmt::format("the unique id has version {}, this library knows version {}",
                            std::to_integer<int>(id.bytes[4]), std::to_integer<int>(kVersion)),
                "use the same version of weft on every host");
  }
  const auto count = std::to_integer<std::size_t>(id.bytes[5]);
  if (count == 0 || count > kMaxRootAddresses) return reject("its number of addresses is wrong");
  UniqueIdContents contents;
  std::copy_n(id.bytes.begin() + kSecretOffset, contents.secret.size(), contents.secret.begin());
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = id.bytes.data() + kAddressOffset + i * kAddressBytes;
    const auto family = std::to_integer<unsigned>(at[0]);
    if (family != 4 && family != 6) return reject("an address in it is of no known family");
    SocketAddress root;
    root.family = static_cast<SocketAddress::Family>(family);
    root.port = static_cast<std::uint16_t>(std::to_integer<unsigned>(at[1]) << 8U |
                                           std::to_integer<unsigned>(at[2]));
    if (root.port == 0) return reject("an address in it has no port");
    std::copy_n(at + 3, root.bytes.size(), root.bytes.begin());
    contents.roots.push_back(root);
  }
  return contents;
}

Result<Secret> random_secret() {
  WEFT_TRY(start_sodium());
  Secret secret;
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

Result<Secret> derive_secret(const Secret& secret, std::string_view purpose, std::uint64_t number) {
  WEFT_TRY(start_sodium());
  std::array<unsigned char, 8> counter{};
  for (unsigned i = 0; i < counter.size(); ++i) {
    counter[i] = static_cast<unsigned char>(number >> (8U * i));
  }
  crypto_generichash_state state;
  Secret derived;
  crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(secret.data()),
                          secret.size(), derived.size());
  crypto_generichash_update(&state, counter.data(), counter.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(purpose.data()),
                            purpose.size());
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(derived.data()),
                           derived.size());
  return derived;
}

}  // namespace weft
