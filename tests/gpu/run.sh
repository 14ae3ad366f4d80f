#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# Runs the pieces of the GPU tests on this machine, in the bundle that this file lies in, and ends
# with a table. Status: 0 nothing failed, 1 something did, 2 usage.
set -u

usage() {
  cat <<'END'
usage: run.sh [--bundle FOLDER] [--nccl FILE] [--seed N] [--operation NAME] [--minutes N] [PIECE...]

  threads      a thread for each rank
  one-thread   one thread for all ranks
  processes    a process for each rank
  graphs       captured calls, by threads and processes
  abort        aborts, killed processes and faulty devices while kernels spin
  long-waits   timeouts.operation over p2p, shm and net; replays to which a rank comes late; waits
               for a rank that has left
  contexts     programs that have CUDA contexts of their own, and green ones
  abort-ways   aborts in each algorithm and protocol by name, by pairs, over shm and net
  transports   p2p, shm and net in turn
  net-small  small calls over a net, whose lines ports carry: operations, exchanges, types, mixes, calls that differ
  hosts        the GPUs divided between two hosts, by WEFT_HOST_ID: by default, and by trees and PAT
  sharing      GPU memory by descriptors and by CUDA IPC, forced
  leavers      ranks that are done, and gone, before others have begun, by writes and by reads
  reads        p2p by reads: all operations and exchanges, rings alone and in bulk, trees, PAT and
               chains, graphs, processes
  reads-bench  broadcasts, all-gathers, all-reduces and sends timed by writes and by reads
  algorithms   each algorithm and protocol of all-reduce that there is, forced
  trees        what has them by trees and by PAT, in each of these ways
  chains       sums by rank numbers: by default, and by chains alone
  lines        rings and trees by LL
  lines128     the same by LL128, and what goes directly by ranges in such lines
  ranges128    the latter alone
  lines128-sanitizers  small calls of those under compute-sanitizer, each of its tools
  lines128-bench  rings and trees timed by each protocol, beside NCCL
  two-shot     the two-shot all-reduce forced: its part of algorithms, and timed
  ll128        the same of the one-shot over lines of 128 bytes
  long         1 GiB, and each operation beyond 4 GiB
  memory       what communicators take of a GPU, and how long they join, which is told alone
  litmus       litmus tests of the memory between two GPUs, and between a GPU and processors
  memcheck     small calls under compute-sanitizer
  initcheck    the same: reads of device memory that nobody has written
  racecheck    the same: races on shared memory
  racecheck-ways  the same of each way by name whose kernels share memory, and of large calls
  bench        all-reduce timed beside NCCL
  bench-operations  the other six operations, at eight sizes
  bench-host   what eager calls take of the thread that makes them, beside NCCL and bare launches
  bench-joins  how long ranks join, and what memory of a GPU communicators take, beside NCCL
  mismatch     ranks whose calls differ
  operations   every collective in all places and sizes, by threads and by one thread
  types        every element type by every reduction
  exchanges    sends and receives
  mix          random calls of all kinds, on one and on two streams
  order        calls on streams that the caller holds back, beside captures and other communicators
  operations-processes  the four above, a process for each rank
  operations-graphs     every operation captured and replayed, by threads and processes
  operations-transports every operation over p2p, shm and net, by threads and processes
  explain      weft explain of each collective, and the CTAs that it tells
  windows      windows, and the operations that go through them, of Weft's memory and of CUDA's
  outputs      calls that may write into outputs of other ranks: memory of all kinds, both ways
  both-ends    broadcasts and reduces between two with steps in slots of both ends, however small
  outputs-bench  the same timed by threads, with buffers.outputs_from and without
  soak-threads, soak-one-thread, soak-processes
               --minutes N (8) each of random operations, communicators, graphs, windows and aborts
               beside kernels that compute; nothing may grow
  soak-beside  the first of these on one GPU, on which other programs come, have their turns and go
  soak-planted defects that a soak has to find
  new-streams  calls that are the first of their streams
  driver-streams  what the driver makes of such kernels of ranks that share a GPU, which is told alone

--operation all_gather: of the pieces operations and operations-..., that one alone; "exchange" is
sends and receives.

Without a piece all of them but soaks, driver-streams, racecheck-ways, ranges128, two-shot, ll128 and lines128-...; "soak" is those
but the one beside others, "correctness" the first three. Logs go to $WEFT_GPU_LOGS, or to the folder logs beside this file.
END
}

bundle=$(cd "$(dirname "$0")" && pwd)
nccl='' seed=$((RANDOM * 32768 + RANDOM)) operation='' minutes=8
pieces=()
while (($#)); do
  case $1 in
    --bundle) bundle=$(cd "${2:?}" && pwd) || exit 2; shift ;;
    --nccl) nccl=${2:?}; shift ;;
    --seed) seed=${2:?}; shift ;;
    --operation) operation=${2:?}; shift ;;
    --minutes) minutes=${2:?}; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    correctness) pieces+=(threads one-thread processes) ;;
    soak) pieces+=(soak-planted soak-threads soak-one-thread soak-processes) ;;
    *) pieces+=("$1") ;;
  esac
  shift
