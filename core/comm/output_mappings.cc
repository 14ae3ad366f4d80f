// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/output_mappings.h"

#include <algorithm>
#include <atomic>
#include <new>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/comm/device_failure.h"

namespace weft {
namespace {

/// A mapping may make room for another once so many outputs were asked for since it was needed
/// last; so many later what found no room is tried again.
constexpr std::uint64_t kIdleLooks = 64;
/// The same where not bytes but numbers are short. More than most programs have outputs: one that
/// goes round a few more than there are numbers would else lose each just before it asks for it.
constexpr std::uint64_t kIdleLooksOfNumbers = std::uint64_t{16} * kMostMappings;
/// After which a rank that has not answered is asked again; twice as long each time.
constexpr std::chrono::seconds kPatience(2);
constexpr std::chrono::seconds kMostPatience(64);
/// Different reasons that are logged.
constexpr std::size_t kMostReasons = 16;

/// Whether what failed so may go well another time: for lack of descriptors, say, or of addresses.
/// What a driver that lacks them answers is not always that.
bool may_pass(weft_result result) {
  return result == WEFT_ERROR_OUT_OF_RESOURCES || result == WEFT_ERROR_OUT_OF_MEMORY ||
         result == WEFT_ERROR_DEVICE;
}

const std::byte* address(const void* memory) {
  return static_cast<const std::byte*>(memory);
}

}  // namespace

OutputMappings::OutputMappings(OutputSurroundings surroundings, ProcessWitness witness)
    : around_(std::move(surroundings)), witness_(std::move(witness)) {}

OutputMappings::~OutputMappings() {
  for (const auto& [name, import] : imports_)
    around_.runtime.close_pieces(import.memory);
}

std::uint32_t OutputMappings::others() const {
  const auto ranks = static_cast<std::uint32_t>(around_.pids.size());
  return ((1U << ranks) - 1) & ~(1U << around_.rank);
}

bool OutputMappings::Mapping::stands_for(const std::byte* from, const std::byte* to) const {
  switch (scope) {
    case Scope::kWithin:
      return from >= begin && to <= end;
    case Scope::kTouching:
      return from < end && to > begin;
    case Scope::kSame:
      return from == begin && to == end;
  }
  return false;
}

bool OutputMappings::is_there(const Mapping& mapping, const std::byte* begin,
                              const std::byte* end) const {
  return std::ranges::all_of(mapping.pieces, [&](const MemoryPiece& piece) {
    if (address(piece.base) + piece.bytes <= begin || address(piece.base) >= end) return true;
    return around_.runtime.piece_number(piece.base) == piece.number;
  });
}

std::uint64_t OutputMappings::offer(const void* memory, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMostOutputBytes) return 0;
  if (reinterpret_cast<std::uintptr_t>(memory) % kOutputGrain != 0) return 0;
  const std::byte* const begin = address(memory);
  const std::byte* const end = begin + bytes;
  const std::scoped_lock lock(mutex_);
  ++looks_;
  for (std::uint32_t number = 0; number < kMostMappings; ++number) {
    Mapping& mapping = mappings_[number];
    if (mapping.state == State::kFree || mapping.state == State::kRevoked || mapping.is_gone) {
      continue;
    }
    if (!mapping.stands_for(begin, end)) continue;
    if (mapping.state == State::kWanted) return 0;
    if (!is_there(mapping, begin, end)) {
      mapping.is_gone = true;
      if (mapping.state == State::kRefused) mapping.state = State::kFree;
      continue;
    }
    if (mapping.state == State::kRefused && mapping.may_be_wanted_again &&
        looks_ - mapping.last_look > kIdleLooks) {
      mapping.state = State::kFree;
      continue;
    }
    if (mapping.state != State::kRefused) mapping.last_look = looks_;
    if (mapping.state != State::kMapped) return 0;
    mapping.last_number = calls_ + 1;
    return offer_of({.mapping = number,
                     .generation = mapping.generation,
                     .offset = static_cast<std::uint64_t>(begin - mapping.begin)});
  }
  want(begin, end);
  return 0;
}

std::uint64_t OutputMappings::number_call() {
  const std::scoped_lock lock(mutex_);
  return ++calls_;
}

