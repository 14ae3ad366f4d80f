#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# Weft as it is installed: put into a root of its own, found by pkg-config and by CMake, used by a C
# program, the examples, tests that call every public function and a plugin built out of the tree, all against
# installed files alone.
#
#   install_test.sh SOURCE BUILD SANITIZER
#
# Exit status 77 where this build cannot be tested so.
set -euo pipefail
source_root=$1
build=$2
sanitizer=$3

say() { printf '== %s\n' "$*"; }
fail() {
  echo "FAILED: $*"
  exit 1
}

if [[ "$sanitizer" != none ]]; then
  echo "a library with a sanitizer is not for programs without: nothing to test in this build"
  exit 77
fi
for tool in pkg-config make gcc g++; do
  if ! command -v "$tool" >/dev/null; then
    echo "this test needs $tool"
    exit 77
  fi
done
# What was set for the build or the tests shall not help here.
for name in $(compgen -v WEFT_ || true); do unset "$name"; done
unset PKG_CONFIG_PATH LD_LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022

say "install"
install=$(sed -nE '/^ *COMMAND = .* install --no-rebuild$/{s/^ *COMMAND = //p;q}' "$build/build.ninja")
[[ -n "$install" ]] || fail "$build has no way to install"
(cd "$build" && DESTDIR="$scratch/root" $install --quiet)
pc=$(find "$scratch/root" -name weft.pc)
[[ -n "$pc" ]] || fail "no weft.pc is installed"
export PKG_CONFIG_LIBDIR=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$scratch/root
# Some versions of pkg-config put the root before variables, some do not.
installed_at() { echo "$PKG_CONFIG_SYSROOT_DIR${1#"$PKG_CONFIG_SYSROOT_DIR"}"; }
libraries=$(installed_at "$(pkg-config --variable=libdir weft)")
plugins=$(installed_at "$(pkg-config --variable=plugindir weft-plugin-api)")
prefix=$(pkg-config --variable=prefix weft)
prefix=${prefix#"$PKG_CONFIG_SYSROOT_DIR"}
weft=$(find "$scratch/root" -path '*/bin/weft')
[[ -x "$weft" ]] || fail "no command weft is installed"
[[ -e "$libraries/libweft.so.0" ]] || fail "no libweft.so.0 in $libraries"
read -ra flags < <(pkg-config --cflags --libs weft)

for id in p2p shm net-socket tuner; do
  [[ -e "$plugins/weft-$id.so" ]] || fail "no weft-$id.so in $plugins"
done
# The command looks where it was meant to be installed: shown to it there, for a moment.
# shellcheck disable=SC2016  # for the shell in there
look='mount --bind "$1$2" "$2" && exec "$2/bin/weft" plugin list'
if [[ -d "$prefix" ]] && unshare --mount true 2>/dev/null; then
  say "the installed command finds the installed plugins"
  listed=$(unshare --mount --propagation private bash -c "$look" look "$scratch/root" "$prefix") ||
    fail "the installed command lists nothing"
  for id in p2p shm net-socket tuner; do
    grep -q "^$id .* ${plugins#"$scratch/root"}/weft-$id.so$" <<<"$listed" || fail "no $id in: $listed"
  done
  [[ $(wc -l <<<"$listed") == 5 ]] || fail "more is listed than was installed: $listed"
else
  say "not tested, as it needs root: that the installed command finds the installed plugins"
fi

say "a C11 program, by pkg-config"
gcc -std=c11 -Wall -Wextra -pedantic -Werror "$source_root/tests/integration/install/consumer.c" \
  "${flags[@]}" -o "$scratch/consumer"
export LD_LIBRARY_PATH=$libraries
said=$("$scratch/consumer")
echo "$said"
[[ "$said" == *"over p2p: "* ]] || fail "the installed library does not use the installed p2p"

# run_examples FOLDER: the programs of examples/ that were built there do what they show.
run_examples() {
  local rank pids=()
  for rank in 1 2 0; do
    "$1/all_reduce" "$scratch/id" $rank 3 >"$scratch/rank-$rank" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank"; done
  for rank in 0 1 2; do
    [[ $(<"$scratch/rank-$rank") == "rank $rank of 3: the sums begin with 6" ]] ||
      fail "rank $rank says $(<"$scratch/rank-$rank")"
  done
  "$weft" run -n 2 --no-prefix -- "$1/all_reduce" >"$scratch/launched"
  [[ $(sort "$scratch/launched") == *"rank 0 of 2: the sums begin with 3"*"rank 1 of 2: the sums begin with 3"* ]] ||
    fail "weft run: $(<"$scratch/launched")"
  "$1/threads" >"$scratch/threads-said"
  [[ $(grep -c '^rank . of 4: the maxima begin with ' "$scratch/threads-said") == 4 ]] ||
    fail "the threads say $(<"$scratch/threads-said")"
}

say "the examples, by pkg-config"
mkdir "$scratch/examples"
gcc -std=c11 -Wall -Wextra -pedantic -Werror "$source_root/examples/c/all_reduce.c" "${flags[@]}" \
  -o "$scratch/examples/all_reduce"
g++ -std=c++20 -Wall -Wextra -pedantic -Werror "$source_root/examples/cpp/threads.cc" "${flags[@]}" -pthread \
  -o "$scratch/examples/threads"
run_examples "$scratch/examples"

# by_cmake ROOT LANGUAGE...: the examples, configured and built against what lies below ROOT.
by_cmake() (
  build=$(mktemp -d "$scratch/cmake.XXXXXX")
  # What they are linked with they find by themselves.
  unset LD_LIBRARY_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
  for language in "${@:2}"; do
    cmake -S "$source_root/examples/$language" -B "$build/$language" -DCMAKE_PREFIX_PATH="$1$prefix" \
      -DCMAKE_COMPILE_WARNING_AS_ERROR=ON >"$build/log" || fail "cmake: $(<"$build/log")"
    cmake --build "$build/$language" >"$build/log" 2>&1 || fail "cmake --build: $(<"$build/log")"
  done
  ln -s "$build/cpp/threads" "$build/c/threads"
  run_examples "$build/c"
  found=$(sed -n 's/^weft_DIR:PATH=//p' "$build/c/CMakeCache.txt")
  [[ "$found" == "$1"/* ]] || fail "CMake found another Weft: $found"
  for wanted in 0.0.1 0.2 1.0; do
    mkdir -p "$build/other"
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(other NONE)\nfind_package(weft %s REQUIRED)\n' \
      "$wanted" >"$build/other/CMakeLists.txt"
    ! cmake -S "$build/other" -B "$build/other/build" -Dweft_DIR="$found" >"$build/log" 2>&1 ||
      fail "CMake takes $version for a $wanted"
    grep -q "version: $version" "$build/log" || fail "cmake says nothing of version $version: $(<"$build/log")"
  done
)

version=$(pkg-config --modversion weft)
if command -v cmake >/dev/null; then
  say "the examples, by CMake"
  languages=(c cpp)
  ! command -v mpicc >/dev/null || languages+=(mpi)
  by_cmake "$scratch/root" "${languages[@]}"
  say "the examples, by CMake, after the installation has been moved"
  cp -a "$scratch/root" "$scratch/moved"
  mv "$scratch/root" "$scratch/hidden"
  weft=${weft/"$scratch/root"/"$scratch/moved"}
  by_cmake "$scratch/moved" c cpp
  mv "$scratch/hidden" "$scratch/root"
  weft=${weft/"$scratch/moved"/"$scratch/root"}
else
  say "not tested, as there is no cmake (Debian's package cmake): the examples, by CMake"
fi

say "every function of the public API, by the installed headers and library"
# The build's own tests include the same headers and load the library by its name.
headers=$(installed_at "$(pkg-config --variable=includedir weft)")
for header in weft.h types.h; do
  cmp "$source_root/include/weft/$header" "$headers/weft/$header" || fail "another $header is installed"
done
api_test=$build/tests/integration/api/api-test
loaded=$(ldd "$api_test")
[[ "$loaded" == *"$libraries/libweft.so.0 "* ]] || fail "the tests use another libweft: $loaded"
suites='*Arguments.*:CallOptions.*:*/CallOptionsOver.*:*Graphs.*:*Abort.*:Life.*:Repeated*:Nonblocking*:Premul.*:Properties*'
# By one wire each; the others have been tested in the build.
"$api_test" --gtest_brief=1 --gtest_filter="$suites:*/LocalRanks.*:PortsOfNets.*:ApiWindows.*-*/shm:*/net_socket:*/netsocket:*4Ranks*:*shm3Ranks*:*p2p1Ranks*:*netsocket2Ranks*:*.LargeOnes/*"

say "the example plugin, by its own Makefile"
lines=$(wc -l <"$source_root/examples/net-plugin/net_example.cc")
((lines < 300)) || fail "the example has grown to $lines lines"
cp -r "$source_root/examples/net-plugin" "$scratch/net-plugin"
make --silent -C "$scratch/net-plugin" clean weft-net-example.so
exported=$(nm -D --defined-only "$scratch/net-plugin/weft-net-example.so" | awk '{ print $NF }')
[[ "$exported" == weft_plugin_entry ]] || fail "the example exports $exported"
"$weft" plugin inspect "$scratch/net-plugin/weft-net-example.so" >"$scratch/inspected"
grep -q '^id  *net-example$' "$scratch/inspected" || fail "inspect says $(cat "$scratch/inspected")"
# A vendor may build against a build tree, too.
make --silent -C "$scratch/net-plugin" clean
env -u PKG_CONFIG_LIBDIR -u PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH="$build/meson-uninstalled" \
  make --silent -C "$scratch/net-plugin" weft-net-example.so
carried=$(WEFT_PLUGINS_PATH=$scratch/net-plugin WEFT_TRANSPORTS_ORDER=net WEFT_TRANSPORTS_NET=net-example \
  "$weft" run -n 3 --no-prefix -- "$weft" bench all_reduce --max 1MiB --factor 4 --iters 2 --check)
echo "$carried"
[[ $(grep -c '^# ranks . and .: net-example: ' <<<"$carried") == 3 ]] || fail "it does not carry all pairs"
grep -q '^# Out of bounds values : 0 OK$' <<<"$carried" || fail "it does not carry them rightly"
say "all is as it should be"
