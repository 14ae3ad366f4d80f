#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# How the two commands install what is missing, and the sentence that they end with where they
# cannot: with an apt-get, a dpkg-query and a sudo that do what this test wants.
#
#   scripts_test.sh SOURCE
set -euo pipefail
common=$1/scripts/lib/common.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
mkdir "$scratch/bin" "$scratch/sudo" "$scratch/tmp"
chmod 777 "$scratch/tmp"
for tool in awk bash cat env grep head mktemp rm sed tail true wc; do ln -s "$(type -P $tool)" "$scratch/bin/$tool"; done
common_copy=$scratch/common.sh # Readable whoever runs it.
cp "$common" "$common_copy"

cat >"$scratch/bin/dpkg-query" <<'END'
#!/bin/bash
[[ ${*: -1} == here ]] && echo -n installed
END
# FAILS says what fails; CALLED is a file that names each call.
cat >"$scratch/bin/apt-get" <<'END'
#!/bin/bash
echo "apt-get $*" >>"$CALLED"
case "$*" in
  *update)
    [[ $FAILS == *repository* ]] || exit 0
    echo 'Err:1 http://debian bookworm InRelease'
    # Without being asked to, the real one warns and ends well.
    [[ "$*" == *Error-Mode=any* ]] || { echo 'W: Failed to fetch http://debian'; exit 0; }
    echo "E: Failed to fetch http://debian  Temporary failure resolving 'debian'"
    exit 100
    ;;
  *install*)
    [[ $FAILS == *package* ]] || exit 0
    echo 'Reading package lists...'
    echo "E: Unable to locate package ${*: -1}"
    exit 100
    ;;
esac
END
cat >"$scratch/sudo/sudo" <<'END'
#!/bin/bash
[[ $1 == -n && $FAILS == *password* ]] && exit 1
[[ $1 != -n ]] || shift
echo sudo >>"$CALLED"
exec "$@"
END
chmod 755 "$scratch"/bin/dpkg-query "$scratch"/bin/apt-get "$scratch"/sudo/sudo

# install WHAT_FAILS PATH PACKAGE...: sets `status`, `said` and `called`.
as=()
install() {
  local fails=$1 path=$2
  shift 2
  : >"$scratch/tmp/called"
  chmod 666 "$scratch/tmp/called"
  status=0
  said=$("${as[@]}" env -i PATH="$path" TMPDIR="$scratch/tmp" FAILS="$fails" CALLED="$scratch/tmp/called" \
    "$scratch/bin/bash" -c 'set -euo pipefail; source "$0"; install_packages "$@"' \
    "$common_copy" "$@" 2>&1 </dev/null) || status=$?
  called=$(cat "$scratch/tmp/called")
}
fail() {
  printf 'FAILED: %s: status %s\n%s\ncalled: %s\n' "$1" "$status" "$said" "$called"
  exit 1
}
# expect NAME STATUS TEXT: the last line holds TEXT.
expect() {
  [[ $status == "$2" && ${said##*$'\n'} == *"$3"* ]] || fail "$1"
  printf 'ok: %s\n' "$1"
}
whole=$scratch/bin:$scratch/sudo

install '' "$whole" here
expect 'nothing is missing' 0 ''
[[ -z $called ]] || fail 'nothing is missing, and nothing is touched'
install '' "$whole" here gone
expect 'one is missing' 0 'apt-get: gone'
[[ $called == *'install --no-install-recommends gone' ]] || fail 'the missing one alone is installed'
install 'repository' "$whole" gone
expect 'a repository that does not matter' 0 'apt-get: gone'
install 'package' "$whole" gone
expect 'no such package' 1 'could not install gone (Unable to locate package gone; whole output in '
install 'repository package' "$whole" gone
expect 'no network' 1 "(Unable to locate package gone; apt-get update failed too: Failed to fetch \
http://debian  Temporary failure resolving 'debian'; whole output in "
mkdir "$scratch/none"
install '' "$scratch/none" gone
expect 'no apt-get' 1 'which this machine does not have; install the counterparts of: gone'

if ((EUID == 0)); then
  as=("$(command -v setpriv)" --reuid 65534 --regid 65534 --clear-groups)
  "${as[@]}" true 2>/dev/null || {
    echo 'not tested, as nobody else can be here: sudo'
    exit 0
  }
fi
install '' "$whole" gone
expect 'by sudo' 0 'apt-get: gone'
[[ $called == *$'sudo\napt-get '*'install --no-install-recommends gone' ]] || fail 'by sudo'
install '' "$scratch/bin" gone
expect 'no sudo' 1 'can neither install them nor use sudo; run as root: apt-get install gone'
install 'password' "$whole" gone
expect 'sudo wants a password' 1 'wants a password that nobody can type here; run as root: apt-get install gone'