// Under the mutex.
void OutputMappings::want(const std::byte* begin, const std::byte* end) {
  Mapping* place = nullptr;
  for (Mapping& mapping : mappings_) {
    if (mapping.generation == kMostGeneration) continue;
    const bool is_free = mapping.state == State::kFree;
    const bool is_older = place == nullptr || mapping.last_look < place->last_look;
    if (is_free || (mapping.state == State::kRefused && is_older)) place = &mapping;
    if (is_free) break;
  }
  if (place == nullptr) {
    // All are in use: a later call asks again.
    const bool some_comes = std::ranges::any_of(
        mappings_, [](const Mapping& mapping) { return mapping.state == State::kRevoked; });
    if (some_comes || oldest_idle(ended(), kIdleLooksOfNumbers) == kMostMappings) return;
    needs_number_ = true;
    around_.wake();
    return;
  }
  const std::uint32_t generation = place->generation;
  *place = {};
  place->state = State::kWanted;
  place->generation = generation;
  place->begin = begin;
  place->end = end;
  place->last_look = looks_;
  around_.wake();
}

// Under the mutex: what was not asked for in so many looks, and no call may write to any more;
// kMostMappings: there is none.
std::uint32_t OutputMappings::oldest_idle(std::uint64_t ended, std::uint64_t looks) const {
  std::uint32_t oldest = kMostMappings;
  for (std::uint32_t number = 0; number < kMostMappings; ++number) {
    const Mapping& mapping = mappings_[number];
    if (mapping.state != State::kMapped || mapping.last_number > ended ||
        looks_ - mapping.last_look < looks) {
      continue;
    }
    if (oldest == kMostMappings || mapping.last_look < mappings_[oldest].last_look) oldest = number;
  }
  return oldest;
}

// What kernels report they report before they store that they have ended.
std::uint64_t OutputMappings::ended() const {
  return std::atomic_ref(*around_.ended).load(std::memory_order_acquire);
}

// Nothing may leave the reactor's thread. What is half done is wanted still, or its letters are
// posted again.
void OutputMappings::work() {
  try {
    move();
  } catch (const std::bad_alloc&) {
    return;  // the timer comes again
  }
}

void OutputMappings::move() {
  const std::uint64_t until = ended();
  if (around_.has_failed()) return;
  return_revoked(until);
  look_after_own(until);
  free_number(until);
  ask_again();
  share_wanted(until);
}

void OutputMappings::look_after_own(std::uint64_t ended) {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t number = 0; number < kMostMappings; ++number) {
    Mapping& mapping = mappings_[number];
    if (mapping.state != State::kShared && mapping.state != State::kMapped &&
        mapping.state != State::kRefused) {
      continue;
    }
    mapping.is_gone = mapping.is_gone || !is_there(mapping, mapping.begin, mapping.end);
    if (!mapping.is_gone) continue;
    if (mapping.state == State::kRefused) {
      mapping.state = State::kFree;
    } else if (mapping.last_number <= ended) {
      mapping.refusal.clear();  // what comes there now is another output
      revoke(number);
    }
  }
}

void OutputMappings::free_number(std::uint64_t ended) {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(needs_number_, false)) return;
  const std::uint32_t oldest = oldest_idle(ended, kIdleLooksOfNumbers);
  if (oldest != kMostMappings) revoke(oldest);
}

// Letters may have been lost, or answers.
void OutputMappings::ask_again() {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t number = 0; number < kMostMappings; ++number) {
    Mapping& mapping = mappings_[number];
    if (mapping.state != State::kShared && mapping.state != State::kRevoked) continue;
    if (around_.now() - mapping.asked < mapping.patience) continue;
    mapping.patience = std::min<std::chrono::nanoseconds>(2 * mapping.patience, kMostPatience);
    ask(number, true);
  }
}

// The driver is asked without the mutex: nobody else touches a mapping that is wanted.
void OutputMappings::share_wanted(std::uint64_t ended) {
  for (std::uint32_t number = 0; number < kMostMappings; ++number) {
    Mapping& mapping = mappings_[number];
    Mapping found;
    {
      const std::scoped_lock lock(mutex_);
      if (mapping.state != State::kWanted) continue;
      found.begin = mapping.begin;
      found.end = mapping.end;
    }
    Status made = find_pieces(found);
    const bool are_found = made.has_value();
    // Nor those behind it, which would keep it waiting.
    if (are_found && !may_export(found.pieces.size())) return;
    if (are_found && !make_room(found.bytes(), ended)) continue;
    if (are_found) made = export_pieces(found);
    const std::scoped_lock lock(mutex_);
    mapping.pieces = std::move(found.pieces);
    if (!made) {
      mapping.scope = found.scope;
      if (found.scope == Scope::kTouching) {
        mapping.begin = found.begin;
        mapping.end = found.end;
      }
      refuse(mapping, made.error().to_string(), found.may_be_wanted_again);
      continue;
    }
    mapping.begin = found.begin;
    mapping.end = found.end;
    mapping.descriptors = std::move(found.descriptors);
    share(number);
  }
}