done
if ((${#pieces[@]} == 0)); then
  pieces=(threads one-thread processes graphs abort contexts new-streams abort-ways long-waits transports hosts net-small sharing leavers reads algorithms trees chains
    lines lines128 long memory litmus memcheck initcheck racecheck bench bench-operations bench-host bench-joins mismatch
    operations types exchanges mix order
    operations-processes operations-graphs
    operations-transports explain windows outputs both-ends outputs-bench reads-bench)
fi

logs=${WEFT_GPU_LOGS:-$bundle/logs}
mkdir -p "$logs" || exit 2
unset WEFT_GPU_LOGS # Weft refuses variables of its prefix that it does not know
chmod -R go-w "$bundle/plugins" 2>/dev/null # a copy may have widened it, and Weft asks for it
chmod go-w "$bundle" 2>/dev/null
export LD_LIBRARY_PATH=$bundle:$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Newer ones of the machine must stay: its own libraries may need them.
if [[ "$(ldd "$bundle/weft" "$bundle/gpu_test" 2>&1)" == *'not found'* ]]; then
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$bundle/lib/gcc
fi
export WEFT_PLUGINS_PATH=$bundle/plugins
export PATH=$PATH:/usr/local/cuda/bin

gpus=$("$bundle/gpu_test" --gtest_filter=none | sed -n 's/^\([0-9]*\) CUDA devices.*/\1/p')
gpus=${gpus:-0}
echo "bundle $bundle, logs $logs, $gpus GPUs, seed $seed"
"$bundle/weft" --version 2>/dev/null

table=()
failed_pieces=0
row() { # piece passed failed skipped seconds note
  table+=("$(printf '%-22s %7s %7s %7s %8s  %s' "$@")")
  echo "${table[-1]}" # at once: whoever ends this run early has what was seen until then
  (($3 == 0)) || failed_pieces=$((failed_pieces + 1))
}
skip() { # piece reason
  echo "skipped: $1: $2"
  row "$1" 0 0 1 0 "$2"
}

# What GoogleTest's lines say, and whether the program came to its end.
count_tests() { # log status
  passed=$(grep -c '^\[       OK \]' "$1")
  skipped=$(grep -c '^\[  SKIPPED \] .* ms)' "$1")
  failed=$(grep -Ec '^\[  FAILED  \] .* (ms|here)\)' "$1")
  note=''
  if (($2 == 124 || $2 == 137)); then
    note="hung in $(grep '^\[ RUN      \]' "$1" | tail -1 | cut -c14-)"
    failed=$((failed + 1))
  elif (($2 == 77)); then
    note=$(tail -1 "$1")
    failed=1
  elif (($2 != 0 && failed == 0)); then
    note="ended with status $2 in $(grep '^\[ RUN      \]' "$1" | tail -1 | cut -c14-)"
    failed=1
  elif ((passed + skipped + failed == 0)); then
    note='no test was run'
    failed=1
  fi
}

# Runs a command under a limit; its status in $status, its seconds in $seconds.
timed() { # limit log command...
  local limit=$1 log=$2 begin=$SECONDS
  shift 2
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
  status=$?
  seconds=$((SECONDS - begin))
}

tests() { # piece limit filter [option...]
  local piece=$1 limit=$2 filter=$3 log=$logs/$1.log
  shift 3
  echo "--- $piece"
  timed "$limit" "$log" "$bundle/gpu_test" --gtest_filter="$filter" --seed="$seed" \
    ${operation:+--operation="$operation"} "$@"
  count_tests "$log" $status
  grep -E '^\[  (FAILED|SKIPPED) .* (ms|here)\)' "$log" | head -40
  ((failed == 0)) || grep -E -m 20 -A 8 ': Failure$|^unknown file|takes longer' "$log" | cut -c-1000
  [[ -z $note ]] || tail -5 "$log"
  row "$piece" "$passed" "$failed" "$skipped" "$seconds" "$note"
}

# A program that answers by its status: one test.
program() { # piece limit command...
  local piece=$1 limit=$2 log=$logs/$1.log
  shift 2
  echo "--- $piece"
  timed "$limit" "$log" "$@"
  tail -60 "$log"
  case $status in
    0) row "$piece" 1 0 0 $seconds '' ;;
    124 | 137) row "$piece" 0 1 0 $seconds "hung, killed after $limit s" ;;
    *) row "$piece" 0 1 0 $seconds "status $status" ;;
  esac
}

# ALGORITHM PROTOCOL LARGEST: all-reduces go that way.
forced() {
  local algorithm=$1 protocol=$2 largest=$3
  if ! WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM=$algorithm \
    WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL=$protocol \
    "$bundle/weft" config show >"$logs/$algorithm-$protocol.log" 2>&1; then
    row "$algorithm-$protocol" 0 1 0 0 'weft config show refuses it'
    tail -3 "$logs/$algorithm-$protocol.log"
    return
  fi
  # One rank alone has nobody to write to.
  tests "$algorithm-$protocol" 400 \
    'Gpu/Threads.*:Gpu/Processes.*:Gpu/GraphsTest.ThousandReplays*-*/1_*:*Threads1:*OneThread1' \
    --algorithm="$algorithm" --protocol="$protocol" --largest="$largest" </dev/null
}

algorithms() {
  forced ring simple 8388608
  # For calls of up to buffers.direct.
  forced direct ll 1048576
  forced two-shot simple 8388608
  forced_ll128
}

# NAME FILTER OPTION...: calls of ranks that have peers go by ways that must be named.
named() {
  local piece=$1 filter=$2
  shift 2
  tests "$piece" 400 "$filter-*Threads1_*:*OneThread1_*:*Threads1:*OneThread1" "$@" </dev/null
}

# Aborts of what kernels wait in: an all-reduce by each way, all-to-alls by pairs, and over the host's memory and
# a net, whose calls are not captured.
abort_ways() {
  local way
  for way in ring-simple ring-ll tree-simple tree-ll pat-simple direct-ll two-shot-simple; do
    tests "abort-$way" 100 'Gpu/AbortTest.*' --algorithm="${way%-*}" --protocol="${way##*-}" \
      --set=buffers.direct=1MiB
  done
  if has_wide_lines abort-ll128; then
    for way in ring tree direct two-shot; do
      tests "abort-$way-ll128" 100 'Gpu/AbortTest.*' --algorithm=$way --protocol=ll128
    done
  fi
  tests abort-by-rank 100 'Gpu/AbortTest.*' --algorithm=chain --set=collectives.deterministic=true
  tests abort-pairs 100 'Gpu/AbortTest.*' --operation=all_to_all --set=buffers.direct=0
  tests abort-shm 100 'Gpu/AbortTest.*' --set=transports.order=shm
  tests abort-net 100 'Gpu/AbortTest.*-*WhileAReplaySpins/*' --set=transports.order=net \
    --set=transports.net=net-socket
}

