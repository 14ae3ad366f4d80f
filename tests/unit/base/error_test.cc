// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Errors: what they keep, how they read, and the two macros that pass them on.
#include "core/base/error.h"

#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Error, KeepsWhatItWasMadeOf) {
  const Error error(WEFT_ERROR_CONFIG, "cannot read a.yaml", "give it a version");
  EXPECT_EQ(error.code(), WEFT_ERROR_CONFIG);
  EXPECT_EQ(error.source(), ErrorSource::kWeft);
  EXPECT_EQ(error.native(), 0);
  EXPECT_EQ(error.what(), "cannot read a.yaml");
  EXPECT_EQ(error.hint(), "give it a version");
  EXPECT_TRUE(error.chain().empty());
}

TEST(Error, ReadsAsWhatFailedAndWhatToTry) {
  EXPECT_EQ(Error(WEFT_ERROR_CONFIG, "no").to_string(), "no");
  EXPECT_EQ(Error(WEFT_ERROR_CONFIG, "no", "yes").to_string(), "no; try: yes");
}

TEST(Error, ContextIsPrintedOutermostFirst) {
  Error error(WEFT_ERROR_NETWORK, "refused");
  error.with_context("connecting to rank 3").with_context("building the ring");
  EXPECT_EQ(error.to_string(), "building the ring: connecting to rank 3: refused");
  const Error moved = Error(WEFT_ERROR_NETWORK, "refused").with_context("connecting");
  EXPECT_EQ(moved.to_string(), "connecting: refused");
}

TEST(Error, ErrnoIsKeptAndSpelledOut) {
  const auto error = Error::from_errno(EACCES, "cannot open /x", "chmod");
  EXPECT_EQ(error.source(), ErrorSource::kErrno);
  EXPECT_EQ(error.native(), EACCES);
  EXPECT_EQ(error.to_string(), "cannot open /x (errno 13, Permission denied); try: chmod");
}

TEST(Error, ExhaustionAlwaysComesWithAdvice) {
  EXPECT_EQ(Error::from_errno(EMFILE, "x").hint(), "raise the limit of open files (ulimit -n)");
  EXPECT_EQ(Error::from_errno(ENFILE, "x").hint(), "raise the system's limit fs.file-max");
  EXPECT_EQ(Error::from_errno(ENOMEM, "x").hint(), "free memory, or raise the limits of memory");
  EXPECT_EQ(Error::from_errno(EMFILE, "x", "correct the file").hint(),
            "raise the limit of open files (ulimit -n)");
  EXPECT_EQ(Error::from_errno(ENOMEM, "x", "wait").hint(), "wait");
  EXPECT_EQ(Error::from_errno(EPERM, "x").hint(), "");
}

TEST(Error, ErrnoChoosesTheCode) {
  EXPECT_EQ(Error::from_errno(ENOMEM, "x").code(), WEFT_ERROR_OUT_OF_MEMORY);
  for (const int value : {EMFILE, ENFILE, EAGAIN, ENOSPC, ENOBUFS}) {
    EXPECT_EQ(Error::from_errno(value, "x").code(), WEFT_ERROR_OUT_OF_RESOURCES) << value;
  }
  EXPECT_EQ(Error::from_errno(EPERM, "x").code(), WEFT_ERROR_SYSTEM);
}

TEST(Error, NativeCodesOfOthersNameTheReporter) {
  Error error(WEFT_ERROR_NETWORK, "no queue pair");
  error.with_native(ErrorSource::kVerbs, -7);
  EXPECT_EQ(error.to_string(), "no queue pair (verbs code -7)");
}

TEST(Error, TheRankToBlameIsNotShownTwice) {
  Error error(WEFT_ERROR_PEER, "rank 2 died", "see its output");
  error.with_native(ErrorSource::kPeer, 2);
  EXPECT_EQ(error.native(), 2);
  EXPECT_EQ(error.to_string(), "rank 2 died; try: see its output");
}

TEST(Error, EveryCodeHasANameAndASentence) {
  std::set<std::string_view> names;
  for (weft_result code = WEFT_ERROR_INTERNAL; code <= WEFT_AGAIN; ++code) {
    EXPECT_TRUE(names.insert(result_name(code)).second) << result_name(code);
    EXPECT_TRUE(result_name(code).starts_with("WEFT_")) << code;
    EXPECT_NE(result_description(code), result_description(1000)) << code;
  }
  EXPECT_EQ(result_name(WEFT_ERROR_TIMEOUT), "WEFT_ERROR_TIMEOUT");
  EXPECT_EQ(result_name(1000), "unknown result");
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail(WEFT_ERROR_INVALID_ARGUMENT, "odd", "an even number");
  return value / 2;
}

Result<int> quarter(int value) {
  WEFT_TRY_ASSIGN(const int first, half(value));
  int second = 0;
  WEFT_TRY_ASSIGN(second, half(first));
  return second;
}

Status reach_quarter(int value, bool& reached) {
  WEFT_TRY(quarter(value));
  reached = true;
  return {};
}

TEST(Try, GoesOnWithAValue) {
  EXPECT_EQ(quarter(12).value(), 3);
  bool reached = false;
  EXPECT_TRUE(reach_quarter(8, reached).has_value());
  EXPECT_TRUE(reached);
}

TEST(Try, ReturnsTheErrorUnchanged) {
  bool reached = false;
  const auto status = reach_quarter(6, reached);
  ASSERT_FALSE(status.has_value());
  EXPECT_FALSE(reached);
  EXPECT_EQ(status.error().code(), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status.error().to_string(), "odd; try: an even number");
}

TEST(Try, MovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    WEFT_TRY_ASSIGN(const auto owned, make());
    return *owned;
  };
  EXPECT_EQ(use().value(), 5);
}

}  // namespace
}  // namespace weft
