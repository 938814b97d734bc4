#!/bin/sh
# As script.sh, for a handler that saves steps:
#   save NAME [DATA]   saves a step, and fails unless it is known to be saved; the answer is in $answer
#   saved NAME         whether an earlier attempt saved it; everything that earlier attempts saved is in $steps
# shellcheck source=mark.sh
. "${0%/*}/mark.sh"
mark_start
trap 'mark end' EXIT
steps='{"steps":{}}'
[ "$LEASEHOLD_STEPS" = 0 ] || read -r steps <&3
# shellcheck disable=SC2317  # called by the payload
save() {
	printf '{"step":"%s","data":%s}\n' "$1" "${2:-null}" >&3
	read -r answer <&3
	case $answer in *'"saved":true'*) return 0 ;; esac
	return 1
}
# shellcheck disable=SC2317
saved() {
	case $steps in *"\"$1\":"*) return 0 ;; esac
	return 1
}
eval "$(cat)"
