// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What launchers say by environment variables, as a pure function.

#include "core/bootstrap/job_environment.h"

#include <netdb.h>

#include <gtest/gtest.h>

namespace weft {
namespace {

const std::string kHex(64, 'a');

EnvironmentMap good() {
  return {{"WEFT_RANK", "1"},
          {"WEFT_WORLD_SIZE", "4"},
          {"WEFT_LOCAL_RANK", "0"},
          {"WEFT_ROOT", "10.0.0.1:29500"},
          {"WEFT_SECRET", kHex}};
}

std::string error_of(const EnvironmentMap& environment) {
  const auto job = read_job_environment(environment);
  if (job) return "no error";
  EXPECT_EQ(job.error().code(), WEFT_ERROR_CONFIG);
  return job.error().what();
}

TEST(JobEnvironment, IsRead) {
  const auto job = read_job_environment(good());
  ASSERT_TRUE(job) << job.error().to_string();
  EXPECT_EQ(job->launcher, "weft run");
  EXPECT_EQ(job->rank, 1);
  EXPECT_EQ(job->world_size, 4);
  EXPECT_EQ(job->local_rank, 0);
  EXPECT_EQ(job->root_host, "10.0.0.1");
  EXPECT_EQ(job->root_port, 29500);
  EXPECT_EQ(job->secret[31], std::byte{0xaa});
  EXPECT_EQ(secret_to_hex(job->secret), kHex);
}

TEST(JobEnvironment, ErrorsNameTheVariable) {
  for (const char* name : {"WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_ROOT", "WEFT_SECRET"}) {
    auto environment = good();
    environment.erase(name);
    EXPECT_EQ(error_of(environment),
              "the environment variable " + std::string(name) + " is not set");
    environment[name] = "";
    EXPECT_EQ(error_of(environment),
              "the environment variable " + std::string(name) + " is not set");
    environment[name] = "x y";
    EXPECT_NE(error_of(environment).find(name), std::string::npos);
  }
  auto environment = good();
  environment["WEFT_LOCAL_RANK"] = "x y";
  EXPECT_NE(error_of(environment).find("WEFT_LOCAL_RANK"), std::string::npos);
  environment = good();
  environment["WEFT_RANK"] = "-1";
  EXPECT_EQ(error_of(environment),
            "the environment variable WEFT_RANK is \"-1\", which is no number from 0 to 65535");
  environment["WEFT_RANK"] = "4";
  EXPECT_EQ(error_of(environment),
            "the environment variable WEFT_RANK is 4, but WEFT_WORLD_SIZE is 4");
  for (const char* root :
       {"host", ":1", "host:", "host:0", "host:65536", "fd00::1:5", "[]:1", "host:1x", "host:-1"}) {
    environment = good();
    environment["WEFT_ROOT"] = root;
    EXPECT_EQ(error_of(environment), "the environment variable WEFT_ROOT is \"" +
                                         std::string(root) + "\", which is no HOST:PORT");
  }
  for (const std::string& secret : {kHex + "a", kHex.substr(1), kHex.substr(2), "g" + kHex}) {
    environment = good();
    environment["WEFT_SECRET"] = secret;
    EXPECT_EQ(error_of(environment),
              "the environment variable WEFT_SECRET is not made of 64 hexadecimal digits");
  }
}

TEST(JobEnvironment, EachCommunicatorHasAnIdOfItsOwn) {
  const auto job = *read_job_environment(good());
  const auto first = unique_id_of(job, 0);
  const auto second = unique_id_of(job, 1);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *unique_id_of(job, 0));
  EXPECT_NE(*first, *second);
  EXPECT_NE(read_unique_id(*first)->secret, job.secret);
  EXPECT_EQ(read_unique_id(*first)->roots, read_unique_id(*second)->roots);
  EXPECT_EQ(read_unique_id(*first)->roots.front().to_string(), "10.0.0.1:29500");
}

TEST(JobEnvironment, AHostNameIsResolved) {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0) {
    GTEST_SKIP() << "this machine cannot resolve even localhost: it has no /etc/hosts";
  }
  freeaddrinfo(found);
  auto job = *read_job_environment(good());
  job.root_host = "localhost";
  const auto id = unique_id_of(job, 0);
  ASSERT_TRUE(id) << id.error().to_string();
  EXPECT_TRUE(read_unique_id(*id)->roots.front().is_this_host());
}

TEST(JobEnvironment, AHostNameThatNobodyKnowsIsNamed) {
  auto job = *read_job_environment(good());
  job.root_host = "no.such.host.invalid";
  const auto none = unique_id_of(job, 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), WEFT_ERROR_NETWORK);
  EXPECT_NE(none.error().what().find("no.such.host.invalid"), std::string::npos);
}

TEST(JobEnvironment, OfThisProcessIsRead) {
  EXPECT_TRUE(current_environment().contains("PATH"));
}

}  // namespace
}  // namespace weft
