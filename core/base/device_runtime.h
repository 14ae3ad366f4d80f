// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a device offers to the layers between it and the communicator: memory, streams, launch.
// `core/device` implements it, others are given it. C++20 and free of std::expected, because
// device code includes it; calls answer plain codes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <weft/types.h>

namespace weft {

struct Task;
struct WorkItem;
struct KernelOutcome;
struct LongWait;
struct OutputCall;
struct MulticastView;
struct WindowReduction;
struct PackedItems;
struct RingLinks;
struct ConnectionView;

/// A device's stream; made and destroyed by its runtime.
class DeviceStream;

/// A device's place in memory that one address stands for on several devices; made and ended by its
/// runtime.
class MulticastTeam;

/// What the drivers of GPUs hand out at a time: memory in whole pieces of this size shares its
/// pages with nothing, so that a ticket opens it alone.
inline constexpr std::size_t kExportGrain = std::size_t{2} << 20;

/// In the place of the number of a piece of work: all that has been launched.
inline constexpr std::uint64_t kWholeStream = UINT64_MAX;

/// How memory of a device reaches other devices, of this or another process of the host.
enum class MemorySharing : std::uint8_t {
  kTicket,      ///< By the bytes alone.
  kDescriptor,  ///< By a file descriptor and the bytes.
};

/// Bytes that this library has of a device, and of the host for it.
struct HeldMemory {
  std::uint64_t in_use = 0;
  std::uint64_t kept = 0;  ///< Released, and not given back to the driver.
  std::uint64_t host_in_use = 0;
  std::uint64_t host_kept = 0;
};

/// An allocation of a device, by this library or by the program.
struct DeviceAllocation {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  ///< Of all that the process ever made; not used again.
  bool can_travel = false;   ///< In the form that `sharing` names.
  MemorySharing sharing = MemorySharing::kTicket;
};

/// Memory of a device in the form in which other devices open it. The bytes are the device
/// library's own.
struct MemoryTicket {
  std::array<std::byte, 128> bytes{};
  int descriptor = -1;  ///< Of kDescriptor; its owner is who holds the ticket.
};

/// A stretch of a device's memory that stands for itself, as a program made it: an allocation, or
/// what the driver mapped at once.
struct MemoryPiece {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  ///< Of all that the process ever made; not used again, and never 0.
};

/// Another process's piece.
struct ForeignPiece {
  int descriptor = -1;
  std::size_t bytes = 0;
};

/// One communicator's share of a launch. Its items block on other ranks and on each other, so the
/// device runs all of them at once.
///
/// A device whose kernels run on their own (`reports_ends()` is false) calls neither `progress` nor
/// `finished`: its kernels write the first bad end to `outcome`, and a launch may be replayed.
struct Launch {
  /// Where ends are reported they stay as they are until then; else they are copied before launch()
  /// returns.
  std::span<const WorkItem> items;
  /// Where ends are not reported, of more items than kMostWholeItems: the same packed, complete but
  /// for what a call sets. Copied likewise.
  const PackedItems* packed = nullptr;
  /// The links that those have, in the host's memory; copied by launch().
  const RingLinks* links = nullptr;
  /// Where ends are not reported, of kMostWholePairs to kMostPackedPairs transfers: memory of the
  /// device with the view of each, at its place. Null: some have none.
  const ConnectionView* pair_views = nullptr;
  /// Raised to make kernels leave; outlives the launch. Where ends are not reported it lies in
  /// memory of allocate_shared.
  const std::atomic<std::uint32_t>* abort = nullptr;
  /// Where ends are not reported: memory of allocate_shared, whose `end` is written last, once.
  KernelOutcome* outcome = nullptr;
  /// Likewise, may be null.
  LongWait* waiting = nullptr;
  /// Of calls whose data may go straight into outputs of other ranks, on devices that are asked
  /// whether those are open: what the ranks agree by before. Copied before launch() returns.
  const OutputCall* outputs = nullptr;
  /// Of a reduction in windows, whose one item says how the ranks meet. Copied likewise.
  const WindowReduction* window_reduction = nullptr;
  /// What a waiting worker may do instead of idling (drive a progress engine); may be null. Called
  /// from several workers at once; must not block; answers true when it achieved something.
  /// `about_to_sleep`: the worker will not call again before it is woken or 50 ms have passed.
  bool (*progress)(void* context, bool about_to_sleep) = nullptr;
  /// Where a device reports ends: copies `bytes` from `address` in the process of rank `peer` to
  /// `to`, for sends between processes that go without slots; may be null, and then none do. Called
  /// from several workers at once; blocks as long as the copy takes. False: it could not, has noted
  /// why, and raised `abort`.
  bool (*read_peer)(void* context, std::uint32_t peer, std::byte* to, std::uint64_t address,
                    std::uint64_t bytes) = nullptr;
  void* progress_context = nullptr;  ///< Of both.
  /// Whether each worker of this host that waits for others should have a processor for itself: a
  /// hint for how workers wait. Of a device that runs a number of groups at once, whether all of
  /// them are this rank's, and this communicator's.
  bool own_processors = false;
  /// Of a device of the host: how many ranks have each processor between them, a hint for how often
  /// workers look that wait.
  std::uint32_t ranks_per_processor = 1;
  /// Whether kernels of other ranks may run on the device, which wait for this one's: then all of
  /// the launch goes by its stream alone. A GPU has few queues, and of what shares one without
  /// having anything else to do with each other the latter waits for the former.
  bool shares_device = false;
  /// Whether the program bounds what calls take of the device: no groups work beside those of the
  /// items then.
  bool is_bounded = false;
  /// Whether messages bring what workers wait for, which `progress` moves: a hint, likewise.
  bool waits_for_messages = false;
  /// Called exactly once, by the worker that ended last, with the first outcome that is not kDone
  /// (or kDone). What it answers is what the stream reports. Must not block or call the runtime.
  weft_result (*finished)(void* context, const KernelOutcome& outcome) = nullptr;
  void* finished_context = nullptr;
};

/// What some launches on a stream need.
struct LaunchRoom {
  std::uint32_t pieces = 0;    ///< Calls of launch().
  std::uint32_t launches = 0;  ///< Of a piece, at most.
};

/// A launch of so few groups may be set up while the one before it of its stream runs, whatever
/// else is on the device.
inline constexpr std::uint32_t kGroupsThatMayComeEarly = 2;

/// What a launch takes of a device; nothing of one without groups.
struct LaunchShape {
  std::uint32_t groups = 0;      ///< CTAs.
  std::uint32_t lanes = 0;       ///< Threads of each.
  std::uint32_t processors = 0;  ///< That the device has; a group runs on one of them.
};

/// Threads: every member may be called from any thread, one thread at a time per stream.
class DeviceRuntime {
 public:
  DeviceRuntime() = default;
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;
  virtual ~DeviceRuntime() = default;

