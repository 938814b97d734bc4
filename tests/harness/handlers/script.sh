#!/bin/sh
# Runs the payload as a shell script between two marks, so that a test says in one line what its handler does.
# shellcheck source=mark.sh
. "${0%/*}/mark.sh"
mark_start
trap 'mark end' EXIT
eval "$(cat)"
