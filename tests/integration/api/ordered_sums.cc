// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/ordered_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/numbers.h"

namespace weft::test {
namespace {

constexpr weft_data_type kRealTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16,    WEFT_FLOAT16,
                                         WEFT_FLOAT64, WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2};
constexpr Kind kReducingKinds[] = {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter,
                                   Kind::kReduceScatterV};

/// Digits behind the first, and the exponent of the smallest number that has all of them.
struct Digits {
  int mantissa;
  int least_exponent;
};

Digits digits_of(weft_data_type type) {
  switch (type) {
    case WEFT_FLOAT16:
      return {.mantissa = 10, .least_exponent = -14};
    case WEFT_BFLOAT16:
      return {.mantissa = 7, .least_exponent = -126};
    case WEFT_FLOAT8_E4M3:
      return {.mantissa = 3, .least_exponent = -6};
    default:  // of e5m2
      return {.mantissa = 2, .least_exponent = -14};
  }
}

/// A float rounded to a type of 16 or 8 bits, ties to even. The inputs keep clear of what the types
/// cannot hold.
float narrowed(float value, weft_data_type type) {
  if (value == 0 || !std::isfinite(value)) return value;
  const Digits digits = digits_of(type);
  const int exponent = std::max(std::ilogb(value), digits.least_exponent);
  // Multiplying by a power of two is exact, and a double as large as this has no digits behind the
  // point. std::nearbyint took half of the time of the tests.
  constexpr double kWhole = 0x1.8p52;
  const double scaled = value * power_of_two(digits.mantissa - exponent);
  const double rounded = (scaled + kWhole - kWhole) * power_of_two(exponent - digits.mantissa);
  return std::copysign(static_cast<float>(rounded), value);
}

/// One step in the type's own arithmetic.
template <class Real>
Real combined(Real a, Real b, weft_reduction reduction) {
  switch (reduction) {
    case WEFT_PROD:
      return a * b;
    case WEFT_MAX:
      return a > b || std::isnan(a) ? a : b;
    case WEFT_MIN:
      return a < b || std::isnan(a) ? a : b;
    default:
      return a + b;
  }
}

double step(double a, double b, weft_data_type type, weft_reduction reduction) {
  if (type == WEFT_FLOAT64) return combined(a, b, reduction);
  const float result = combined(static_cast<float>(a), static_cast<float>(b), reduction);
  return type == WEFT_FLOAT32 ? result : narrowed(result, type);
}

double divided(double sum, std::uint32_t ranks, weft_data_type type) {
  if (type == WEFT_FLOAT64) return sum / ranks;
  const float result = static_cast<float>(sum) / static_cast<float>(ranks);
  return type == WEFT_FLOAT32 ? result : narrowed(result, type);
}

/// A rank's factor, which both types of pre-multiplied sums hold.
float factor_of(std::uint32_t rank) {
  return 0.75F + 0.0078125F * static_cast<float>(1 + 37 * rank % 61);
}

std::uint64_t mixed(std::uint64_t seed, std::uint32_t rank, std::uint64_t element) {
  std::uint64_t bits = seed + (std::uint64_t{rank} << 40) + element + 1;
  bits *= 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

/// One call of one rank.
class OrderedTrial {
 public:
  OrderedTrial(const OrderedSum& sum, std::uint32_t rank, std::uint32_t ranks, std::uint64_t seed)
      : sum_(sum), rank_(rank), ranks_(ranks), seed_(seed), width_(width_of(sum.type)) {
    std::size_t end = 0;
    for (std::uint32_t block = 0; block < ranks; ++block) {
      const bool uneven = sum.kind == Kind::kReduceScatterV;
      counts_.push_back(uneven ? sum.count * ((block + 1) % 3) / 2 : sum.count);
      offsets_.push_back(end);
      end += counts_.back();
    }
    const bool scatters = uneven() || sum.kind == Kind::kReduceScatter;
    sent_ = scatters ? end : sum.count;
    first_ = scatters ? offsets_[rank] : 0;
    received_ = scatters ? counts_[rank] : sum.count;
    send_.resize((sent_ + sum.shift) * width_ + kLine);
    recv_.resize((received_ + sum.shift) * width_ + kLine);
    for (std::size_t i = 0; i < sent_; ++i) {
      const std::uint64_t bits = input(rank, i);
      std::memcpy(send() + i * width_, &bits, width_);
    }
  }

  void start(weft_context* context, weft_comm* comm, weft_stream* stream) {
    const weft_reduction reduction =
        sum_.premultiplied ? make_factor(context, comm) : sum_.reduction;
    must(context, call(reduction, comm, stream));
  }

  [[nodiscard]] std::string wrong() const {
    if (sum_.kind == Kind::kReduce && rank_ != sum_.root) return {};
    for (std::size_t i = 0; i < received_; ++i) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, recv() + i * width_, width_);
      const auto found = static_cast<double>(real_of(bits, sum_.type));
      const double due = expected(first_ + i);
      const bool alike = std::isnan(due) ? std::isnan(found)
                                         : found == due && std::signbit(found) == std::signbit(due);
      if (alike) continue;
      std::ostringstream text;
      text << std::hexfloat << sum_.describe() << ": element " << i << " of rank " << rank_
           << " is " << found << ", by rank numbers it is " << due;
      return text.str();
    }
    return {};
  }

 private:
  static constexpr std::size_t kLine = 16;

  [[nodiscard]] bool uneven() const { return sum_.kind == Kind::kReduceScatterV; }
  [[nodiscard]] std::size_t begin_of(const std::vector<std::byte>& buffer) const {
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    return (kLine - address % kLine) % kLine + sum_.shift * width_;
  }
  [[nodiscard]] std::byte* send() { return send_.data() + begin_of(send_); }
  [[nodiscard]] std::byte* recv() { return recv_.data() + begin_of(recv_); }
  [[nodiscard]] const std::byte* recv() const { return recv_.data() + begin_of(recv_); }

