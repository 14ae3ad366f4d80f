# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Hosts for tests, made of network namespaces: each has eth0, all of them hang on one bridge that
# stands in a namespace of its own, so nothing reaches the machine's network. To be sourced:
#
#   netns_available || exit 77     # Says why not.
#   netns_create 2                 # host1 = 10.97.0.1, fd00:97::1; host2 = 10.97.0.2, fd00:97::2
#   netns_second_network           # A second cable each: eth1, 10.98.0.1 and so on, on a bridge of its own.
#   netns_exec 1 command...        # On host1, with WEFT_HOST_ID of its own; a process of ours.
#   (netns_rank 1 0 0 2 10.97.0.1 command...) &   # Rank 0 of 2 on host1, the first there.
#   netns_loss 1 5                 # host1 loses 5 % of what it is sent; 0 ends that.
#   netns_cut 1; netns_restore 1   # The cable of host1.
#
# Names hold the process id, so that runs do not meet. Everything, the processes in the hosts
# included, goes away when the shell ends, by a trap on EXIT that netns_create sets; a shell with a
# trap of its own calls netns_clean from it instead.

netns_prefix="weft$$"
netns_count=0

netns_host() { echo "$netns_prefix-h$1"; }
netns_ipv4() { echo "10.97.0.$1"; }
netns_ipv6() { echo "fd00:97::$1"; }
netns_second_ipv4() { echo "10.98.0.$1"; }

# Whether hosts can be made here; says on standard output why not.
netns_available() {
  local probe="$netns_prefix-probe"
  if ((EUID != 0)); then
    echo "network namespaces need root"
    return 1
  fi
  if ! command -v ip >/dev/null || ! command -v nft >/dev/null; then
    echo "network namespaces need ip (iproute2) and nft (nftables)"
    return 1
  fi
  if ! ip netns add "$probe" 2>/dev/null; then
    echo "this machine refuses network namespaces"
    return 1
  fi
  local status=0
  ip -n "$probe" link add probe0 type veth peer name probe1 2>/dev/null &&
    ip -n "$probe" link add probe2 type bridge 2>/dev/null &&
    ip netns exec "$probe" nft add table inet probe 2>/dev/null || status=1
  ip netns del "$probe"
  ((status == 0)) || echo "this machine refuses veth, bridge or nft in a network namespace"
  return "$status"
}

# netns_create N
netns_create() {
  local switch="$netns_prefix-sw" i host
  trap netns_clean EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  netns_count=$1
  ip netns add "$switch"
  ip -n "$switch" link add bridge0 type bridge
  ip -n "$switch" link set bridge0 up
  for ((i = 1; i <= netns_count; i++)); do
    host=$(netns_host "$i")
    ip netns add "$host"
    ip -n "$host" link add eth0 type veth peer name "port$i" netns "$switch"
    ip -n "$switch" link set "port$i" master bridge0 up
    # Addresses are used at once: none waits for the detection of duplicates.
    ip netns exec "$host" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad' 2>/dev/null || true
    ip -n "$host" link set lo up
    ip -n "$host" addr add "$(netns_ipv4 "$i")/24" dev eth0
    ip -n "$host" addr add "$(netns_ipv6 "$i")/64" dev eth0 nodad
    ip -n "$host" link set eth0 up
  done
}

# netns_second_network: after netns_create.
netns_second_network() {
  local switch="$netns_prefix-sw" i host
  ip -n "$switch" link add bridge1 type bridge
  ip -n "$switch" link set bridge1 up
  for ((i = 1; i <= netns_count; i++)); do
    host=$(netns_host "$i")
    ip -n "$host" link add eth1 type veth peer name "second$i" netns "$switch"
    ip -n "$switch" link set "second$i" master bridge1 up
    ip netns exec "$host" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth1/accept_dad' 2>/dev/null || true
    ip -n "$host" addr add "$(netns_second_ipv4 "$i")/24" dev eth1
    ip -n "$host" link set eth1 up
  done
}

# netns_exec HOST COMMAND...
netns_exec() {
  local host
  host=$(netns_host "$1")
  ip netns exec "$host" env "WEFT_HOST_ID=$host" "${@:2}"
}

# netns_rank HOST RANK LOCAL_RANK RANKS ROOT [NAME=VALUE...] COMMAND...: the shell becomes that rank of a
# job that meets at the address ROOT. For a subshell in the background, whose process is then the rank's.
readonly netns_port=29500  # Nobody else is on these hosts.
netns_rank() {
  local host
  host=$(netns_host "$1")
  exec ip netns exec "$host" env "WEFT_HOST_ID=$host" "WEFT_RANK=$2" "WEFT_LOCAL_RANK=$3" \
    "WEFT_WORLD_SIZE=$4" "WEFT_ROOT=$5:$netns_port" \
    WEFT_SECRET=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff "${@:6}"
}

# netns_loss HOST PERCENT
netns_loss() {
  local host lost="numgen random mod 100 < $2 drop"
  host=$(netns_host "$1")
  (($2 < 100)) || lost=drop  # nft refuses a comparison that is always true.
  ip netns exec "$host" nft delete table inet weft_loss 2>/dev/null || true
  (($2)) || return 0
  ip netns exec "$host" nft -f - <<END
table inet weft_loss {
  chain incoming {
    type filter hook input priority 0; policy accept;
    iifname "eth0" $lost
  }
}
END
}

# netns_lost HOST: the rule that loses packets, or nothing. netns_cut, netns_restore: its cable.
netns_lost() { ip netns exec "$(netns_host "$1")" nft list table inet weft_loss 2>/dev/null || true; }
netns_cut() { ip -n "$netns_prefix-sw" link set "port$1" down; }
netns_restore() { ip -n "$netns_prefix-sw" link set "port$1" up; }

netns_clean() {
  local name pid pids tries i
  local names=("$netns_prefix-sw")
  for ((i = 1; i <= netns_count; i++)); do names+=("$(netns_host "$i")"); done
  for name in "${names[@]}"; do
    [[ -e "/run/netns/$name" ]] || continue
    # Killed ones take a moment to leave; one that the kernel does not let go must not hang the test.
    for ((tries = 0; tries < 100; tries++)); do
      pids=$(ip netns pids "$name" 2>/dev/null || true)
      [[ -n "$pids" ]] || break
      for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
      sleep 0.02
    done
    ip netns del "$name" 2>/dev/null || true
  done
  netns_count=0
}
