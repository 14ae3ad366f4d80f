// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Changes the library that rank_program.cc is linked with, by the linker's --wrap, as the variable
// CHANGED says: a rank of another version of Weft, or one to which something happens just when it
// connects. The real library knows nothing of it.

#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "core/bootstrap/message.h"
#include "core/comm/hello.h"
#include "core/comm/tuner.h"
#include "core/plugin/transport_plugin.h"
#include "core/topology/codec.h"
#include "core/transport/document.h"
#include "core/transport/offer_codec.h"

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;
using nlohmann::json;

bool changed(std::string_view what) {
  const char* value = std::getenv("CHANGED");
  return value != nullptr && what == value;
}

Bytes garbage() {
  return Bytes(5, std::byte{0xc1});  // never the beginning of a document
}

/// Unix sockets of this process at which it listens.
std::vector<int> listeners() {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    int domain = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
        fcntl(fd, F_GETFL) >= 0) {
      found.push_back(fd);
    }
  }
  return found;
}

// A child by the bare system call keeps all descriptors: to the other ranks this one seems alive.
[[noreturn]] void end_behind_a_child() {
  if (syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
    for (;;)
      pause();
  }
  _exit(1);
}

[[noreturn]] void stay_without_listeners() {
  for (const int fd : listeners())
    close(fd);
  for (;;)
    pause();
}

[[noreturn]] void turn_everyone_away() {
  const std::vector<int> all = listeners();
  for (;;) {
    for (const int fd : all) {
      const int taken = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (taken >= 0) close(taken);
    }
    usleep(100);
  }
}

// Pairs are connected by the reactor's thread. One that is up is held back for as long as a rank
// waits before it suspects something, and then some.
bool is_held_back() {
  constexpr int kLooks = 3000;  // a millisecond each
  static int looks = 0;
  return gettid() != getpid() && ++looks < kLooks;
}

// The same thread has yet to bring the other rank its answer.
bool is_answering() {
  constexpr int kLooks = 100;
  static int looks = 0;
  return ++looks < kLooks;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
Bytes real_hello(const HelloMessage* self) asm("__real__ZNK4weft12HelloMessage6encodeEv");
Bytes changed_hello(const HelloMessage* self) asm("__wrap__ZNK4weft12HelloMessage6encodeEv");
Bytes real_member(const MemberMessage* self) asm("__real__ZNK4weft13MemberMessage6encodeEv");
Bytes changed_member(const MemberMessage* self) asm("__wrap__ZNK4weft13MemberMessage6encodeEv");
const char* real_version() asm("__real__ZN4weft12version_textEv");
const char* changed_version() asm("__wrap__ZN4weft12version_textEv");
Bytes real_greeting(const Hello& hello) asm("__real__ZN4weft12encode_helloERKNS_5HelloE");
Bytes changed_greeting(const Hello& hello) asm("__wrap__ZN4weft12encode_helloERKNS_5HelloE");
Bytes real_offers(std::span<const TravellingOffer> offers) asm(
    "__real__ZN4weft13encode_offersESt4spanIKNS_15TravellingOfferELm18446744073709551615EE");
Bytes changed_offers(std::span<const TravellingOffer> offers) asm(
    "__wrap__ZN4weft13encode_offersESt4spanIKNS_15TravellingOfferELm18446744073709551615EE");
Bytes real_notice(const TunerNotice& notice) asm(
    "__real__ZN4weft13encode_noticeERKNS_11TunerNoticeE");
Bytes changed_notice(const TunerNotice& notice) asm(
    "__wrap__ZN4weft13encode_noticeERKNS_11TunerNoticeE");
Result<bool>
real_connect(const TransportPlugin* self, weft_transport* transport, std::span<weft_connection* const> connections, std::span<const weft_blob> blobs) asm(
    "__real__ZNK4weft15TransportPlugin7connectEP14weft_transport"
    "St4spanIKP15weft_connectionLm18446744073709551615EES3_IK9weft_blobLm18446744073709551615EE");
Result<bool>
changed_connect(const TransportPlugin* self, weft_transport* transport, std::span<weft_connection* const> connections, std::span<const weft_blob> blobs) asm(
    "__wrap__ZNK4weft15TransportPlugin7connectEP14weft_transport"
    "St4spanIKP15weft_connectionLm18446744073709551615EES3_IK9weft_blobLm18446744073709551615EE");
// NOLINTEND(readability-identifier-naming)

Bytes changed_hello(const HelloMessage* self) {
  HelloMessage hello = *self;
  if (changed("protocol")) ++hello.protocol;
  return real_hello(&hello);
}

Bytes changed_member(const MemberMessage* self) {
  return changed("identity") ? garbage() : real_member(self);
}

const char* changed_version() {
  return changed("version") ? "99.0.0" : real_version();
}

Bytes changed_greeting(const Hello& hello) {
  if (changed("greeting")) return garbage();
  if (changed("greeting-groups")) {
    return encode_document(json::array({hello.version, "", json::binary({}), -1, 8, 0}));
  }
  Hello other = hello;
  if (changed("machine")) {
    auto report = decode_report(hello.report);
    if (report) {
      report->host.cores += 1;
      auto bytes = encode_report(*report);
      if (bytes) other.report = std::move(*bytes);
    }
  }
  if (changed("greeting-long")) other.version = std::string((64 << 10) + 1, '0');
  return real_greeting(other);
}

Bytes changed_offers(std::span<const TravellingOffer> offers) {
  return changed("offers") ? garbage() : real_offers(offers);
}

Bytes changed_notice(const TunerNotice& notice) {
  if (changed("notice")) return garbage();
  TunerNotice other = notice;
  if (changed("notice-long")) other.plugin = std::string((4 << 10) + 1, 'x');
  return real_notice(other);
}

Result<bool> changed_connect(const TransportPlugin* self, weft_transport* transport,
                             std::span<weft_connection* const> connections,
                             std::span<const weft_blob> blobs) {
  const bool goes_away =
      changed("ends-connecting") || changed("closes-connecting") || changed("refuses-connecting");
  if (goes_away && is_answering()) return false;
  if (changed("ends-connecting")) end_behind_a_child();
  if (changed("closes-connecting")) stay_without_listeners();
  if (changed("refuses-connecting")) turn_everyone_away();
  auto connected = real_connect(self, transport, connections, blobs);
  if (connected && *connected && changed("held-pairs") && is_held_back()) return false;
  return connected;
}

}  // namespace weft::test
