// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From YAML to rules. Every message begins with the place: FILE:LINE:COL.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "plugins/tuner/table.h"

namespace weft::tuner {
namespace {

constexpr double kLongestUs = kLongestNs / 1e3;
constexpr double kFastestMbs = 1e9;
constexpr std::size_t kLongestText = 64;

/// A word of the file, for a message.
std::string in_quotes(const std::string& text) {
  std::string shown = text.substr(0, kLongestText);
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return fmt::format("\"{}\"{}", shown, text.size() > kLongestText ? "..." : "");
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  [[nodiscard]] std::vector<Rule> read(const YAML::Node& root);

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    // Without a mark it is the file as a whole.
    const int line = mark.is_null() ? 1 : mark.line + 1;
    const int column = mark.is_null() ? 1 : mark.column + 1;
    throw BadTable(fmt::format("{}:{}:{}: {}", file_, line, column, what));
  }

 private:
  using Handler = std::function<void(const YAML::Node&)>;
  struct Key {
    const char* name;
    Handler read;
  };

  void read_map(const YAML::Node& node, const char* what, std::initializer_list<Key> keys) const;
  [[nodiscard]] const std::string& word(const YAML::Node& node, const char* key) const;
  [[nodiscard]] std::uint64_t whole(const YAML::Node& node, const char* key) const;
  [[nodiscard]] std::uint64_t bytes(const YAML::Node& node, const char* key) const;
  [[nodiscard]] std::uint64_t thousandths(const YAML::Node& node, const char* key, double least,
                                          double most) const;
  [[nodiscard]] Range range(const YAML::Node& node, const char* key, bool in_bytes) const;
  [[nodiscard]] std::vector<Sample> samples(const YAML::Node& node) const;
  [[nodiscard]] Rule rule(const YAML::Node& node) const;

  template <typename T>
  [[nodiscard]] T named(const YAML::Node& node, const char* key,
                        std::optional<T> (*find)(std::string_view), const char* known) const {
    const std::string& name = word(node, key);
    const auto found = find(name);
    if (!found)
      refuse(node.Mark(), fmt::format("{}: {} is none of {}", key, in_quotes(name), known));
    return *found;
  }

  const std::string& file_;
};

void Reader::read_map(const YAML::Node& node, const char* what,
                      std::initializer_list<Key> keys) const {
  if (!node.IsMap()) refuse(node.Mark(), fmt::format("{} takes a map of keys", what));
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string& name = word(entry.first, "a key");
    const auto known = std::ranges::find_if(keys, [&](const Key& key) { return name == key.name; });
    if (known == keys.end()) {
      refuse(entry.first.Mark(), fmt::format("{}: unknown key {}", what, in_quotes(name)));
    }
    if (!seen.insert(name).second) {
      refuse(entry.first.Mark(), fmt::format("{}: duplicate key {}", what, in_quotes(name)));
    }
    known->read(entry.second);
  }
}

const std::string& Reader::word(const YAML::Node& node, const char* key) const {
  if (!node.IsScalar()) refuse(node.Mark(), fmt::format("{} takes one word", key));
  return node.Scalar();
}

std::uint64_t Reader::whole(const YAML::Node& node, const char* key) const {
  const std::string& text = word(node, key);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(node.Mark(), fmt::format("{}: {} is no whole number", key, in_quotes(text)));
  }
  return number;
}