# Calls small enough that ports carry their lines over a net, and some that are not.
net_small() {
  local -a net=(--largest=$((64 << 10)) --set=transports.order=net --set=transports.net=net-socket)
  # A net reaches no windows, and its calls are not captured.
  local without='*Threads1_*:*OneThread1_*:*Threads1:*OneThread1:*Window*:*AGraph*'
  tests net-small 300 \
    "Gpu/Operations.*:Gpu/Exchanges.*:Gpu/Types.*:Gpu/Premultiplied.*:Gpu/Mix.*:Gpu/MismatchTest.*-$without" "${net[@]}"
  tests net-small-processes 200 "Gpu/OperationProcesses.Calls/*:Gpu/OperationProcesses.Types/*-$without" \
    "${net[@]}"
}

# Ranks that take each other for ranks of two machines; trees and PAT join these by one rank, or row by row.
hosts() {
  local of
  local -a set=()
  for of in all_reduce broadcast reduce; do set+=("--set=collectives.$of.algorithm=tree"); done
  for of in all_gather reduce_scatter; do set+=("--set=collectives.$of.algorithm=pat"); done
  tests hosts 300 'Gpu/TwoHosts.*' --largest=$((4 << 20))
  tests hosts-trees 200 'Gpu/TwoHosts.Operations/*' --largest=$((4 << 20)) "${set[@]}"
  tests hosts-pat 200 'Gpu/TwoHosts.Operations/*' --largest=$((4 << 20)) \
    --set=collectives.all_reduce.algorithm=pat
}

# All operations that have them by trees and by PAT, and calls that name them between others.
trees() {
  local of pat
  local -a set=()
  for of in all_reduce broadcast reduce; do set+=("--set=collectives.$of.algorithm=tree"); done
  for of in all_gather reduce_scatter; do set+=("--set=collectives.$of.algorithm=pat"); done
  named trees "Gpu/Operations.*:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*" \
    --largest=$((16 << 20)) "${set[@]}"
  named trees-graphs 'Gpu/OperationGraphs.*:Gpu/MixedGraphs.RandomCalls/*' "${set[@]}"
  for pat in all_gather reduce_scatter; do
    named "pat-abort-$pat" 'Gpu/AbortTest.*' "${set[@]}" --operation=$pat
  done
  # Both halves in one item.
  named pat-all-reduce 'Gpu/Operations.*all_reduce*:Gpu/Types.*:Gpu/Mix.*:Gpu/AbortTest.*' \
    --largest=$((16 << 20)) --set=collectives.all_reduce.algorithm=pat
  named pat-all-reduce-graphs 'Gpu/OperationGraphs.*all_reduce*:Gpu/MixedGraphs.RandomCalls/*' \
    --set=collectives.all_reduce.algorithm=pat
  named pat-all-reduce-processes 'Gpu/OperationProcesses.*' --largest=$((4 << 20)) \
    --set=collectives.all_reduce.algorithm=pat
  named trees-processes \
    'Gpu/OperationProcesses.*:Gpu/ProcessPairs.KillOne/*' --largest=$((4 << 20)) "${set[@]}"
  tests call-options 200 'Gpu/CallOptions.*:Gpu/ToldWays.*'
}

# PROTOCOL: settings by which all goes by rings of it, and by trees of it what has some.
rings_of() {
  local of
  for of in all_reduce broadcast reduce all_gather reduce_scatter; do
    echo "--set=collectives.$of.algorithm=ring --set=collectives.$of.protocol=$1"
  done
}
trees_of() {
  local of
  for of in all_reduce broadcast reduce; do
    echo "--set=collectives.$of.algorithm=tree --set=collectives.$of.protocol=$1"
  done
}

# PROTOCOL NOT: rings and trees of it; `NOT` are tests over transports that do not carry it.
lines() {
  local protocol=$1 not=$2
  local all='Gpu/Operations.*:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*'
  local graphs='Gpu/OperationGraphs.*:Gpu/MixedGraphs.RandomCalls/*'
  local -a rings trees
  read -ra rings -d '' < <(rings_of "$protocol")
  read -ra trees -d '' < <(trees_of "$protocol")
  named "ring-$protocol" "$all" --largest=$((8 << 20)) "${rings[@]}"
  named "tree-$protocol" "$all" --largest=$((8 << 20)) "${trees[@]}"
  named "ring-$protocol-graphs" "$graphs" "${rings[@]}"
  named "tree-$protocol-graphs" "$graphs" "${trees[@]}"
  tests "ring-$protocol-processes" 400 "Gpu/OperationProcesses.*:Gpu/ProcessPairs.KillOne/*-$not" \
    --largest=$((4 << 20)) "${rings[@]}"
  tests "tree-$protocol-processes" 400 "Gpu/OperationProcesses.*-$not" --largest=$((4 << 20)) \
    "${trees[@]}"
}

# Skips a piece of LL128 where no device knows what its lines do.
has_wide_lines() { # piece
  ((gpus > 1)) && return
  skip "$1" 'needs 2 GPUs: one alone cannot tell what joins it to others'
  return 1
}

# PIECE PATTERN NAME=VALUE...: what weft explain tells of an all-reduce with these settings.
explained() {
  local piece=$1 pattern=$2 log=$logs/$1.log
  shift 2
  timed 60 "$log" env "$@" "$bundle/weft" explain all_reduce 1MiB -n 2 --device cuda
  if ((status == 0)) && grep -q "$pattern" "$log"; then
    row "$piece" 1 0 0 $seconds ''
  else
    tail -20 "$log"
    row "$piece" 0 1 0 $seconds "does not tell: $pattern"
  fi
}

# Settings by which what can goes by ranges in wide lines; broadcasts and reduces that have no room there by rings.
ranges128_of() {
  local of
  local -a set=(--set=collectives.all_reduce.algorithm=two-shot)
  for of in all_gather reduce_scatter; do set+=("--set=collectives.$of.algorithm=direct"); done
  for of in broadcast reduce; do set+=("--set=collectives.$of.algorithm=direct,ring"); done
  for of in all_reduce all_gather reduce_scatter broadcast reduce all_to_all; do
    set+=("--set=collectives.$of.protocol=ll128")
  done
  echo "${set[@]}"
}

