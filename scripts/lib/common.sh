# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Shared by the scripts: saying what is done, installing what is missing, building. To be sourced
# under `set -euo pipefail` by a script that has set `root` to the top of the tree.

# What is needed to build, to run the tests, and to run them under a sanitizer; CI adds the tools
# that read the sources.
build_packages=(
  meson ninja-build g++ pkg-config ccache python3
  libboost-dev libyaml-cpp-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libhwloc-dev libsodium-dev
)
test_packages=(
  libgtest-dev libgmock-dev librapidcheck-dev iproute2 nftables make cmake memcached
  openmpi-bin libopenmpi-dev spin
)
# shellcheck disable=SC2034 # These two are read by scripts/test and .ci/run.
sanitizer_packages=(clang-19 lld-19 libclang-rt-19-dev llvm-19)
# shellcheck disable=SC2034
ci_packages=(clang-tidy-19 clang-format-19 git)

say() { printf '==> %s\n' "$*"; }

# Ends the script with one sentence that names the cause.
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

cpus() { nproc 2>/dev/null || echo 2; }

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# Runs apt-get as root, its output kept in $apt_log; answers its exit status.
apt_quiet() {
  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >>"$apt_log" 2>&1 </dev/null
}

# apt_error LINES: the first error in $apt_log after so many lines, or its last line.
apt_error() {
  awk -v from="$1" 'NR > from && !error && sub(/^E: /, "") { error = $0 } { last = $0 }
    END { print error ? error : last }' "$apt_log"
}

# install_packages NAME...: installs those that are missing, and touches nothing when none is.
install_packages() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "this script installs packages with apt-get, which this machine does not have; install the counterparts of: $*"
  local name missing=()
  for name in "$@"; do
    is_installed "$name" || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "packages are missing and this user can neither install them nor use sudo; run as root: apt-get install ${missing[*]}"
    sudo -n true 2>/dev/null || [[ -t 0 ]] ||
      die "packages are missing and sudo wants a password that nobody can type here; run as root: apt-get install ${missing[*]}"
  fi

  say "installing what is missing, with apt-get: ${missing[*]}"
  apt_log=$(mktemp "${TMPDIR:-/tmp}/weft-apt.XXXXXX") || die "cannot create a temporary file in ${TMPDIR:-/tmp}"
  # A repository of somebody else's that does not answer need not matter: whether the packages
  # can be installed decides. Without that mode apt-get takes one that does not answer for a success.
  local update_failed= updated
  apt_quiet -o APT::Update::Error-Mode=any update ||
    update_failed="apt-get update failed too: $(apt_error 0); "
  updated=$(wc -l <"$apt_log")
  if ! apt_quiet install --no-install-recommends "${missing[@]}"; then
    tail -n 15 "$apt_log" >&2
    die "apt-get could not install ${missing[*]} ($(apt_error "$updated"); ${update_failed}whole output in $apt_log)"
  fi
  rm -f "$apt_log"
}

# prepare_build FOLDER [MESON OPTION...]: a configured build folder. An existing one is kept, with
# the options it has, unless it was made for another tree or was left half-made.
prepare_build() {
  local folder=$1 made_for=
  shift
  # Without a place for its cache ccache refuses to compile at all.
  if command -v ccache >/dev/null && ! ccache -k max_size >/dev/null 2>&1; then
    export CCACHE_DISABLE=1
  fi
  if [[ -e "$folder/meson-private" ]]; then
    made_for=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["directories"]["source"])' \
      "$folder/meson-info/meson-info.json" 2>/dev/null || true)
    if [[ "$made_for" != "$root" || ! -e "$folder/build.ninja" ]]; then
      say "removing ${folder#"$root"/}, which is incomplete or belongs to another tree"
      rm -rf "$folder" || die "cannot remove the unusable build folder $folder"
    fi
  fi
  if [[ ! -e "$folder/build.ninja" ]]; then
    say "configuring ${folder#"$root"/}"
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/weft-setup.XXXXXX") || die "cannot create a temporary file in ${TMPDIR:-/tmp}"
    if ! meson setup "$folder" "$root" "$@" >"$log" 2>&1; then
      tail -n 20 "$log" >&2
      local cause
      cause=$(grep -m 1 'ERROR:' "$log" || tail -n 1 "$log")
      rm -f "$log"
      die "meson could not configure $folder (${cause##*ERROR: })"
    fi
    rm -f "$log"
  fi
  [[ -w "$folder" ]] ||
    die "cannot write to $folder, which belongs to $(stat -c %U "$folder"); remove it or run as that user"
}

