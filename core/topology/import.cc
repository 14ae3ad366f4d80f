// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/import.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <span>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/topology/codec.h"
#include "core/topology/discover.h"
#include "core/topology/machine.h"
#include "core/topology/xml_limits.h"

namespace weft {
namespace {

constexpr rlim_t kCpuSeconds = 10;

// The first byte of what the child says.
constexpr std::byte kReport{1};
constexpr std::byte kRefusal{2};

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) return fail(Error::from_errno(error.value(), "it cannot be opened"));
  if (!std::filesystem::is_regular_file(status)) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "it is no regular file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Error::from_errno(errno, "it cannot be opened"));
  // One byte more than is allowed: enough to see that it is too large.
  std::string text(kMaxXmlBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(WEFT_ERROR_SYSTEM, "it cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  WEFT_TRY(check_xml(text));
  return text;
}

Result<std::vector<std::byte>> describe(std::string_view xml, std::string_view host_id) {
  WEFT_TRY_ASSIGN(const Machine machine, parse_machine(xml));
  RankReport report;
  HostInfo& host = report.host;
  host.host_name = machine_name(machine);
  if (host.host_name.empty()) host.host_name = "unknown";
  host.host_id = host_id.empty() ? derive_host_id("", host.host_name, "") : std::string(host_id);
  describe_machine(machine, host);
  host.nics = machine_nics(machine);
  report.rank.process = "none";
  return encode_report(report);
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// Never returns to the parent's code.
[[noreturn]] void run_child(int fd, std::string_view xml, std::string_view host_id) {
  const rlimit processor{.rlim_cur = kCpuSeconds, .rlim_max = kCpuSeconds + 1};
  const rlimit core{.rlim_cur = 0, .rlim_max = 0};
  bool done = ::setrlimit(RLIMIT_CPU, &processor) == 0 && ::setrlimit(RLIMIT_CORE, &core) == 0;
  if (done) {
    const auto described = describe(xml, host_id);
    const std::string refusal = described ? "" : described.error().to_string();
    const std::array<std::byte, 1> kind = {described ? kReport : kRefusal};
    done = write_all(fd, kind) && write_all(fd, described ? std::span<const std::byte>(*described)
                                                          : std::as_bytes(std::span(refusal)));
  }
  ::_exit(done ? 0 : 1);
}

/// All that comes, at most one byte more than a report may have.
std::vector<std::byte> read_all(int fd) {
  std::vector<std::byte> bytes;
  std::array<std::byte, 4096> piece{};
  while (bytes.size() <= kMaxReportBytes + 1) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
  }
  return bytes;
}

Result<std::vector<std::byte>> describe_in_child(std::string_view xml, std::string_view host_id) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Error::from_errno(errno, "making a pipe failed"));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], xml, host_id);
  }
  const int fork_errno = errno;
  ::close(ends[1]);
  std::vector<std::byte> said;
  if (child > 0) said = read_all(ends[0]);
  ::close(ends[0]);
  if (child < 0) return fail(Error::from_errno(fork_errno, "starting a process failed"));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    return fail(Error::from_errno(errno, "waiting for a process failed"));
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("hwloc did not come to an end within {} s", kCpuSeconds));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                WIFSIGNALED(status)
                    ? fmt::format("hwloc died of it, by signal {}", WTERMSIG(status))
                    : fmt::format("hwloc died of it, with status {}", WEXITSTATUS(status)),
                "take a file that weft topo --export or lstopo wrote");
  }
  return said;
}

}  // namespace

Result<HostInfo> import_host(const std::string& path, std::string_view host_id) {
  const auto import = [&]() -> Result<HostInfo> {
    WEFT_TRY_ASSIGN(const std::string xml, read_text(path));
    WEFT_TRY_ASSIGN(const std::vector<std::byte> said, describe_in_child(xml, host_id));
    const std::span<const std::byte> body = std::span(said).subspan(said.empty() ? 0 : 1);
    if (said.empty() || said.front() != kReport) {
      return fail(WEFT_ERROR_INVALID_ARGUMENT,
                  body.empty()
                      ? std::string("hwloc said nothing of it")
                      : std::string(reinterpret_cast<const char*>(body.data()), body.size()));
    }
    WEFT_TRY_ASSIGN(RankReport report, decode_report(body));
    return std::move(report.host);
  };
  if (!host_id.empty()) WEFT_TRY(check_host_id(host_id));
  Result<HostInfo> host = import();
  if (host) return host;
  return fail(std::move(host.error()).with_context(fmt::format("reading the machine of {}", path)));
}

}  // namespace weft
