#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# Proves the first five minutes: makes a bare Debian 12 root, puts a clean clone of HEAD into it and
# runs the README's two commands there, each from nothing and then again at once. Needs root and
# debootstrap, and the network for packages. Prints what ran, how long it took and how it ended;
# log.txt beside this script is the output of one run.
#
#   tests/debootstrap/run.sh [COMMAND...]     default: scripts/quickstart scripts/test
#   WEFT_DEBOOTSTRAP_KEEP=1                   leaves the root in place, and says where
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
commands=("$@")
((${#commands[@]})) || commands=(scripts/quickstart scripts/test)

say() { printf '[%s] %s\n' "$(date -u +%H:%M:%S)" "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

((EUID == 0)) || die "debootstrap needs root"
command -v debootstrap >/dev/null || die "debootstrap is not installed: apt-get install debootstrap"

# In a mount namespace of its own: nothing that is mounted here shows, or stays, on the host.
if [[ -z "${WEFT_DEBOOTSTRAP_INSIDE:-}" ]]; then
  exec env WEFT_DEBOOTSTRAP_INSIDE=1 unshare --mount --propagation private "$0" "$@"
fi

# The first URI in the host's own sources that serves Debian itself.
host_mirror() {
  local uri
  uri=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -E '/debian/?$' | head -n 1 || true)
  echo "${uri:-http://deb.debian.org/debian}"
}

target=$(mktemp -d "${TMPDIR:-/var/tmp}/weft-debootstrap.XXXXXX")

# Unmounts whatever stands below the root, what the tests mounted there (netns) included.
unmount_all() {
  local point
  while read -r point; do
    umount "$point" 2>/dev/null || umount -l "$point" || true
  done < <(awk -v top="$target/" 'index($5 "/", top) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
}

clean_up() {
  unmount_all
  if grep -q " $target/" /proc/self/mountinfo; then
    echo "something is still mounted below $target, which is left in place" >&2
  elif [[ -n "${WEFT_DEBOOTSTRAP_KEEP:-}" ]]; then
    echo "the root is kept in $target"
  else
    rm -rf --one-file-system "$target"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mirror=$(host_mirror)
begin=$SECONDS
say "debootstrap of Debian 12 from $mirror"
debootstrap --variant=minbase --include=ca-certificates bookworm "$target" "$mirror" \
  >"$target.log" 2>&1 || {
  tail -n 20 "$target.log" >&2
  rm -f "$target.log"
  die "debootstrap failed; its last lines stand above"
}
rm -f "$target.log"
security=${mirror%/debian*}/debian-security
cat >"$target/etc/apt/sources.list" <<END
deb $mirror bookworm main
deb $mirror bookworm-updates main
deb $security bookworm-security main
END
cp /etc/resolv.conf "$target/etc/resolv.conf"
# What the installer of a machine would have made of a temporary folder: a root that all may enter,
# that is a mount of its own, and that knows the name of this host.
chmod 755 "$target"
mount --bind "$target" "$target"
echo "127.0.0.1 localhost" >"$target/etc/hosts"
for file in /etc/apt/apt.conf.d/*proxy*; do
  [[ ! -e "$file" ]] || cp "$file" "$target/etc/apt/apt.conf.d/"
done
mount -t proc proc "$target/proc"
mount -t sysfs sysfs "$target/sys"
mount --bind /dev "$target/dev"
mount -t devpts devpts "$target/dev/pts" 2>/dev/null || mount --bind /dev/pts "$target/dev/pts"
mkdir -p "$target/dev/shm"
mount -t tmpfs -o size=64m tmpfs "$target/dev/shm"
say "made after $((SECONDS - begin)) s: Debian $(cat "$target/etc/debian_version"), $(chroot "$target" dpkg-query -f '.\n' -W | wc -l) packages, $(nproc) processors"

git -c safe.directory='*' clone -q --no-hardlinks "$root" "$target/root/weft"
say "clone of $(git -c safe.directory='*' -C "$root" log -1 --format='%h %s')"

# The test's own environment must not reach in: what the commands need, they install.
in_target() {
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
    LC_ALL=C.UTF-8 chroot "$target" /bin/bash -c "cd / && exec /root/weft/$1" </dev/null
}

bad=0
summary=()
for round in "from nothing" "again at once"; do
  for command in "${commands[@]}"; do
    say "---- $command ($round)"
    begin=$SECONDS
    status=0
    in_target "$command" 2>&1 || status=$?
    ((status == 0)) || bad=1
    say "---- $command ($round): status $status after $((SECONDS - begin)) s"
    summary+=("$(printf '%-22s %-14s status %-3d %4d s' "$command" "$round" "$status" "$((SECONDS - begin))")")
  done
done

left=$(cd "$target/root/weft" && git -c safe.directory='*' status --porcelain | head -n 5)
[[ -z "$left" ]] || { echo "the commands left in the tree: $left"; bad=1; }
printf '\n'
printf '%s\n' "${summary[@]}"
((bad == 0)) && echo "every command passes in a bare Debian 12" || echo "FAILED"
exit "$bad"