// All that others may be copying from are as many descriptors as of one mapping at most.
bool OutputMappings::may_export(std::size_t pieces) const {
  const std::scoped_lock lock(mutex_);
  for (const Mapping& mapping : mappings_)
    pieces += mapping.descriptors.size();
  return pieces <= kMostSharedPieces;
}

Status OutputMappings::find_pieces(Mapping& wanted) const {
  const std::byte* const end = wanted.end;
  const std::byte* next = wanted.begin;
  wanted.scope = Scope::kSame;  // where this fails, which other memory may mend
  wanted.may_be_wanted_again = true;
  while (next < end) {
    MemoryPiece piece;
    if (around_.runtime.find_piece(next, &piece) != WEFT_OK) {
      return fail(WEFT_ERROR_UNSUPPORTED, device_failure_text(around_.runtime));
    }
    const std::byte* const base = address(piece.base);
    const bool goes_on = wanted.pieces.empty() ? base <= next : base == next;
    if (!goes_on || piece.number == 0 || base + piece.bytes <= next) {
      return fail(WEFT_ERROR_UNSUPPORTED, "its memory is not of one piece behind the other");
    }
    if (wanted.pieces.size() == kMostSharedPieces) {
      return fail(WEFT_ERROR_UNSUPPORTED,
                  fmt::format("its memory has more than {} pieces", kMostSharedPieces));
    }
    wanted.pieces.push_back(piece);
    next = base + piece.bytes;
  }
  const std::byte* const begin = address(wanted.pieces.front().base);
  const auto all = static_cast<std::uint64_t>(next - begin);
  if (all > around_.most_bytes) {
    return fail(WEFT_ERROR_UNSUPPORTED,
                fmt::format("its memory has {} bytes, and buffers.outputs_mapped is {}", all,
                            around_.most_bytes));
  }
  wanted.may_be_wanted_again = false;
  wanted.scope = Scope::kWithin;
  wanted.begin = begin;
  wanted.end = next;
  return {};
}

// Where a piece is not to be exported, no output of any part of it is; where the driver could not
// do it, for lack of descriptors, say, it may another time.
Status OutputMappings::export_pieces(Mapping& found) const {
  for (const MemoryPiece piece : found.pieces) {
    int descriptor = -1;
    std::string why;
    if (piece.bytes % kExportGrain != 0) {
      why = "its memory shares pages with other memory";
    } else if (const weft_result result = around_.runtime.export_piece(piece, &descriptor);
               result != WEFT_OK) {
      why = device_failure_text(around_.runtime);
      found.may_be_wanted_again = result != WEFT_ERROR_UNSUPPORTED;
    }
    if (!why.empty()) {
      found.scope = Scope::kTouching;
      found.begin = address(piece.base);
      found.end = found.begin + piece.bytes;
      found.pieces = {piece};
      return fail(WEFT_ERROR_UNSUPPORTED, std::move(why));
    }
    found.descriptors.emplace_back(UniqueFd(descriptor));
  }
  return {};
}

// True where there is room; else some is coming, or all wanted mappings are refused that need it.
bool OutputMappings::make_room(std::uint64_t bytes, std::uint64_t ended) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t held = 0;
  std::uint64_t coming = 0;
  for (const Mapping& mapping : mappings_) {
    if (mapping.state == State::kRevoked) coming += mapping.bytes();
    if (mapping.state == State::kShared || mapping.state == State::kMapped ||
        mapping.state == State::kRevoked) {
      held += mapping.bytes();
    }
  }
  if (held + bytes <= around_.most_bytes) return true;
  if (held - coming + bytes <= around_.most_bytes) return false;
  if (const std::uint32_t oldest = oldest_idle(ended, kIdleLooks); oldest != kMostMappings) {
    revoke(oldest);
    return false;
  }
  if (coming != 0) return false;
  for (Mapping& mapping : mappings_) {
    if (mapping.state != State::kWanted) continue;
    refuse(mapping,
           fmt::format("{} bytes are shared already, and buffers.outputs_mapped is {}", held,
                       around_.most_bytes),
           true);
  }
  return false;
}

// Under the mutex, as all that follow here.
void OutputMappings::share(std::uint32_t number) {
  Mapping& mapping = mappings_[number];
  mapping.state = State::kShared;
  mapping.awaited = others();
  mapping.patience = kPatience;
  mapping.may_be_wanted_again = true;  // unless one says that it will never do
  ++mapping.generation;
  ask(number);
}

