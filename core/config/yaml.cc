// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/yaml.h"

#include <exception>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/config/problems.h"

namespace weft {
namespace {

/// Leaves the parser from within a callback; never leaves this file.
struct Refused : std::exception {
  explicit Refused(std::string line) : text(std::move(line)) {}
  [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

/// Builds the tree from the parser's events, so that what is refused is refused while it is read.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Origin& base, Problems& problems) : base_(base), problems_(problems) {}

  [[nodiscard]] YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, {}, anchor);
    add(node_at(mark, YamlKind::kNull));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { refuse_anchor(mark); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    YamlNode node = node_at(mark, YamlKind::kScalar);
    node.quoted = tag == "!";
    node.text = value;
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlKind::kSequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlKind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
    std::set<std::string> names;
  };

  static YamlNode node_at(const YAML::Mark& mark, YamlKind kind) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view message) const {
    const Origin where = origin_of(node_at(mark, YamlKind::kNull), base_);
    throw Refused(fmt::format("{}: {}", where.to_string(), message));
  }

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    refuse(mark, "anchors and aliases are not accepted; write the value out");
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse_anchor(mark);
    // The parser says "?" for plain nodes and "!" for quoted scalars.
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("the tag {} is not accepted; leave it out", in_quotes(tag)));
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlKind kind) {
    check(mark, tag, anchor);
    if (frames_.size() >= static_cast<std::size_t>(kMaximumYamlDepth)) {
      refuse(mark, fmt::format("lists and maps are nested more than {} deep", kMaximumYamlDepth));
    }
    if (!frames_.empty() && frames_.back().node.kind == YamlKind::kMap && !frames_.back().has_key) {
      refuse(mark, "a list or map is not accepted as a key");
    }
    frames_.push_back(Frame{.node = node_at(mark, kind), .key = {}, .has_key = false, .names = {}});
  }

  void close() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == YamlKind::kSequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.has_key) {
      frame.key = std::move(node);
      frame.has_key = true;
    } else {
      frame.has_key = false;
      add_entry(frame, std::move(node));
    }
  }

  void add_entry(Frame& frame, YamlNode value) {
    if (!frame.names.insert(frame.key.text).second) {
      int first_line = 0;
      // One among the findings that are kept: the search is for nothing otherwise.
      for (const YamlNode::Entry& entry : frame.node.entries) {
        if (problems_.full()) break;
        if (entry.key.text == frame.key.text) first_line = entry.key.line;
      }
      problems_.add(origin_of(frame.key, base_),
                    fmt::format("duplicate key {}; the first is on line {}",
                                in_quotes(frame.key.text), first_line));
      return;
    }
    frame.node.entries.push_back({std::move(frame.key), std::move(value)});
  }

  const Origin& base_;
  Problems& problems_;
  YamlNode root_;
  std::vector<Frame> frames_;
};

}  // namespace

Origin origin_of(const YamlNode& node, const Origin& base) {
  Origin origin = base;
  if (origin.kind == OriginKind::kFile) {
    origin.line = node.line;
    origin.column = node.column;
  }
  return origin;
}

Result<YamlNode> parse_yaml(std::string_view text, const Origin& base) {
  const auto start = [&base] { return origin_of(YamlNode{}, base).to_string(); };
  if (text.size() > kMaximumYamlBytes) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: larger than 1 MiB", start()));
  }
  Problems problems;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(base, problems);
    parser.HandleNextDocument(builder);
    Problems ignored;
    TreeBuilder second(base, ignored);
    if (parser.HandleNextDocument(second)) {
      return fail(WEFT_ERROR_CONFIG, fmt::format("{}: holds more than one YAML document", start()));
    }
    WEFT_TRY(problems.status());
    return builder.take_root();
  } catch (const Refused& refused) {
    return fail(WEFT_ERROR_CONFIG, refused.text);
  } catch (const YAML::Exception& error) {
    YamlNode place;
    if (!error.mark.is_null()) {
      place.line = error.mark.line + 1;
      place.column = error.mark.column + 1;
    }
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: not valid YAML: {}",
                                               origin_of(place, base).to_string(), error.msg));
  } catch (const std::exception& error) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: cannot be parsed: {}", start(), error.what()));
  }
}

}  // namespace weft