  /// Communicators that launch here, of this process where others cannot go on beside one that
  /// takes all of the device, else of this context. They count themselves.
  [[nodiscard]] virtual std::atomic<std::uint32_t>& communicators() { return communicators_; }

  /// "host", "cuda".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The driver's number of this device; -1 for the host.
  [[nodiscard]] virtual std::int32_t index() const { return -1; }
  /// "0000:18:00.0", in small letters; empty for the host, and where it is unknown.
  [[nodiscard]] virtual std::string_view pci_address() const { return {}; }
  /// Which memory fabric joins it to devices of other hosts: equal exactly for devices of one.
  /// Empty where there is none.
  [[nodiscard]] virtual std::string_view memory_fabric() const { return {}; }
  /// RankInfo::device_id.
  [[nodiscard]] virtual std::string_view device_id() const { return {}; }
  /// Whether launches call back when they end; see Launch.
  [[nodiscard]] virtual bool reports_ends() const { return true; }
  /// What the driver said of the calling thread's last failure, and its code; empty if nothing.
  [[nodiscard]] virtual std::string_view last_failure(std::int64_t* native) {
    *native = 0;
    return {};
  }

  /// How many groups of its kernels (CTAs) the device runs at once; 0: any number. Those of all
  /// ranks on a device wait for each other, so together they may be no more.
  [[nodiscard]] virtual std::uint32_t groups_at_once() const { return 0; }

  /// What a launch of these items, of one collective call, would take.
  [[nodiscard]] virtual LaunchShape shape_of(std::span<const WorkItem> /*items*/,
                                             bool /*into_outputs*/) const {
    return {};
  }

  /// Bytes that neighbouring lanes store into another device and that arrive together: 8, or 128
  /// where each path that this process can ask about keeps lines whole.
  [[nodiscard]] virtual std::uint32_t line_bytes() const { return 8; }
  /// PCI addresses of the host's other devices that line_bytes() was asked about. What joins the
  /// device to those that this process does not see, it does not know.
  [[nodiscard]] virtual std::span<const std::string> line_peers() const { return {}; }

  /// Whether launch() can carry out such calls: operation, type and reduction.
  [[nodiscard]] virtual bool has_kernel(const Task& task) const = 0;

