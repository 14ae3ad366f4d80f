// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/line_steps.h"

#include <algorithm>

#include "core/transport/flagged_words.h"

namespace weft {
namespace {

// Lines that hold the header.
constexpr std::uint32_t kHeaders = kStepHeaderBytes / kLinePayloadBytes;
constexpr std::size_t kFormsOftenAhead = 256;

}  // namespace

LineSteps::LineSteps(std::byte* memory, std::uint32_t steps, std::uint32_t slot_bytes)
    : memory_(memory), steps_(steps), slot_bytes_(slot_bytes) {
  // Repeated calls allocate nothing, however far a rank is ahead.
  forms_.reserve(kFormsOftenAhead);
}

void LineSteps::add(std::uint64_t end, bool by_lines) {
  if (first_form_ < forms_.size() && forms_.back().by_lines == by_lines) {
    forms_.back().end = end;
  } else {
    forms_.push_back({.end = end, .by_lines = by_lines});
  }
}

bool LineSteps::goes_by_lines(std::uint64_t step) const {
  std::size_t at = first_form_;
  while (forms_[at].end <= step)
    ++at;
  return forms_[at].by_lines;
}

void LineSteps::forget_before(std::uint64_t step) {
  while (first_form_ < forms_.size() && forms_[first_form_].end <= step)
    ++first_form_;
  // Not each time: what stays is moved.
  if (2 * first_form_ < forms_.size()) return;
  forms_.erase(forms_.begin(), forms_.begin() + static_cast<std::ptrdiff_t>(first_form_));
  first_form_ = 0;
}

std::uint64_t LineSteps::room() const {
  return std::uint64_t{lines_of_slot() - kHeaders} * kLinePayloadBytes;
}

std::uint64_t* LineSteps::line_of(std::uint64_t step, std::uint32_t line) const {
  return reinterpret_cast<std::uint64_t*>(memory_ + step % steps_ * std::size_t{slot_bytes_} +
                                          std::size_t{line} * kLineBytes);
}

std::uint32_t LineSteps::lines_of_slot() const {
  return slot_bytes_ / kLineBytes;
}

bool LineSteps::has_begun(std::uint64_t step) const {
  std::uint64_t tag = 0;
  return load_line(line_of(step, 0), step_flag(step), tag);
}

std::optional<LineSteps::Header> LineSteps::collect(std::uint64_t step, std::byte* payload) {
  if (step != collecting_) {
    collecting_ = step;
    collected_ = 0;
  }
  const std::uint32_t flag = step_flag(step);
  if (collected_ < kHeaders) {
    if (!load_line(line_of(step, 0), flag, header_.tag)) return std::nullopt;
    if (!load_line(line_of(step, 1), flag, header_.bytes)) return std::nullopt;
    collected_ = kHeaders;
  }
  if (header_.bytes > room()) return header_;
  const std::uint64_t lines = kHeaders + payload_lines(header_.bytes);
  collected_ +=
      collect_lines(line_of(step, collected_), static_cast<std::uint32_t>(lines) - collected_, flag,
                    payload + payload_at(collected_ - kHeaders));
  if (collected_ != lines) return std::nullopt;
  return header_;
}

void LineSteps::deliver(std::uint64_t step, const Header& header, const std::byte* payload) {
  const std::uint32_t flag = step_flag(step);
  const auto lines = static_cast<std::uint32_t>(payload_lines(std::min(header.bytes, room())));
  store_line(line_of(step, 0), header.tag, flag);
  store_line(line_of(step, 1), header.bytes, flag);
  deliver_lines(line_of(step, kHeaders), lines, flag, payload);
  if (fills_whole_slot(step, steps_)) fill(step, kHeaders + lines);
}

void LineSteps::pass(std::uint64_t step) {
  if (fills_whole_slot(step, steps_)) fill(step, 0);
}

void LineSteps::fill(std::uint64_t step, std::uint32_t first) {
  for (std::uint32_t line = first; line < lines_of_slot(); ++line)
    store_line(line_of(step, line), 0, step_flag(step));
}

}  // namespace weft
