#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# That the hosts of netns.sh are hosts: they reach each other over IPv4 and IPv6, lose what they are
# told to lose, can be cut off and joined again, and leave nothing behind.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=netns.sh
source "$here/netns.sh"

fail() {
  echo "FAILED: $*"
  exit 1
}

# talk SERVER CLIENT FAMILY ADDRESS SECONDS: one line from client to server over TCP; the status of
# the client, which waits SECONDS for its connection.
# The server prints its port once it listens, so nothing waits for time to pass.
talk() {
  local port from said server_pid answer=0
  exec {from}< <(netns_exec "$1" timeout 20 python3 -u -c '
import socket, sys
server = socket.socket(getattr(socket, sys.argv[1]), socket.SOCK_STREAM)
server.bind((sys.argv[2], 0))
server.listen()
print(server.getsockname()[1])
connection, _ = server.accept()
print(connection.makefile().readline().strip())' "$3" "$4")
  server_pid=$!
  read -r port <&"$from" || fail "no server could listen on $4 of host$1"
  netns_exec "$2" timeout 20 python3 -c '
import os, socket, sys
client = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
client.sendall((os.environ["WEFT_HOST_ID"] + "\n").encode())' "$4" "$port" "$5" 2>/dev/null || answer=$?
  if ((answer == 0)); then
    read -r said <&"$from" || said="nothing"
    [[ "$said" == "$(netns_host "$2")" ]] || fail "\"$said\" arrived instead of $(netns_host "$2")"
  else
    kill "$server_pid" 2>/dev/null || true
  fi
  exec {from}<&-
  return "$answer"
}

netns_available || exit 77

left=$(mktemp)
trap 'rm -f "$left"' EXIT

# In a shell of its own, so that its end can be looked at.
(
  netns_create 2
  talk 1 2 AF_INET "$(netns_ipv4 1)" 10 || fail "IPv4 does not reach host1"
  talk 2 1 AF_INET6 "$(netns_ipv6 2)" 10 || fail "IPv6 does not reach host2"
  if netns_exec 1 ip route get 192.0.2.1 >/dev/null 2>&1; then fail "there is a way out of the hosts"; fi

  netns_cut 1
  if talk 1 2 AF_INET "$(netns_ipv4 1)" 1; then fail "a cut cable carries data"; fi
  netns_restore 1
  talk 1 2 AF_INET "$(netns_ipv4 1)" 10 || fail "a restored cable carries nothing"

  netns_loss 2 100
  if talk 2 1 AF_INET "$(netns_ipv4 2)" 1; then fail "a loss of 100 % lets data pass"; fi
  netns_loss 2 10
  talk 2 1 AF_INET "$(netns_ipv4 2)" 15 || fail "a loss of 10 % lets nothing pass"
  [[ "$(netns_lost 2)" == *'numgen random mod 100 < 10'* ]] || fail "no rule loses 10 %"
  netns_loss 2 0
  [[ -z "$(netns_lost 2)" ]] || fail "the loss did not end"

  netns_exec 1 sleep 600 &
  until [[ -n "$(ip netns pids "$(netns_host 1)")" ]]; do :; done
  ip netns pids "$(netns_host 1)" >"$left"
) || exit 1
while read -r pid; do
  if grep -qz '^sleep$' "/proc/$pid/cmdline" 2>/dev/null; then fail "process $pid outlived its host"; fi
done <"$left"
if grep "^$netns_prefix-" <<<"$(ip netns list)"; then fail "namespaces were left behind"; fi
echo "hosts were made, joined, cut, made lossy and removed"