# -g1: what a backtrace shows, for three quarters of the compiler's time.
line_tables=-g1

# g++ frees no memory while it compiles: a sixth of its time, for half as much memory again.
spend_memory='--param=ggc-min-heapsize=2000000'

# All sources of a target are read as one unit, so that what they share is compiled once.
# That each source includes what it needs is seen by `.ci/run includes`.
read_once=(-Dunity=on -Dunity_size=1000 -Dprecompiled=true)
# Or it compiles anew whatever reads a precompiled header; that is told from others by the file beside it.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1

# prepare_plain_build true|false: build/, with the tests or not. Tests once wanted stay.
prepare_plain_build() {
  local folder="$root/build"
  # Where no GPU runs them, nobody waits for kernels to be assembled.
  local ptx_only=true
  [[ ! -e /dev/nvidiactl ]] || ptx_only=false
  prepare_build "$folder" --buildtype=debugoptimized "-Dc_args=$line_tables" \
    "-Dcpp_args=$line_tables $spend_memory" "${read_once[@]}" "-Dtests=$1" "-Dgpu_ptx_only=$ptx_only" \
    -Dseldom_optimised=false
  if [[ "$1" == true && "$(build_option "$folder" tests)" != true ]]; then
    say "adding the tests to build/"
    meson configure "$folder" -Dtests=true >/dev/null || die "meson could not add the tests to $folder"
  fi
}

# build_option FOLDER NAME: the value that a configured folder has.
build_option() {
  python3 -c 'import json, sys
for option in json.load(open(sys.argv[1])):
    if option["name"] == sys.argv[2]:
        print(str(option["value"]).lower())' "$1/meson-info/intro-buildoptions.json" "$2"
}

# prepare_sanitizer_build FOLDER SANITIZER ARGUMENTS [MESON OPTION...]: by clang, which takes half to
# two thirds of the time that g++ takes with sanitizers, and has libFuzzer. lld takes a quarter of the
# time of GNU ld.
prepare_sanitizer_build() {
  local folder=$1 sanitizer=$2 arguments="-gline-tables-only $3" ccache=
  shift 3
  ! command -v ccache >/dev/null || ccache="ccache "
  CC="${ccache}clang-19" CXX="${ccache}clang++-19" CC_LD=lld CXX_LD=lld prepare_build "$folder" \
    "${read_once[@]}" -Doptimization=1 -Ddebug=true -Db_lundef=false "-Db_sanitize=$sanitizer" \
    "-Dc_args=$arguments" "-Dcpp_args=$arguments" "$@"
}

# The tests and the fuzzers share one build. Three checks of every access take a third of the
# compiler's time; a null pointer ends the program anyway, and beyond objects the address sanitizer
# looks. Nobody goes on after what is found: a seventh less again.
prepare_asan_build() {
  prepare_sanitizer_build "$root/build-asan" address,undefined \
    '-fsanitize=fuzzer-no-link -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all' -Dfuzz=true
}

prepare_tsan_build() { prepare_sanitizer_build "$root/build-tsan" thread ''; }

# build FOLDER [TARGET...]
build() {
  local folder=$1 quiet=()
  shift
  # Without a terminal the progress would be a line for each file.
  [[ -t 1 ]] || quiet=(--quiet)
  local patience=
  [[ -e "$folder/.ninja_log" ]] || patience="; the first time takes some minutes"
  say "building ${folder#"$root"/} with $(cpus) jobs$patience"
  ninja -C "$folder" "${quiet[@]}" -j "$(cpus)" "$@" ||
    die "the build in $folder failed; the first error stands above"
}
