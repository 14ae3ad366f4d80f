#!/bin/bash
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

# The messages about hosts that vanish, on hosts of two networks each, which are network namespaces:
# two for each scenario, since a cable that was cut is not put back.
#
#   errors_on_hosts.sh ERRORS_TEST [ARGUMENT...]
#
# Exit status 77 where hosts cannot be made.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../support/netns.sh
source "$here/../../support/netns.sh"
netns_available || exit 77
netns_create 6
netns_second_network
HOSTS_PREFIX=$netns_prefix "$@"