  /// Zeroed memory of the device, aligned to at least 128 bytes.
  virtual weft_result allocate(std::size_t bytes, void** out) = 0;
  /// The same, but what lies there stays: zeros are set behind kernels, which may wait for the very
  /// rank that is to have the memory.
  virtual weft_result allocate_unset(std::size_t bytes, void** out) { return allocate(bytes, out); }
  /// Takes back what allocate gave; null is ignored. Never waits for a kernel.
  virtual void release(void* memory) = 0;
  /// Zeroed host memory that kernels of the device reach at the same address, with acquire and
  /// release in both directions.
  virtual weft_result allocate_shared(std::size_t bytes, void** out) = 0;
  /// As release, for allocate_shared.
  virtual void release_shared(void* memory) = 0;

  /// What of all this is held; nothing where releasing gives back at once.
  [[nodiscard]] virtual HeldMemory held_memory() { return {}; }

  /// As allocate, for memory that can be exported that way: `bytes` is a multiple of kExportGrain.
  /// UNSUPPORTED where the device has no such memory.
  virtual weft_result allocate_to_share(std::size_t /*bytes*/, MemorySharing /*sharing*/,
                                        void** /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Memory for a program, as allocate; where the device's memory can be exported, this can,
  /// rounded up to kExportGrain.
  virtual weft_result allocate_for_program(std::size_t bytes, void** out) {
    return allocate(bytes, out);
  }
  /// Gives it back to the system at once; no kernel touches it any more. Waits for kernels of the
  /// device only where its memory travels by tickets.
  virtual void release_for_program(void* memory) { release(memory); }
  /// The allocation that an address of the device lies in; UNSUPPORTED for other addresses.
  virtual weft_result find_allocation(const void* /*address*/, DeviceAllocation* /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Makes memory reachable for other devices and processes: of allocate_to_share(), or the base of
  /// an allocation that find_allocation() says can travel.
  virtual weft_result export_memory(void* /*memory*/, MemoryTicket* /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Opens what export_memory made, anywhere on the host, for kernels of this device: address and
  /// size. The ticket is not trusted; a descriptor stays the caller's. UNSUPPORTED where no path
  /// joins the devices.
  virtual weft_result import_memory(const MemoryTicket& /*ticket*/, void** /*out*/,
                                    std::size_t* /*bytes*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// From now on kernels of this device reach what programs allocate in the ordinary way on the
  /// device of this process at that PCI address; answers its index. UNSUPPORTED where no path joins
  /// the two.
  virtual weft_result reach(std::string_view /*pci_address*/, std::int32_t* /*device*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Whether the driver knows that no path leads from this device to the memory of the one of this
  /// host at that PCI address. Asks, and changes nothing; of a device that the process does not see
  /// nothing is known.
  [[nodiscard]] virtual bool is_out_of_reach(std::string_view /*pci_address*/) const {
    return false;
  }
  /// Whether kernels of device `device` of this process, which has reached this one, may now write
  /// to all of these bytes of this device, at the addresses that they have. Asks the driver anew
  /// each time, since access comes and goes; waits for nothing.
  virtual bool is_open_to(std::int32_t /*device*/, const void* /*memory*/, std::size_t /*bytes*/) {
    return false;
  }
  /// The piece of a program's memory of this device that lies at an address. UNSUPPORTED where that
  /// is none.
  virtual weft_result find_piece(const void* /*address*/, MemoryPiece* /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// MemoryPiece::number of what lies at an address now, 0 for nothing. In some 0.1 us.
  [[nodiscard]] virtual std::uint64_t piece_number(const void* /*address*/) { return 0; }
  /// Hands out a piece that find_piece found, as a descriptor, which the caller owns, although
  /// nobody registered it. UNSUPPORTED where its program did not make it so that it can be, or has
  /// made another in its place.
  virtual weft_result export_piece(const MemoryPiece& /*piece*/, int* /*descriptor*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Maps pieces of another process one behind the other, for kernels of this device. What is
  /// behind the descriptors, which stay the caller's, is not trusted.
  virtual weft_result import_pieces(std::span<const ForeignPiece> /*pieces*/, void** /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Ends what import_pieces began, at once: no kernel touches it any more.
  virtual void close_pieces(void* /*memory*/) {}
  /// Ends what import_memory began, at once: no kernel touches it any more. The library's own
  /// memory that was opened by a ticket alone stays open until the device has no communicator.
  virtual void close_import(void* /*memory*/) {}
  /// Whether the device's memory and that of others of the host may stand behind one address.
  /// Asks, and makes nothing.
  [[nodiscard]] virtual bool has_multicast() const { return false; }
  /// Makes a team of so many devices, this one in it, each with `bytes` or more. The ticket has a
  /// descriptor, which the caller owns.
  virtual weft_result begin_multicast(std::uint32_t /*devices*/, std::size_t /*bytes*/,
                                      MulticastTeam** /*out*/, MemoryTicket* /*ticket*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Brings this device into a team that another one made. The ticket is not trusted; its
  /// descriptor stays the caller's.
  virtual weft_result join_multicast(const MemoryTicket& /*ticket*/, MulticastTeam** /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Gives memory of this device to the team, and both addresses. May block until all devices are
  /// in the team.
  virtual weft_result map_multicast(MulticastTeam* /*team*/, MulticastView* /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Leaves the team, mapped or not, and gives the memory back: where kernels of other devices may
  /// still store there, when the device goes.
  virtual void end_multicast(MulticastTeam* /*team*/, bool /*may_be_used*/) {}
  /// Lets kernels reach host memory of others, page-aligned, at the same address until
  /// unregister_host.
  virtual weft_result register_host(void* /*memory*/, std::size_t /*bytes*/) { return WEFT_OK; }
  virtual void unregister_host(void* /*memory*/) {}

  virtual weft_result create_stream(DeviceStream** out) = 0;
  /// A stream of the device's own API (a cudaStream_t), which stays its owner's.
  virtual weft_result wrap_stream(void* /*native*/, DeviceStream** /*out*/) {
    return WEFT_ERROR_UNSUPPORTED;
  }
  /// Waits for what is queued, then frees the stream. A wrapped stream is not waited for.
  virtual void destroy_stream(DeviceStream* stream) = 0;
  /// Of a stream that others may hold until destroy_stream, but whose owner ends it: nothing is
  /// launched there any more. One that was created is waited for. One that is wrapped may be no
  /// more next, though others may still be ordered after what was launched there, and await it.
  virtual void leave_stream(DeviceStream* stream) { static_cast<void>(synchronize(stream)); }
  /// Whether it is there as long as the device is, whoever wraps it: to leave it changes nothing.
  [[nodiscard]] virtual bool is_lasting(const DeviceStream* /*stream*/) const { return false; }
  /// The number of what was launched last on the stream, for order_after.
  virtual std::uint64_t last_piece(DeviceStream* /*stream*/) { return kWholeStream; }
  /// Makes what is launched on `stream` from now on, and who waits for it, wait for what was
  /// launched on `earlier` up to its piece of this number, however that ends, or at most for all of
  /// it. Here by waiting for it; devices do better, and do not block.
  virtual weft_result order_after(DeviceStream* /*stream*/, DeviceStream* earlier,
                                  std::uint64_t /*piece*/) {
    return synchronize(earlier);
  }

  /// Of calls on the stream that are recorded for later replays instead of run: which capture that
  /// is, of all in this process; else 0.
  virtual std::uint64_t capture_number(DeviceStream* /*stream*/) { return 0; }
  /// Whether they are.
  bool is_capturing(DeviceStream* stream) { return capture_number(stream) != 0; }

  /// Writes to memory of allocate(), as work of the stream, which may be captured. The bytes are
  /// copied before it returns. Does not block.
  virtual weft_result store(DeviceStream* /*stream*/, void* to, std::span<const std::byte> bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    return WEFT_OK;
  }

  /// Makes room beside what is queued now, so that these launches allocate nothing.
  virtual weft_result reserve(DeviceStream* /*stream*/, const LaunchRoom& /*room*/) {
    return WEFT_OK;
  }
  /// Appends one piece of work to the stream: all launches of it start together once the stream's
  /// earlier work has ended, and the stream goes on when all have ended. Does not block.
  virtual weft_result launch(DeviceStream* stream, std::span<const Launch> launches) = 0;

  /// Waits until the stream is empty. Answers the first error of the work since the last call.
  virtual weft_result synchronize(DeviceStream* stream) = 0;
  /// The same for who is not its owner, which may leave it meanwhile.
  virtual weft_result await_stream(DeviceStream* stream) { return synchronize(stream); }
  /// Like synchronize, but answers WEFT_IN_PROGRESS instead of waiting.
  virtual weft_result query(DeviceStream* stream) = 0;
  /// Whether nothing will ever run here again, as after a fault of any kernel of this process.
  virtual bool is_lost() { return false; }

 private:
  std::atomic<std::uint32_t> communicators_{0};
};

}  // namespace weft