  [[nodiscard]] std::uint64_t input(std::uint32_t rank, std::uint64_t element) const {
    return any_bits(mixed(seed_, rank, element), sum_.type, sum_.reduction);
  }
  [[nodiscard]] double term(std::uint32_t rank, std::uint64_t element) const {
    const auto value = static_cast<double>(real_of(input(rank, element), sum_.type));
    return sum_.premultiplied ? step(value, factor_of(rank), sum_.type, WEFT_PROD) : value;
  }
  [[nodiscard]] double expected(std::uint64_t element) const {
    const bool rounds_once = sum_.rounds_once && width_ < sizeof(float);
    const weft_data_type type = rounds_once ? weft_data_type{WEFT_FLOAT32} : sum_.type;
    double so_far = term(0, element);
    for (std::uint32_t rank = 1; rank < ranks_; ++rank)
      so_far = step(so_far, term(rank, element), type, sum_.reduction);
    if (sum_.reduction == WEFT_AVG) so_far = divided(so_far, ranks_, type);
    return rounds_once ? narrowed(static_cast<float>(so_far), sum_.type) : so_far;
  }

  weft_reduction make_factor(weft_context* context, weft_comm* comm) const {
    auto bits = std::bit_cast<std::uint32_t>(factor_of(rank_));
    if (sum_.type == WEFT_BFLOAT16) bits >>= 16;
    weft_premul_sum_options options{};
    options.struct_size = sizeof(options);
    options.type = sum_.type;
    options.residence = WEFT_SCALAR_NOW;
    options.scalar = &bits;
    weft_reduction made = WEFT_SUM;
    must(context, weft_reduction_create_premul_sum(comm, &options, &made));
    return made;
  }

  weft_result call(weft_reduction reduction, weft_comm* comm, weft_stream* stream) {
    switch (sum_.kind) {
      case Kind::kReduce:
        return weft_reduce(send(), recv(), sum_.count, sum_.type, reduction, sum_.root, comm,
                           stream);
      case Kind::kReduceScatter:
        return weft_reduce_scatter(send(), recv(), sum_.count, sum_.type, reduction, comm, stream);
      case Kind::kReduceScatterV:
        return weft_reduce_scatter_v(send(), counts_.data(), offsets_.data(), recv(), sum_.type,
                                     reduction, comm, stream);
      default:
        return weft_all_reduce(send(), recv(), sum_.count, sum_.type, reduction, comm, stream);
    }
  }

  OrderedSum sum_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::uint64_t seed_;
  std::size_t width_;
  std::vector<std::size_t> counts_;  // of blocks
  std::vector<std::size_t> offsets_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::size_t first_ = 0;  // of what is received
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kReduce:
      return "reduce";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kReduceScatterV:
      return "reduce_scatter_v";
    default:
      return "all_reduce";
  }
}

}  // namespace

std::string OrderedSum::describe() const {
  return std::string(name_of(kind)) + " of " + std::to_string(count) + " of type " +
         std::to_string(type) + " by reduction " + std::to_string(reduction) +
         (premultiplied ? ", multiplied first" : "") + ", root " + std::to_string(root) +
         ", shifted by " + std::to_string(shift);
}

std::vector<OrderedSum> ordered_sums(std::uint32_t ranks, std::size_t most) {
  constexpr weft_reduction kReductions[] = {WEFT_SUM, WEFT_AVG, WEFT_SUM, WEFT_PROD,
                                            WEFT_SUM, WEFT_MAX, WEFT_MIN};
  std::vector<OrderedSum> sums;
  const auto number = [&] { return sums.size() + ranks; };
  for (const weft_data_type type : kRealTypes) {
    for (const Kind kind : kReducingKinds) {
      for (const std::size_t count : {std::size_t{1}, most / 9, most}) {
        const auto root = static_cast<std::uint32_t>(kind == Kind::kReduce ? number() % ranks : 0);
        sums.push_back({.kind = kind,
                        .type = type,
                        .reduction = kReductions[number() % std::size(kReductions)],
                        .count = std::max<std::size_t>(count, 1),
                        .root = root,
                        .shift = number() % 5});
      }
    }
  }
  for (const weft_data_type type : {WEFT_FLOAT32, WEFT_BFLOAT16}) {
    for (const Kind kind : kReducingKinds) {
      sums.push_back({.kind = kind, .type = type, .premultiplied = true, .count = most / 2 + 1});
    }
  }
  return sums;
}

std::vector<std::string> wrong_sums(weft_context* context, weft_comm* comm,
                                    const std::vector<OrderedSum>& sums, std::uint64_t seed) {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  must(context, weft_comm_rank(comm, &rank));
  must(context, weft_comm_size(comm, &ranks));
  const StreamHandle stream = make_stream(context);
  std::vector<std::string> wrong;
  // Several at a time without waiting, as programs do.
  constexpr std::size_t kBatch = 8;
  for (std::size_t first = 0; first < sums.size(); first += kBatch) {
    std::vector<std::unique_ptr<OrderedTrial>> trials;
    for (std::size_t i = first; i < std::min(first + kBatch, sums.size()); ++i) {
      trials.push_back(std::make_unique<OrderedTrial>(sums[i], rank, ranks, seed + 1000003 * i));
      trials.back()->start(context, comm, stream.get());
    }
    must(context, weft_stream_synchronize(stream.get()));
    for (const auto& trial : trials) {
      if (std::string text = trial->wrong(); !text.empty()) wrong.push_back(std::move(text));
    }
  }
  return wrong;
}

}  // namespace weft::test