void OutputMappings::revoke(std::uint32_t number) {
  Mapping& mapping = mappings_[number];
  mapping.state = State::kRevoked;
  mapping.awaited = others();
  mapping.patience = kPatience;
  mapping.descriptors.clear();
  ask(number);
}

// `again`: not those to whom letters are on their way, of which there would be ever more.
void OutputMappings::ask(std::uint32_t number, bool again) {
  Mapping& mapping = mappings_[number];
  mapping.asked = around_.now();
  const bool is_shared = mapping.state == State::kShared;
  OutputLetter letter{
      .kind = is_shared ? OutputLetter::Kind::kShared : OutputLetter::Kind::kRevoked,
      .mapping = number,
      .generation = mapping.generation,
      .pid = around_.pids[around_.rank],
      .witness = static_cast<std::uint32_t>(witness_.descriptor.get()),
      .witness_bytes = witness_.bytes,
      .pieces = {},
      .refusal = {}};
  for (std::size_t i = 0; is_shared && i < mapping.pieces.size(); ++i) {
    letter.pieces.push_back({.descriptor = static_cast<std::uint32_t>(mapping.descriptors[i].get()),
                             .bytes = mapping.pieces[i].bytes});
  }
  for (std::uint32_t rank = 0; rank < around_.pids.size(); ++rank) {
    if ((mapping.awaited & (1U << rank)) == 0 || (again && around_.brings(rank))) continue;
    post(rank, letter);
  }
}

void OutputMappings::refuse(Mapping& mapping, std::string why, bool may_be_wanted_again) {
  mapping.state = State::kRefused;
  mapping.descriptors.clear();
  mapping.may_be_wanted_again = may_be_wanted_again;
  mapping.last_look = looks_;
  mapping.refusal = std::move(why);
  last_refusal_ = mapping.refusal;
  say_once(mapping.refusal);
}

void OutputMappings::say_once(const std::string& why) {
  if (said_.size() == kMostReasons || !said_.insert(why).second) return;
  around_.log.info(Topic::kTransport,
                   "rank {} does not share an output with ranks of other processes, and calls go "
                   "by slots: {}",
                   around_.rank, why);
}

void OutputMappings::take(std::uint32_t from, std::span<const std::byte> text) {
  const auto letter = decode_output_letter(text);
  if (!letter || from >= around_.pids.size() || from == around_.rank) {
    around_.log.info(Topic::kTransport, "rank {} leaves a letter of rank {} unread: {}",
                     around_.rank, from,
                     letter ? "it is no other rank" : letter.error().to_string());
    return;
  }
  if (around_.has_failed()) return;
  switch (letter->kind) {
    case OutputLetter::Kind::kShared:
      return take_shared(from, *letter);
    case OutputLetter::Kind::kRevoked:
      return take_revoked(from, *letter);
    case OutputLetter::Kind::kTaken:
    case OutputLetter::Kind::kReturned:
      return take_answer(from, *letter);
  }
}

void OutputMappings::take_answer(std::uint32_t from, const OutputLetter& letter) {
  const std::scoped_lock lock(mutex_);
  Mapping& mapping = mappings_[letter.mapping];
  const State due = letter.kind == OutputLetter::Kind::kTaken ? State::kShared : State::kRevoked;
  if (mapping.generation != letter.generation || mapping.state != due) return;
  mapping.awaited &= ~(1U << from);
  if (!letter.refusal.empty()) {
    mapping.may_be_wanted_again = mapping.may_be_wanted_again && letter.may_pass;
    if (mapping.refusal.empty()) {
      mapping.refusal = fmt::format("rank {}: {}", from, letter.refusal);
    }
  }
  if (mapping.awaited != 0) return;
  around_.wake();  // somebody may wait for room, for a number or for descriptors
  if (due == State::kRevoked) {
    if (mapping.refusal.empty() || mapping.is_gone) {
      mapping.state = State::kFree;
    } else {
      refuse(mapping, std::move(mapping.refusal), mapping.may_be_wanted_again);
    }
    return;
  }
  if (!mapping.refusal.empty()) return revoke(letter.mapping);
  mapping.descriptors.clear();
  mapping.state = State::kMapped;
  last_refusal_.clear();
}

