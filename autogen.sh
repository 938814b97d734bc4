#!/bin/sh
# Makes ./configure in a fresh clone. A release tarball has it already.
set -eu
cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all,no-obsolete "$@"
