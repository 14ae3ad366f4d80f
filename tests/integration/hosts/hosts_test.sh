#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# Jobs over several hosts, which are network namespaces: what joins which ranks, IPv4 and IPv6,
# what leaves a host, rules by network, hosts with two NICs, lost packets, a cut cable, a rank that does
# nothing for a while and a host that stands still.
#
#   hosts_test.sh WEFT [CASE...]
#
# Exit status 77 where hosts cannot be made.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../support/netns.sh
source "$here/../../support/netns.sh"
weft=$1
shift

scratch=$(mktemp -d)
ranks=()  # Process ids.

say() { printf '== %s\n' "$*"; }
fail() {
  echo "FAILED: $*"
  local file
  for file in "$scratch"/rank*; do
    [[ -s "$file" ]] && sed "s|^|${file##*/}: |" "$file" | tail -n 30
  done
  exit 1
}
clean() {
  local pid
  for pid in "${ranks[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  netns_clean
  rm -rf "$scratch" /etc/netns/"$netns_prefix"-*
}
make_hosts() {
  netns_create "$1"
  trap clean EXIT  # instead of netns_create's own
}

# start "HOST..." ADDRESS [NAME=VALUE...] -- WORDS...: rank i runs `weft WORDS` on the i-th host;
# they meet at ADDRESS.
start() {
  local hosts=$1 root=$2 settings=() host rank=0
  shift 2
  while [[ "$1" != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  rm -f "$scratch"/rank*
  ranks=()
  local -A started=()  # Ranks started on a host so far.
  for host in $hosts; do
    (netns_rank "$host" "$rank" "${started[$host]:-0}" "$(wc -w <<<"$hosts")" "$root" "${settings[@]}" \
      "$weft" "$@" >"$scratch/rank$rank.out" 2>"$scratch/rank$rank.err") &
    ranks+=($!)
    started[$host]=$((${started[$host]:-0} + 1))
    rank=$((rank + 1))
  done
}

# finish SECONDS: waits for all ranks; `statuses` holds how each ended.
finish() {
  local until=$((SECONDS + $1)) pid status
  for pid in "${ranks[@]}"; do
    # A zombie is still to be waited for: only its state tells that it has ended.
    while [[ "$(state_of "$pid")" == [^Z] ]]; do
      ((SECONDS < until)) || fail "process $pid has not ended after $1 s"
      sleep 0.02
    done
  done
  statuses=()
  for pid in "${ranks[@]}"; do
    status=0
    wait "$pid" || status=$?
    statuses+=("$status")
  done
  ranks=()
}
state_of() { sed -nE 's/^State:\s+(\S).*/\1/p' "/proc/$1/status" 2>/dev/null || true; }

all_well() {
  finish "$1"
  [[ "${statuses[*]}" =~ ^0(\ 0)*$ ]] || fail "the ranks ended with ${statuses[*]}"
  grep -q '^# Out of bounds values : 0 OK$' "$scratch/rank0.out" || fail "nothing was found right"
}
pair() { # A B PLUGIN: which plugin joins two ranks.
  grep -q "^# ranks $1 and $2: $3: " "$scratch/rank0.out" || fail "$3 does not join ranks $1 and $2"
}
# Waits until the first size is done. What follows it may last for a fraction of a second, which on a
# busy machine is over while a process is made only to look: the shell looks by itself.
first_row() {
  local until=$((SECONDS + 120)) lines=() status=()
  until [[ "${lines[*]}" == *' float32 '* ]]; do
    mapfile -t status <"/proc/${ranks[0]}/status"
    if [[ "${status[*]}" == *$'State:\tZ'* ]] || ((SECONDS >= until)); then fail "the job does not begin"; fi
    sleep 0.01
    [[ ! -e "$scratch/rank0.out" ]] || mapfile -t lines <"$scratch/rank0.out"
  done
}

bench=(bench all_reduce --max 1MiB --factor 8 --iters 3 --check)

two_hosts() {
  make_hosts 2
  start "1 1 2 2" "$(netns_ipv4 1)" -- "${bench[@]}"
  all_well 120
  pair 0 1 shm
  pair 2 3 shm
  pair 0 2 net-socket
  pair 0 3 net-socket
  pair 1 2 net-socket
  pair 1 3 net-socket
}

two_hosts_ipv6() {
  make_hosts 2
  start "1 2 1" "[$(netns_ipv6 1)]" WEFT_NET_SOCKET_FAMILY=ipv6 -- "${bench[@]}"
  all_well 120
  pair 0 2 shm
  pair 0 1 net-socket
  pair 1 2 net-socket
}

# The kernel lets nobody have an address that it found on another host, but the other family will do.
address_of_another_host() {
  make_hosts 2
  local host until=$((SECONDS + 20))
  host=$(netns_host 2)
  ip -n "$host" -6 addr flush dev eth0
  ip netns exec "$host" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/eth0/accept_dad'
  ip -n "$host" addr add "$(netns_ipv6 1)/64" dev eth0
  until [[ $(ip -n "$host" -6 addr show dev eth0) == *dadfailed* ]]; do
    ((SECONDS < until)) || fail "nobody found the address on the other host"
    sleep 0.1
  done
  start "1 2" "$(netns_ipv4 1)" -- "${bench[@]}"
  all_well 120
  pair 0 1 net-socket
}

# Two hosts with an IPv4 network of their own each have the other one in common alone.
one_ipv6_network_in_common() {
  make_hosts 2
  local host
  host=$(netns_host 2)
  ip -n "$host" addr del "$(netns_ipv4 2)/24" dev eth0
  ip -n "$host" addr add 10.99.0.2/24 dev eth0
  start "1 2" "[$(netns_ipv6 1)]" -- "${bench[@]}"
  all_well 120
  pair 0 1 net-socket
}

four_hosts() {
  make_hosts 4
  start "1 2 3 4" "$(netns_ipv4 1)" WEFT_NET_SOCKET_STREAMS=2 -- "${bench[@]}"
  all_well 120
  pair 0 3 net-socket
  start "4 3 2 1" "$(netns_ipv4 4)" -- bench broadcast --root 2 --max 1MiB --factor 8 --iters 3 --check
  all_well 120
}

# bytes_out_of_host_1 ALGORITHM OPERATION: what two hosts of four ranks each take, into `bytes`.
bytes_out_of_host_1() {
  local counter before
  counter=(ip netns exec "$(netns_host 1)" cat /sys/class/net/eth0/statistics/tx_bytes)
  before=$("${counter[@]}")
  start "1 2 1 2 1 2 1 2" "$(netns_ipv4 1)" "WEFT_COLLECTIVES_${2^^}_ALGORITHM=$1" -- \
    bench "$2" --min 4MiB --max 4MiB --warmup 0 --iters 5 --check
  all_well 120
  bytes=$(($("${counter[@]}") - before))
}
# A ring takes 7 of 8 blocks from host to host, PAT by rows the 4 that are the first host's own. Of an all-reduce either
# has twice as much.
blocks_across_hosts() {
  make_hosts 2
  local operation by_ring
  for operation in all_gather reduce_scatter all_reduce; do
    bytes_out_of_host_1 ring "$operation"
    by_ring=$bytes
    bytes_out_of_host_1 pat "$operation"
    say "$operation: $bytes bytes left the host by PAT, $by_ring by rings"
    ((bytes * 10 > by_ring * 5 && bytes * 10 < by_ring * 7)) || fail "4 of 7 were expected"
  done
}

# Neither WEFT_ROOT nor WEFT_RANK: Slurm's step says where rank 0 is, the secret which port it takes.
step_of_slurm() {
  make_hosts 2
  local rank host step=(SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2
    "SLURM_STEP_NODELIST=$(netns_ipv4 '[1-2]')" "WEFT_SECRET=$(printf '6%.0s' {1..64})")
  for rank in 0 1 2 3; do
    host=$((rank / 2 + 1))
    (exec ip netns exec "$(netns_host "$host")" env "WEFT_HOST_ID=$(netns_host "$host")" \
      "SLURM_PROCID=$rank" "${step[@]}" "$weft" "${bench[@]}" \
      >"$scratch/rank$rank.out" 2>"$scratch/rank$rank.err") &
    ranks+=($!)
  done
  all_well 120
  pair 0 1 shm
  pair 0 2 net-socket
}

# A name is 127.0.0.1 or ::1 on its own host, as many systems have it, and an address on the other.
name_that_is_loopback_at_home() {
  make_hosts 2
  local own folder
  for own in 127.0.0.1 ::1; do
    for host in 1 2; do
      folder=/etc/netns/$(netns_host "$host")
      mkdir -p "$folder"
      echo '127.0.0.1 localhost' >"$folder/hosts"
    done
    echo "$own node1" >>"/etc/netns/$(netns_host 1)/hosts"
    echo "$(netns_ipv4 1) node1" >>"/etc/netns/$(netns_host 2)/hosts"
    start "1 2 1" node1 -- "${bench[@]}"
    all_well 120
    pair 0 1 net-socket
    pair 0 2 shm
  done
}

rules_by_network() {
  make_hosts 2
  cat >"$scratch/weft.yaml" <<END
version: 1
transports:
  order: [shm]
  rules:
    - {between: [$(netns_ipv4 1)/32, $(netns_ipv4 2)/32], use: [net-socket]}
END
  start "1 1 2" "$(netns_ipv4 1)" "WEFT_CONFIG=$scratch/weft.yaml" -- "${bench[@]}"
  all_well 120
  pair 0 1 shm
  pair 0 2 net-socket
  grep -q "^# ranks 0 and 2: .*rule .*weft.yaml:5" "$scratch/rank0.out" || fail "the rule is not named"

  # A whole network holds both ranks of a host too.
  sed -i 's|between: .*, use|between: [10.97.0.0/24, 10.97.0.0/24], use|' "$scratch/weft.yaml"
  start "1 1 2" "$(netns_ipv4 1)" "WEFT_CONFIG=$scratch/weft.yaml" -- "${bench[@]}"
  all_well 120
  pair 0 1 net-socket
  pair 1 2 net-socket

  # What a rule allows is all there is.
  sed -i 's|use: .*|use: [shm]}|' "$scratch/weft.yaml"
  start "1 2" "$(netns_ipv4 1)" "WEFT_CONFIG=$scratch/weft.yaml" -- "${bench[@]}"
  finish 60
  [[ "${statuses[*]}" == "1 1" ]] || fail "the ranks ended with ${statuses[*]}"
  for rank in 0 1; do
    grep -q 'cannot be joined: rule .*weft.yaml:5.* allows none that can' "$scratch/rank$rank.err" ||
      fail "rank $rank does not say why"
  done
}

sent() { # HOST NIC: bytes so far.
  ip netns exec "$(netns_host "$1")" cat "/sys/class/net/$2/statistics/tx_bytes"
}
carried() { # FROM TO TEXT: what both ends say of the devices between two ranks.
  local rank
  for rank in "$1" "$2"; do
    grep -qF "net-socket from rank $1 to rank $2: $3" "$scratch/rank$rank.err" ||
      fail "rank $rank does not say: $3"
  done
}

two_networks() {
  make_hosts 2
  netns_second_network
  local host nic bytes size=$((4 << 20)) iterations=10
  local -A before=()
  for host in 1 2; do
    for nic in eth0 eth1; do before[$host$nic]=$(sent "$host" "$nic"); done
  done
  start "1 2" "$(netns_ipv4 1)" WEFT_CHANNELS_MAX=2 WEFT_LOG_TOPICS_TRANSPORT=info -- \
    bench all_reduce --min "$size" --max "$size" --iters "$iterations" --check
  all_well 120
  carried 0 1 "eth0 to eth0 on channel 0; eth1 to eth1 on channel 1"
  carried 1 0 "eth0 to eth0 on channel 0; eth1 to eth1 on channel 1"
  for host in 1 2; do
    for nic in eth0 eth1; do
      bytes=$(($(sent "$host" "$nic") - before[$host$nic]))
      say "host $host sent $bytes bytes by $nic"
      # Of two ranks each sends as much as a call holds, half of it on each channel.
      ((bytes >= size * iterations / 2)) || fail "that is not half of what it had to send"
    done
  done
}

# What the plugins prefer, eth0 on both hosts, joins nothing.
one_network_in_common() {
  make_hosts 2
  netns_second_network
  local host
  host=$(netns_host 2)
  ip -n "$host" addr flush dev eth0
  ip -n "$host" addr add 10.99.0.2/24 dev eth0
  start "1 2" "$(netns_second_ipv4 1)" WEFT_CHANNELS_MAX=2 WEFT_LOG_TOPICS_TRANSPORT=info -- \
    "${bench[@]}"
  all_well 120
  carried 0 1 "eth1 to eth1 on channels 0, 1"
  carried 1 0 "eth1 to eth1 on channels 0, 1"

  # A host with one NIC; ranks that send to each other outside of rings.
  ip -n "$host" link del eth0
  start "1 2 2" "$(netns_second_ipv4 1)" WEFT_CHANNELS_MAX=2 WEFT_LOG_TOPICS_TRANSPORT=info -- \
    bench all_to_all --max 1MiB --factor 8 --iters 3 --check
  all_well 120
  carried 0 1 "eth1 to eth1 on channels 0, 1"
  carried 2 0 "eth1 to eth1 on channels 0, 1"
}

lost_packets() {
  make_hosts 3
  for host in 1 2 3; do netns_loss "$host" 5; done
  start "1 2 3" "$(netns_ipv4 1)" -- bench all_reduce --max 64KiB --factor 64 --iters 3 --check
  all_well 200
}

cut_cable() {
  make_hosts 3
  start "1 2 3" "$(netns_ipv4 1)" WEFT_NET_SOCKET_PEER_TIMEOUT=3s -- \
    bench all_reduce --max 64MiB --iters 200
  first_row
  netns_cut 3
  local cut=$SECONDS rank
  finish 60
  say "all ranks had ended $((SECONDS - cut)) s after the cut"
  ((SECONDS - cut < 20)) || fail "that is too late"
  for rank in 0 1 2; do
    [[ "${statuses[$rank]}" == 1 ]] || fail "rank $rank ended with ${statuses[$rank]}"
    # Whoever stays with most of the others names the one that is gone; that one names any of them.
    local gone=2
    ((rank != 2)) || gone='[01]'
    grep -qE "^weft bench: .*rank $gone" "$scratch/rank$rank.err" || fail "rank $rank does not name rank $gone"
    ! grep 'is not connected' "$scratch/rank$rank.err" || fail "rank $rank hides why the connection broke"
    tail -n 1 "$scratch/rank$rank.err"
  done
}

stopped_for_a_while() {
  make_hosts 2
  # Many sizes of few calls: what is left after the first must last until the rank has been stopped.
  start "1 2" "$(netns_ipv4 1)" -- bench all_reduce --max 8KiB --factor 2 --iters 500 --check
  first_row
  kill -STOP "${ranks[1]}"
  sleep 12
  [[ "$(state_of "${ranks[1]}")" == T ]] || fail "the job was over before its rank was stopped"
  [[ "$(state_of "${ranks[0]}")" == [RS] ]] || fail "rank 0 did not wait for rank 1"
  kill -CONT "${ranks[1]}"
  all_well 240
}

# Nothing arrives for longer than a cut cable takes to be found, but inside a host there is no cable.
still_for_a_while() {
  make_hosts 1
  start "1 1" "$(netns_ipv4 1)" -- bench all_reduce --max 8KiB --factor 2 --iters 5000 --check
  first_row
  kill -STOP "${ranks[1]}"  # so that the job is not over before
  netns_exec 1 nft -f - <<'END'
table inet weft_still {
  chain incoming {
    type filter hook input priority 0; policy drop;
  }
}
END
  sleep 8
  [[ "$(state_of "${ranks[1]}")" == T ]] || fail "the job was over before its host stood still"
  [[ "$(state_of "${ranks[0]}")" == [RSD] ]] || fail "rank 0 did not wait for rank 1"
  netns_exec 1 nft delete table inet weft_still
  kill -CONT "${ranks[1]}"
  all_well 240
}

trap clean EXIT
netns_available || exit 77
# Ranks are given what a case says, and no more.
for name in $(compgen -v WEFT_ || true); do unset "$name"; done
cases=("$@")
((${#cases[@]})) || cases=(two_hosts two_hosts_ipv6 address_of_another_host one_ipv6_network_in_common four_hosts
  blocks_across_hosts step_of_slurm
  name_that_is_loopback_at_home rules_by_network two_networks one_network_in_common lost_packets cut_cable
  stopped_for_a_while still_for_a_while)
for name in "${cases[@]}"; do
  say "$name"
  "$name"
  netns_clean
done
say "all is as it should be"