std::uint64_t Reader::bytes(const YAML::Node& node, const char* key) const {
  const std::string& text = word(node, key);
  std::uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  constexpr std::array<std::pair<std::string_view, int>, 5> kUnits = {
      {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};
  const auto known =
      std::ranges::find_if(kUnits, [&](const auto& candidate) { return candidate.first == unit; });
  if (error != std::errc() || known == kUnits.end() || number > UINT64_MAX >> known->second) {
    refuse(node.Mark(), fmt::format("{}: {} is no size; write it as 4096 or 4KiB, with B, KiB, "
                                    "MiB or GiB",
                                    key, in_quotes(text)));
  }
  return number << known->second;
}

/// A decimal number times 1000, to the nearest.
std::uint64_t Reader::thousandths(const YAML::Node& node, const char* key, double least,
                                  double most) const {
  const std::string& text = word(node, key);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    refuse(node.Mark(), fmt::format("{}: {} is no number", key, in_quotes(text)));
  }
  if (number < least || number > most) {
    refuse(node.Mark(),
           fmt::format("{}: {} is not within {} to {}", key, in_quotes(text), least, most));
  }
  return static_cast<std::uint64_t>(std::llround(number * 1000));
}

Range Reader::range(const YAML::Node& node, const char* key, bool in_bytes) const {
  const auto number = [&](const YAML::Node& end) {
    return in_bytes ? bytes(end, key) : whole(end, key);
  };
  if (node.IsScalar()) {
    const std::uint64_t only = number(node);
    return {.from = only, .to = only};
  }
  if (!node.IsSequence() || node.size() != 2) {
    refuse(node.Mark(), fmt::format("{} takes a number, or [FROM, TO]", key));
  }
  Range range{.from = number(node[0]), .to = UINT64_MAX};
  if (!node[1].IsScalar() || node[1].Scalar() != "max") range.to = number(node[1]);
  if (range.from > range.to) {
    refuse(node.Mark(), fmt::format("{} goes from {} to {}", key, range.from, range.to));
  }
  return range;
}

std::vector<Sample> Reader::samples(const YAML::Node& node) const {
  if (!node.IsSequence() || node.size() > kMostSamples) {
    refuse(node.Mark(),
           fmt::format("measured takes a list of [BYTES, MICROSECONDS], at most {}", kMostSamples));
  }
  std::vector<Sample> all;
  for (const auto& item : node) {
    if (!item.IsSequence() || item.size() != 2) {
      refuse(item.Mark(), "measured takes a list of [BYTES, MICROSECONDS]");
    }
    all.push_back({.bytes = bytes(item[0], "measured"),
                   .time_ns = thousandths(item[1], "measured", 0, kLongestUs)});
  }
  return all;
}

Rule Reader::rule(const YAML::Node& node) const {
  Rule rule;
  rule.line = node.Mark().line + 1;
  bool has_operation = false;
  Cost cost;
  bool has_cost = false;
  read_map(
      node, "a rule",
      {{"operation",
        [&](const YAML::Node& value) {
          rule.operation = named(value, "operation", operation_of,
                                 "all_reduce, broadcast, all_gather, reduce_scatter, reduce");
          has_operation = true;
        }},
       {"algorithm",
        [&](const YAML::Node& value) {
          rule.algorithm = named(value, "algorithm", algorithm_of,
                                 "ring, tree, pat, direct, two-shot, multicast");
        }},
       {"protocol",
        [&](const YAML::Node& value) {
          rule.protocol = named(value, "protocol", protocol_of, "simple, ll, ll128");
        }},
       {"device",
        [&](const YAML::Node& value) {
          rule.device = word(value, "device");
          const auto plain = [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
          };
          if (rule.device.empty() || !std::ranges::all_of(rule.device, plain)) {
            refuse(value.Mark(), fmt::format("device: {} is no kind of device; write host or cuda",
                                             in_quotes(rule.device)));
          }
        }},
       {"ranks", [&](const YAML::Node& value) { rule.ranks = range(value, "ranks", false); }},
       {"hosts", [&](const YAML::Node& value) { rule.hosts = range(value, "hosts", false); }},
       {"bytes", [&](const YAML::Node& value) { rule.bytes = range(value, "bytes", true); }},
       {"use",
        [&](const YAML::Node& value) {
          const std::string& how = word(value, "use");
          if (how != "prefer" && how != "never") {
            refuse(value.Mark(), fmt::format("use: {} is none of prefer, never", in_quotes(how)));
          }
          rule.use = how == "prefer" ? Use::kPrefer : Use::kNever;
        }},
       {"latency_us",
        [&](const YAML::Node& value) {
          cost.latency_ns = thousandths(value, "latency_us", 0, kLongestUs);
          has_cost = true;
        }},
       {"bandwidth_mbs",
        [&](const YAML::Node& value) {
          cost.bytes_per_ms = thousandths(value, "bandwidth_mbs", 0.001, kFastestMbs);
          has_cost = true;
        }},
       {"channels",
        [&](const YAML::Node& value) {
          const std::uint64_t channels = whole(value, "channels");
          if (channels == 0 || channels > kMostChannels) {
            refuse(value.Mark(),
                   fmt::format("channels: {} is not within 1 to {}", channels, kMostChannels));
          }
          rule.channels = static_cast<std::uint32_t>(channels);
        }},
       {"measured", [&](const YAML::Node& value) { rule.measured = samples(value); }}});
  if (!has_operation) refuse(node.Mark(), "a rule needs an operation");
  if (has_cost) rule.cost = cost;
  if (!has_cost && rule.use == Use::kByCost && rule.channels == 0) {
    refuse(node.Mark(), "a rule says nothing; it needs latency_us, bandwidth_mbs, channels or use");
  }
  return rule;
}