void OutputMappings::take_shared(std::uint32_t from, const OutputLetter& letter) {
  const auto known = imports_.find({from, letter.mapping});
  OutputLetter answer{.kind = OutputLetter::Kind::kTaken,
                      .mapping = letter.mapping,
                      .generation = letter.generation,
                      .pieces = {},
                      .refusal = {}};
  if (known != imports_.end()) {
    // Letters come twice now and then; and of what is mapped still no other generation is due.
    if (known->second.generation != letter.generation) return;
    if (!known->second.is_revoked) post(from, answer);
    return;
  }
  if (const Status imported = map_shared(from, letter); !imported) {
    answer.refusal = imported.error().to_string();
    answer.may_pass = may_pass(imported.error().code());
  }
  post(from, answer);
}

Status OutputMappings::map_shared(std::uint32_t from, const OutputLetter& letter) {
  std::uint64_t held = 0;
  for (const auto& [name, import] : imports_) {
    if (name.first == from) held += import.bytes;
  }
  std::uint64_t bytes = 0;
  for (const SharedPiece& piece : letter.pieces)
    bytes += piece.bytes;
  if (held + bytes > around_.most_bytes) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("{} bytes are more than buffers.outputs_mapped allows", held + bytes));
  }
  if (letter.pid != around_.pids[from]) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("process {} is not that of rank {}", letter.pid, from));
  }
  WEFT_TRY(check_witness(letter.pid, static_cast<int>(letter.witness), letter.witness_bytes));
  std::vector<UniqueFd> copies;
  std::vector<ForeignPiece> pieces;
  for (const SharedPiece& piece : letter.pieces) {
    WEFT_TRY_ASSIGN(UniqueFd copy, copy_foreign_fd(letter.pid, static_cast<int>(piece.descriptor)));
    pieces.push_back({.descriptor = copy.get(), .bytes = piece.bytes});
    copies.push_back(std::move(copy));
  }
  void* memory = nullptr;
  if (const weft_result result = around_.runtime.import_pieces(pieces, &memory);
      result != WEFT_OK) {
    return fail(result, device_failure_text(around_.runtime));
  }
  imports_[{from, letter.mapping}] = {
      .generation = letter.generation, .memory = memory, .bytes = bytes};
  {
    const std::scoped_lock lock(mutex_);
    bytes_mapped_ += bytes;
  }
  OutputMap::Entry& entry = around_.map->entries[from][letter.mapping];
  entry.base = reinterpret_cast<std::uintptr_t>(memory);
  entry.bytes = bytes;
  std::atomic_ref(entry.generation).store(letter.generation, std::memory_order_release);
  return {};
}

void OutputMappings::take_revoked(std::uint32_t from, const OutputLetter& letter) {
  const auto known = imports_.find({from, letter.mapping});
  if (known == imports_.end() || known->second.generation != letter.generation) {
    return post(from, {.kind = OutputLetter::Kind::kReturned,
                       .mapping = letter.mapping,
                       .generation = letter.generation,
                       .pieces = {},
                       .refusal = {}});
  }
  Import& import = known->second;
  if (import.is_revoked) return;
  std::atomic_ref(around_.map->entries[from][letter.mapping].generation)
      .store(0, std::memory_order_seq_cst);
  import.is_revoked = true;
  {
    const std::scoped_lock lock(mutex_);
    import.until = calls_;
  }
  around_.wake();
}

void OutputMappings::return_revoked(std::uint64_t ended) {
  for (auto next = imports_.begin(); next != imports_.end();) {
    const auto& [name, import] = *next;
    if (!import.is_revoked || import.until > ended) {
      ++next;
      continue;
    }
    around_.runtime.close_pieces(import.memory);
    {
      const std::scoped_lock lock(mutex_);
      bytes_mapped_ -= import.bytes;
    }
    const auto [owner, number] = name;
    const std::uint32_t generation = import.generation;
    // First: without memory for the letter it is not closed again, and the owner asks again.
    next = imports_.erase(next);
    post(owner, {.kind = OutputLetter::Kind::kReturned,
                 .mapping = number,
                 .generation = generation,
                 .pieces = {},
                 .refusal = {}});
  }
}

std::uint64_t OutputMappings::bytes_shared() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Mapping& mapping : mappings_) {
    if (mapping.state == State::kShared || mapping.state == State::kMapped ||
        mapping.state == State::kRevoked) {
      bytes += mapping.bytes();
    }
  }
  return bytes;
}

std::uint64_t OutputMappings::bytes_mapped() const {
  const std::scoped_lock lock(mutex_);
  return bytes_mapped_;
}

std::string OutputMappings::last_refusal() const {
  const std::scoped_lock lock(mutex_);
  return last_refusal_;
}

}  // namespace weft
