// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/libraries.h"

#include <algorithm>

#include "bench/gpu/nccl_library.h"
#include "bench/gpu/weft_library.h"

namespace weft::gpu_bench {

struct LoadedLibraries::Apis {
  Loaded<NcclApi> nccl;
  Loaded<WeftApi> weft;
};

namespace {

/// What to load, or nothing where no library of that name takes part.
std::string wanted(const Options& options, const char* name, const std::string& place) {
  const bool takes_part = std::any_of(options.libraries.begin(), options.libraries.end(),
                                      [&](const auto& each) { return each.starts_with(name); });
  return takes_part ? place : "";
}

}  // namespace

LoadedLibraries::LoadedLibraries(const Options& options)
    : apis_(new Apis{Loaded<NcclApi>(wanted(options, "nccl", options.nccl_file)),
                     Loaded<WeftApi>(wanted(options, "weft", options.weft_folder))}) {}

LoadedLibraries::~LoadedLibraries() = default;

std::unique_ptr<Library> LoadedLibraries::make(const std::string& name, const Seat& seat) const {
  if (name == "nccl") return std::make_unique<NcclLibrary>(apis_->nccl.get(), seat);
  if (name == "nccl-window") return std::make_unique<NcclWindowLibrary>(apis_->nccl.get(), seat);
  if (name == "weft-window") return std::make_unique<WeftWindowLibrary>(apis_->weft.get(), seat);
  return std::make_unique<WeftLibrary>(apis_->weft.get(), seat);
}

}  // namespace weft::gpu_bench