std::vector<Rule> Reader::read(const YAML::Node& root) {
  std::vector<Rule> rules;
  bool has_version = false;
  read_map(root, "a table",
           {{"version",
             [&](const YAML::Node& value) {
               has_version = true;
               if (word(value, "version") != "1") {
                 refuse(value.Mark(), fmt::format("version {} is not known here; this Weft reads 1",
                                                  in_quotes(value.Scalar())));
               }
             }},
            {"rules", [&](const YAML::Node& value) {
               if (value.IsNull()) return;
               if (!value.IsSequence()) refuse(value.Mark(), "rules takes a list");
               if (value.size() > kMostRules) {
                 refuse(value.Mark(), fmt::format("more than {} rules", kMostRules));
               }
               for (const auto& item : value)
                 rules.push_back(rule(item));
             }}});
  if (!has_version) refuse(root.Mark(), "a table begins with version: 1");
  return rules;
}

/// Looks at a document before any of it is kept: what a table has no use for could cost memory
/// without end, as could a further document.
class Gate : public YAML::EventHandler {
 public:
  explicit Gate(const Reader& reader) : reader_(reader) {}
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { check(mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { check(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                const std::string& /*value*/) override {
    check(mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor);
  }
  void OnMapEnd() override { --depth_; }

 private:
  void check(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) reader_.refuse(mark, "anchors and aliases are not accepted");
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    constexpr int kDeepest = 8;
    check(mark, anchor);
    if (++depth_ > kDeepest) reader_.refuse(mark, "lists and maps are nested more than 8 deep");
  }

  const Reader& reader_;
  int depth_ = 0;
};

void check_events(const std::string& text, const Reader& reader) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Gate gate(reader);
  if (!parser.HandleNextDocument(gate)) {
    reader.refuse(YAML::Mark::null_mark(), "holds no YAML document");
  }
  if (parser.HandleNextDocument(gate)) {
    reader.refuse(YAML::Mark::null_mark(), "holds more than one YAML document");
  }
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

Table parse_table(const std::string& text, const std::string& file) {
  Reader reader(file);
  if (text.size() > kMostTableBytes) reader.refuse(YAML::Mark::null_mark(), "larger than 1 MiB");
  try {
    check_events(text, reader);
    return {.name = std::filesystem::path(file).filename().string(),
            .hash = hash_of(text),
            .rules = reader.read(YAML::Load(text))};
  } catch (const YAML::Exception& error) {
    reader.refuse(error.mark, "not valid YAML: " + error.msg);
  }
}

}  // namespace weft::tuner