# What goes by ranges in wide lines where that is named.
ranges128() {
  local -a set
  read -ra set -d '' < <(ranges128_of)
  named ranges-ll128 'Gpu/Operations.*:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*' \
    --largest=$((16 << 20)) "${set[@]}"
  named ranges-ll128-graphs 'Gpu/OperationGraphs.*:Gpu/MixedGraphs.RandomCalls/*' "${set[@]}"
  tests ranges-ll128-processes 400 \
    'Gpu/OperationProcesses.*:Gpu/ProcessPairs.KillOne/*-*_net/*:*_shm/*' --largest=$((8 << 20)) \
    "${set[@]}"
}

lines128() {
  has_wide_lines lines128 || return
  ranges128
  lines ll128 '*_net/*:*_shm/*'
  tests call-options-ll128 200 'Gpu/CallOptions.*by_ll128*'
  explained explain-ll128 'ring, ll128: .*nobody has checked its costs'
  explained explain-ll128-shm 'ring, ll128: not possible: not all of these GPUs reach' \
    WEFT_TRANSPORTS_ORDER=shm
}

lines128_sanitizers() {
  local tool way
  local -a set
  has_wide_lines lines128-sanitizers || return
  for tool in memcheck initcheck racecheck; do
    for way in rings trees; do
      read -ra set -d '' < <("${way}_of" ll128)
      sanitized "$way-ll128-$tool" $tool "Gpu/OperationProcesses.Calls/$(layout)" --small "${set[@]}"
    done
  done
}

# WAY OPERATIONS NAME=VALUE...: timed, for the table of lines128_bench.
timed_way() {
  local way=$1 operations=$2
  shift 2
  local -a library=(--libraries weft)
  if [[ $way == nccl* ]]; then
    find_nccl || return
    library=(--libraries nccl --nccl "$nccl")
  fi
  rm -f "$logs/lines128-bench-$way.jsonl"
  timed 90 "$logs/lines128-bench-$way.log" env "$@" "$bundle/gpu-collectives" --weft "$bundle" \
    "${library[@]}" --operations "$operations" --modes thread --launch graph --limit 80 \
    --sizes 8,512,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB \
    --json "$logs/lines128-bench-$way.jsonl"
  if ((status == 0)); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $way"
    tail -5 "$logs/lines128-bench-$way.log"
  fi
}

# FILE...: microseconds; a row for an operation and a size, a column for a file.
table_of_times() {
  awk '
    function value(name, digits) {
      if (!match($0, "\"" name "\": \"?" digits)) return ""
      found = substr($0, RSTART, RLENGTH)
      sub(/.*: "?/, "", found)
      return found
    }
    FNR == 1 {
      way = FILENAME
      sub(/.*lines128-bench-/, "", way)
      sub(/\.jsonl$/, "", way)
      ways[++columns] = way
    }
    /"time_us":/ {
      key = value("operation", "[a-z_]+") " " value("bytes", "[0-9]+")
      if (!(key in known)) keys[++rows] = key
      known[key] = 1
      us[key, way] = value("time_us", "[0-9.]+")
    }
    END {
      printf "%-11s %9s", "us", "bytes"
      for (c = 1; c <= columns; ++c) printf " %11s", ways[c]
      print ""
      for (r = 1; r <= rows; ++r) {
        split(keys[r], words, " ")
        printf "%-11s %9d", words[1], words[2]
        for (c = 1; c <= columns; ++c) {
          if ((keys[r], ways[c]) in us) printf " %11.2f", us[keys[r], ways[c]]
          else printf " %11s", "-"
        }
        print ""
      }
    }' "$@"
}

lines128_bench() {
  local protocol algorithm of begin=$SECONDS
  local -a ways=(nccl nccl-ll128 chosen) set
  can_bench lines128-bench || return
  passed=0 failed=0
  echo '--- lines128-bench'
  timed_way nccl all_reduce,all_gather
  timed_way nccl-ll128 all_reduce,all_gather NCCL_PROTO=LL128 NCCL_ALGO=Ring
  timed_way chosen all_reduce,all_gather
  for algorithm in ring tree; do
    for protocol in simple ll ll128; do
      set=()
      for of in ALL_REDUCE ALL_GATHER; do
        [[ $algorithm == tree && $of == ALL_GATHER ]] && continue
        set+=("WEFT_COLLECTIVES_${of}_ALGORITHM=$algorithm" "WEFT_COLLECTIVES_${of}_PROTOCOL=$protocol")
      done
      of=all_reduce
      [[ $algorithm == ring ]] && of=all_reduce,all_gather
      timed_way "$algorithm-$protocol" $of "${set[@]}"
      ways+=("$algorithm-$protocol")
    done
  done
  local -a files=()
  for of in "${ways[@]}"; do
    [[ -s $logs/lines128-bench-$of.jsonl ]] && files+=("$logs/lines128-bench-$of.jsonl")
  done
  ((${#files[@]} == 0)) || table_of_times "${files[@]}" | tee "$logs/lines128-bench.txt"
  row lines128-bench $passed $failed 0 $((SECONDS - begin)) ''
}

# Sums by rank numbers: whichever way the planner takes, and by chains alone.
chains() {
  local of
  local -a set=(--set=collectives.deterministic=true)
  tests by-rank 400 'Gpu/ByRank.*:Gpu/LeftFold.*' --largest=$((16 << 20))
  for of in all_reduce reduce reduce_scatter; do set+=("--set=collectives.$of.algorithm=chain"); done
  named chains "Gpu/Operations.*reduce*:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*" \
    --largest=$((16 << 20)) "${set[@]}"
  named chains-graphs 'Gpu/OperationGraphs.*reduce*:Gpu/MixedGraphs.RandomCalls/*' "${set[@]}"
  named chains-processes \
    'Gpu/OperationProcesses.*:Gpu/ProcessPairs.KillOne/*' --largest=$((4 << 20)) "${set[@]}"
}

# Up to four ranks have room for so much in one shot.
forced_ll128() {
  has_wide_lines direct-ll128 || return
  forced direct ll128 524288
  forced two-shot ll128 8388608
}

# Skips a piece that times calls where it cannot.
can_bench() { # piece
  if [[ ! -x $bundle/gpu-collectives ]]; then
    skip "$1" 'the bundle was made without nccl.h'
    return 1
  elif ((gpus < 2)); then
    skip "$1" 'needs 2 GPUs'
    return 1
  fi
}

# PIECE SIZES NAME=VALUE...: all-reduces timed with these settings.
forced_bench() {
  local piece=$1 sizes=$2
  shift 2
  can_bench "$piece" || return
  program "$piece" 120 env "$@" "$bundle/gpu-collectives" --weft "$bundle" --libraries weft \
    --sizes "$sizes" --json "$logs/$piece.jsonl" --limit 100
}

two_shot() {
  forced two-shot simple 8388608
  forced_bench two-shot-bench 64KiB:16MiB:2 WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM=two-shot
}

ll128() {
  forced_ll128
  forced_bench ll128-bench 8:512KiB:4 WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL=ll128
}

# Results are the same either way: what is logged tells them apart, by the threads of one process.
sharing() {
  local way log
  local -A said=([descriptor]='by descriptor' [ipc]='by CUDA IPC')
  for way in descriptor ipc; do
    log=$logs/sharing-$way.log
    WEFT_LOG_LEVEL=debug WEFT_P2P_DEVICE_SHARING=$way tests "sharing-$way" 200 \
      'Gpu/Processes.AllCalls/*:Gpu/Threads.AllCalls/*' --small
    if ! grep -q "arena of .*, ${said[$way]}" "$log" ||
      [[ $(grep -c 'arena of ' "$log") != "$(grep -c "arena of .*, ${said[$way]}" "$log")" ]]; then
      row "sharing-$way-taken" 0 1 0 0 "not all arenas are ${said[$way]}"
    fi
  done
}

leavers() {
  local mode
  for mode in write read; do
    WEFT_P2P_MODE=$mode tests "leavers-$mode" 200 'Gpu/Leavers.*:Gpu/LeaverProcesses.*'
  done
}

# Slots at the sender. What goes by lines is the same, so that what goes by slots is named.
reads() {
  local of
  local -x WEFT_P2P_MODE=read
  local -a rings trees chains=(--set=collectives.deterministic=true)
  local all='Gpu/Operations.*:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*'
  local graphs='Gpu/OperationGraphs.*:Gpu/MixedGraphs.RandomCalls/*'
  read -ra rings -d '' < <(rings_of simple)
  for of in all_reduce broadcast reduce; do trees+=("--set=collectives.$of.algorithm=tree"); done
  for of in all_gather reduce_scatter; do trees+=("--set=collectives.$of.algorithm=pat"); done
  for of in all_reduce reduce reduce_scatter; do chains+=("--set=collectives.$of.algorithm=chain"); done
  named reads 'Gpu/Mix.*:Gpu/Exchanges.*' --largest=$((16 << 20))
  named reads-rings "$all" --largest=$((16 << 20)) "${rings[@]}"
  named reads-rings-graphs "$graphs" "${rings[@]}"
  # Few channels, which copy in bulk.
  named reads-bulk 'Gpu/Operations.*_of_all_gather:Gpu/Operations.*_of_broadcast:Gpu/Mix.*' \
    --largest=$((16 << 20)) --set=channels.max=4 "${rings[@]}"
  named reads-pairs 'Gpu/Operations.*_of_all_to_all*:Gpu/Exchanges.*' --largest=$((16 << 20)) \
    --set=buffers.direct=0
  tests reads-pairs-abort 100 'Gpu/AbortTest.*' --operation=all_to_all --set=buffers.direct=0
  named reads-trees "$all" --largest=$((8 << 20)) "${trees[@]}"
  named reads-trees-graphs "$graphs" "${trees[@]}"
  named reads-pat-all-reduce 'Gpu/Operations.*all_reduce*:Gpu/Types.*:Gpu/AbortTest.*' \
    --largest=$((8 << 20)) --set=collectives.all_reduce.algorithm=pat
  named reads-chains 'Gpu/Operations.*reduce*:Gpu/Types.*' --largest=$((4 << 20)) "${chains[@]}"
  tests reads-processes 400 \
    'Gpu/OperationProcesses.*:Gpu/ProcessPairs.KillOne/*:Gpu/ProcessPairs.Graphs/*-*_net/*:*_shm/*' \
    --largest=$((4 << 20))
  tests reads-rings-processes 400 'Gpu/OperationProcesses.Calls/*:Gpu/OperationProcesses.Graphs/*' \
    --largest=$((16 << 20)) "${rings[@]}"
  tests reads-trees-processes 400 'Gpu/OperationProcesses.Calls/*:Gpu/OperationProcesses.Graphs/*' \
    --largest=$((4 << 20)) "${trees[@]}"
  ((gpus < 2)) || explained reads-explained 'by reads'
}

reads_bench() {
  local mode
  can_bench reads-bench || return
  for mode in write read; do
    program "reads-bench-$mode" 160 env WEFT_P2P_MODE=$mode "$bundle/gpu-collectives" \
      --weft "$bundle" --libraries weft --operations broadcast,all_gather,all_reduce,sendrecv \
      --modes thread --launch graph --sizes 8MiB,64MiB,256MiB,1GiB \
      --json "$logs/reads-bench-$mode.jsonl" --limit 140
  done
}

# LOG PATTERN: how many races it reports that are hand-overs, by the access that is named first or by all that
# race with it, and how many others.
races() {
  awk -v handed="$2" '
    function count() { if (is_open) { if (is_first || (beside && !strange)) ++over; else ++others } }
    /Race reported/ { count(); is_open = 1; is_first = $0 ~ handed; beside = strange = 0; next }
    /^=========     and / && is_open { if ($0 ~ handed) beside = 1; else strange = 1; next }
    END { count(); print over + 0, others + 0 }' "$1"
}

# PIECE TOOL FILTER OPTION...: under compute-sanitizer.
sanitized() {
  local piece=$1 tool=$2 filter=$3 sanitizer log=$logs/$1.log handed_over others
  shift 3
  sanitizer=$(command -v compute-sanitizer)
  if [[ -z $sanitizer ]]; then
    skip "$piece" 'compute-sanitizer is not installed'
    return
  fi
  echo "--- $piece"
  timed 400 "$log" "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 \
    "$bundle/gpu_test" --gtest_filter="$filter" --seed="$seed" --patience=150 "$@"
  if grep -q 'Device not supported' "$log"; then
    skip "$piece" 'compute-sanitizer does not support this device here'
    return
  fi
  # What lanes hand to those that post for them passes a barrier of some threads of a CTA alone, or a
  # queue with flags of its own (posting.cuh, bulk_board.h): racecheck follows neither. Of what was inlined
  # the file alone is told, of some not even that, but what it races with.
  local handed='serve_posts|::publish|in posting.cuh:|load_shared|store_shared|BulkStorer<.*>::post[(]'
  if [[ $tool == racecheck ]] && ((status == 9)); then
    read -r handed_over others < <(races "$log" "$handed")
    # Whatever else made the tool fail stays a failure.
    ((handed_over == 0 || others > 0)) || status=0
  fi
  count_tests "$log" $status
  if [[ $tool == racecheck ]] && ((failed > 0)) && ! grep -q '\.cuh:[0-9]' "$log"; then
    note="$note; kernels without lines, by which hand-overs are known: -Dgpu_line_info=true"
  fi
  grep '^=========' "$log" | grep -Ev -e "$handed" -e '^========= *$' | head -30
  row "$piece" "$passed" "$failed" "$skipped" "$seconds" "$note"
}

# Kernels that are not taken unless they are named, or by large calls alone. All of CTAs keep what they broadcast in
# shared memory, and some of them a queue for those that post.
racecheck_ways() {
  local of calls large
  local -a set
  calls=Gpu/OperationProcesses.Calls/$(layout)
  large=Gpu/Operations.Calls/Threads$(layout)_of
  sanitized racecheck-rings racecheck "${large}_all_reduce:${large}_reduce:${large}_reduce_scatter" \
    --largest=$((16 << 20)) --algorithm=ring --protocol=simple \
    --set=collectives.reduce.algorithm=ring --set=collectives.reduce_scatter.algorithm=ring
  sanitized racecheck-pairs racecheck "${large}_all_to_all:${large}_all_to_all_v:Gpu/Exchanges.*/Threads$(layout)" \
    --largest=$((4 << 20)) --set=collectives.all_to_all.protocol=ll
  set=()
  for of in all_reduce broadcast reduce; do set+=("--set=collectives.$of.algorithm=tree"); done
  for of in all_gather reduce_scatter; do set+=("--set=collectives.$of.algorithm=pat"); done
  sanitized racecheck-trees racecheck "$calls" --small "${set[@]}"
  sanitized racecheck-pat racecheck "$calls" --small --algorithm=pat
  set=(--set=collectives.deterministic=true)
  for of in all_reduce reduce reduce_scatter; do set+=("--set=collectives.$of.algorithm=chain"); done
  sanitized racecheck-chains racecheck "$calls" --small "${set[@]}"
  read -ra set -d '' < <(rings_of ll)
  sanitized racecheck-rings-ll racecheck "$calls" --small "${set[@]}"
  read -ra set -d '' < <(trees_of ll)
  sanitized racecheck-trees-ll racecheck "$calls" --small "${set[@]}"
  sanitized racecheck-two-shot racecheck "$calls" --small --algorithm=two-shot --protocol=simple
  if has_wide_lines racecheck-ranges128; then
    read -ra set -d '' < <(ranges128_of)
    sanitized racecheck-ranges128 racecheck "$calls" --small "${set[@]}"
  fi
  sanitized racecheck-outputs racecheck "${large}_all_gather:${large}_broadcast" --largest=$((4 << 20)) \
    --set=buffers.outputs_from=1 --set=channels.max=4 \
    --set=collectives.all_gather.algorithm=ring --set=collectives.all_gather.protocol=simple \
    --set=collectives.broadcast.algorithm=ring --set=collectives.broadcast.protocol=simple
}

# On how many devices the ranks of a sanitized test are.
layout() {
  ((gpus > 1)) && echo 2 || echo 2OnOneDevice
}

# Its time is in minutes, and a step may wait for others.
soak() { # how command...
  local how=$1 limit
  shift
  limit=$(awk -v minutes="$minutes" 'BEGIN { print int(minutes * 60) + 200 }')
  program "soak-$how" "$limit" "$@" --minutes="$minutes" --seed="$seed"
}

# The others are soaks, too, of a few rounds each: what they find is theirs.
soak_beside() {
  local goes_on=$logs/soak-beside-goes-on
  : >"$goes_on"
  while [[ -e $goes_on ]] && kill -0 $$; do
    "$bundle/gpu_soak" --one-device --ranks=2 --one-thread --rounds=8 --seed=$((seed + RANDOM))
  done >"$logs/soak-beside-others.log" 2>&1 &
  soak beside "$bundle/gpu_soak" --one-device --ranks=4
  rm "$goes_on"
  wait
}

driver_streams() {
  local streams
  for streams in 1 2; do
    program "driver-streams-$streams" 200 "$bundle/new_streams" --seconds=8 --streams=$streams
  done
}

soak_planted() {
  local plant log=$logs/soak-planted.log
  passed=0 failed=0 seconds=$SECONDS
  : >"$log"
  for plant in result device library heap descriptor thread; do
    if timeout 120 "$bundle/gpu_soak" --plant=$plant --rounds=8 --steps=4 --largest=1048576 \
      --seed="$seed" >>"$log" 2>&1; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "failed: $plant"
    fi
  done
  row soak-planted $passed $failed 0 $((SECONDS - seconds)) ''
}

find_nccl() {
  [[ -z $nccl ]] && nccl=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -1)
  [[ -z $nccl ]] && nccl=$(python3 -c 'import nvidia.nccl as n; print(n.__path__[0])' 2>/dev/null) &&
    nccl=$nccl/lib/libnccl.so.2
  [[ -n $nccl ]]
}

# PIECE LIMIT OPTION...: timed beside NCCL where it is found.
bench() {
  local piece=$1 limit=$2 libraries=nccl,nccl-window,weft
  shift 2
  can_bench "$piece" || return
  find_nccl || { libraries=weft; echo 'no libnccl.so.2 was found: Weft alone is timed'; }
  program "$piece" "$limit" "$bundle/gpu-collectives" --weft "$bundle" --libraries "$libraries" \
    --json "$logs/$piece.jsonl" "$@" ${nccl:+--nccl "$nccl"}
}

explain() {
  local call size device=cuda told=$logs/explain-one.log
  ((gpus > 1)) || device=cuda:0
  passed=0 failed=0 seconds=$SECONDS
  : >"$logs/explain.log"
  for call in all_reduce all_gather reduce_scatter broadcast reduce all_to_all all_to_all_v gather scatter; do
    for size in 512B 1MiB 1GiB; do
      if timeout 60 "$bundle/weft" explain $call $size -n 2 --device $device >"$told" 2>&1 &&
        grep -qE '^(each rank|  launches .*): [1-9][0-9]* CTAs? of [1-9][0-9]* threads, on a device of' "$told"; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1))
        echo "failed: $call $size"
        tail -3 "$told"
      fi
      cat "$told" >>"$logs/explain.log"
    done
  done
  grep -E '^(each rank|  launches|windows|  windows)' "$logs/explain.log"
  row explain $passed $failed 0 $((SECONDS - seconds)) ''
}

windows() {
  tests windows 200 'Gpu/Windows.*:Gpu/ToldWindows.*:Gpu/MismatchTest.*Window*'
  local kind
  for kind in weft cuda; do
    tests "windows-$kind" 300 'Gpu/Operations.*:Gpu/Mix.*:Gpu/OperationProcesses.Calls/*' \
      --windows=$kind --largest=$((4 << 20))
    tests "windows-$kind-graphs" 300 'Gpu/OperationGraphs.*:Gpu/OperationProcesses.Graphs/*' \
      --windows=$kind --largest=$((4 << 20))
  done
}

# What may go into outputs of other ranks does, however small, and few channels copy in bulk.
outputs() {
  local of
  local -a set=(--set=buffers.outputs_from=1 --set=channels.max=4)
  for of in all_gather broadcast; do
    set+=("--set=collectives.$of.algorithm=ring" "--set=collectives.$of.protocol=simple")
  done
  tests outputs 200 'Gpu/Outputs*:OutputCosts.*'
  tests outputs-of-processes 400 'Gpu/OutputProcesses.*'
  named outputs-operations \
    'Gpu/Operations.*_of_all_gather:Gpu/Operations.*_of_broadcast:Gpu/Mix.*:Gpu/MismatchTest.*:Gpu/AbortTest.*' \
    --largest=$((16 << 20)) "${set[@]}"
  named outputs-graphs \
    'Gpu/OperationGraphs.*_of_all_gather:Gpu/OperationGraphs.*_of_broadcast:Gpu/MixedGraphs.RandomCalls/*' \
    "${set[@]}"
  tests outputs-processes 300 'Gpu/OperationProcesses.Calls/*' --largest=$((4 << 20)) "${set[@]}"
}

# Steps of broadcasts and reduces lie in slots of both ends, also such as are copied in bulk, and between calls that go
# otherwise.
both_ends() {
  local of
  local -a set=(--set=buffers.both_ends_from=1)
  for of in broadcast reduce; do
    set+=("--set=collectives.$of.algorithm=ring" "--set=collectives.$of.protocol=simple")
  done
  local calls='Gpu/Operations.*_of_broadcast:Gpu/Operations.*_of_reduce:Gpu/Types.*:Gpu/Mix.*:Gpu/MismatchTest.*'
  named both-ends "$calls" --largest=$((64 << 20)) "${set[@]}"
  named both-ends-bulk 'Gpu/Operations.*_of_broadcast:Gpu/Mix.*' --largest=$((16 << 20)) --set=channels.max=4 "${set[@]}"
  named both-ends-graphs \
    'Gpu/OperationGraphs.*_of_broadcast:Gpu/OperationGraphs.*_of_reduce:Gpu/MixedGraphs.RandomCalls/*' "${set[@]}"
  tests both-ends-processes 300 'Gpu/OperationProcesses.Calls/*' --largest=$((16 << 20)) "${set[@]}"
  sanitized both-ends-memcheck memcheck "Gpu/Operations.Calls/Threads$(layout)_of_broadcast" --small "${set[@]}"
}

outputs_bench() {
  local from
  can_bench outputs-bench || return
  for from in 0 1MiB; do
    program "outputs-bench-$from" 100 env WEFT_BUFFERS_OUTPUTS_FROM=$from "$bundle/gpu-collectives" \
      --weft "$bundle" --libraries weft --operations broadcast,all_gather --modes thread \
      --sizes 8MiB,16MiB,32MiB,64MiB,128MiB,256MiB,1GiB --json "$logs/outputs-bench-$from.jsonl" --limit 80
  done
}

# One that hangs costs its own time: the others are timed all the same.
bench_operations() {
  bench bench-operations 200 --limit 190 --each-limit 30 \
    --operations all_gather,reduce_scatter,broadcast,reduce,all_to_all,sendrecv \
    --sizes 128,4KiB,64KiB,1MiB,8MiB,32MiB,128MiB,1GiB
  # What is more than the end of the log.
  grep -hE '^(FAILED|WRONG)|: killed: |  refused: ' "$logs/bench-operations.log" 2>/dev/null |
    cut -c-200 | head -40
}

of=${operation:+_of_$operation} # how the names of tests of one operation end
for piece in "${pieces[@]}"; do
  case $piece in
    threads) tests threads 400 'Gpu/Threads.*' --largest=$((16 << 20)) ;;
    one-thread) tests one-thread 400 'Gpu/OneThread.*' --largest=$((8 << 20)) ;;
    processes) tests processes 500 'Gpu/Processes.*:Gpu/HiddenDevices.*' --largest=$((16 << 20)) ;;
    graphs) tests graphs 400 'Gpu/GraphsTest.*:Gpu/ForkedStreams.*:Gpu/ProcessPairs.Graphs*' ;;
    abort) tests abort 400 'Gpu/AbortTest.*:Gpu/ProcessPairs.KillOne*:Gpu/ProcessPairs.Fault*' ;;
    contexts) tests contexts 200 'Gpu/Contexts.*' ;;
    abort-ways) abort_ways ;;
    long-waits) tests long-waits 300 'Gpu/LongWaits.*:Gpu/LongReplays.*:Gpu/PartnersThatLeft.*' ;;
    hosts) hosts ;;
    net-small) net_small ;;
    transports) tests transports 400 'Gpu/Transports.*:Gpu/ProcessPairs.Transport*' ;;
    sharing) sharing ;;
    leavers) leavers ;;
    reads) reads ;;
    reads-bench) reads_bench ;;
    algorithms) algorithms ;;
    trees) trees ;;
    chains) chains ;;
    lines) lines ll '*_net/*' ;; # no net has lines
    lines128) lines128 ;;
    ranges128) has_wide_lines ranges128 && ranges128 ;;
    lines128-sanitizers) lines128_sanitizers ;;
    lines128-bench) lines128_bench ;;
    two-shot) two_shot ;;
    ll128) ll128 ;;
    long)
      tests long 400 'Gpu/Long.*' --patience=120
      tests huge 600 'Gpu/HugeCalls.*' --patience=60 ;;
    memory)
      tests memory 200 'Gpu/Memory*:MemoryOfPeers.*'
      grep '^communicator ' "$logs/memory.log" ;;
    litmus)
      in_host=()
      if ((gpus >= 1)); then in_host=(ll-from-gpu ll-to-gpu); fi # the other end is a processor
      if ((gpus < 2)); then
        skip litmus 'needs 2 GPUs'
      else
        program litmus 190 "$bundle/litmus" --limit 140
        # Lines of 128 bytes are not used in the host's memory, and nobody reads from a peer there.
        in_host=(mp-push 'll:' ll16 "${in_host[@]}")
      fi
      for patterns in "${in_host[@]}"; do
        program "litmus-host-${patterns%:}" 90 "$bundle/litmus" --memory host --only "$patterns" --tries 500000000 --limit 45
      done ;;
    memcheck | initcheck) sanitized "$piece" "$piece" "Gpu/Processes.AllCalls/$(layout)_*" --small ;;
    racecheck)
      sanitized racecheck racecheck "Gpu/Processes.AllCalls/$(layout)_*:Gpu/OperationProcesses.Calls/$(layout)" --small
      # Large ones are copied in bulk.
      sanitized racecheck-bulk racecheck \
        "Gpu/Operations.Calls/Threads$(layout)_of_all_gather:Gpu/Operations.Calls/Threads$(layout)_of_broadcast" \
        --largest=$((16 << 20)) ;;
    racecheck-ways) racecheck_ways ;;
    soak-planted) soak_planted ;;
    soak-threads) soak threads "$bundle/gpu_soak" --ranks=4 ;;
    soak-one-thread) soak one-thread "$bundle/gpu_soak" --ranks=2 --one-thread ;;
    soak-processes) soak processes "$bundle/weft" run -n 2 -- "$bundle/gpu_soak" ;;
    soak-beside) soak_beside ;;
    driver-streams) driver_streams ;;
    new-streams) tests new-streams 200 'Gpu/NewStreams.*' ;;
    explain) explain ;;
    windows) windows ;;
    outputs) outputs ;;
    both-ends) both_ends ;;
    outputs-bench) outputs_bench ;;
    bench) bench bench 280 --limit 250 --limits ;;
    bench-operations) bench_operations ;;
    bench-host) bench bench-host 200 --limit 190 --each-limit 40 --measure host-cost ;;
    bench-joins) bench bench-joins 130 --limit 120 --each-limit 40 --measure joins ;;
    mismatch) tests mismatch 400 'Gpu/MismatchTest.*' ;;
    operations) tests operations 200 "Gpu/Operations.*$of:Gpu/Tables.*$of:Gpu/Planted*:PlantedExchange.*:PlantedProcesses.*" \
      --largest=$((16 << 20)) ;;
    types) tests types 200 'Gpu/Types.*:Gpu/Premultiplied.*:Gpu/Judge.*' ;;
    exchanges) tests exchanges 200 'Gpu/Exchanges.*:Gpu/WholeDevice.*' --largest=$((16 << 20)) ;;
    order) tests order 300 'Gpu/CallOrder.*:Gpu/HeldBack.*' ;;
    mix) tests mix 200 'Gpu/Mix.*' ;;
    operations-processes) tests operations-processes 300 \
      'Gpu/OperationProcesses.Calls/*:Gpu/OperationProcesses.Types/*' --largest=$((4 << 20)) ;;
    operations-graphs) tests operations-graphs 300 \
      "Gpu/OperationGraphs.*$of:Gpu/MixedGraphs.*:Gpu/OperationProcesses.Graphs/*" ;;
    operations-transports) tests operations-transports 300 \
      'Gpu/TransportOperations.*:Gpu/TransportCaptures.*:Gpu/OperationProcesses.Transport*' ;;
    *) echo "run.sh: no piece is called $piece" >&2; usage >&2; exit 2 ;;
  esac
done

echo
printf '%-22s %7s %7s %7s %8s\n' piece passed failed skipped seconds
printf '%s\n' "${table[@]}"
((failed_pieces == 0))
