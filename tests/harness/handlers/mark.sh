# Sourced by the handlers: one line of the runs log for each call, written with one write(2) under O_APPEND.
#   job attempt claim_no pid event CLOCK_BOOTTIME-in-ms
# shellcheck shell=sh
mark() {
	read -r up _ </proc/uptime
	echo "$LEASEHOLD_JOB_ID $LEASEHOLD_ATTEMPT $LEASEHOLD_CLAIM_NO $$ $1 ${up%.*}${up#*.}0" >>"$LH_RUNS"
}

# The start of a run. First it looks, itself, for an earlier run of this job that still lives: no outside observer could tell as exactly.
mark_start() {
	if read -r before 2>/dev/null <"$LH_ALIVE/$LEASEHOLD_JOB_ID" && read -r _ name letter _ 2>/dev/null <"/proc/$before/stat"; then
		case $name$letter in
		*Z | *X) ;;
		*script.sh* | *note.sh*) mark "overlap:$before" ;;
		esac
	fi
	echo $$ >"$LH_ALIVE/$LEASEHOLD_JOB_ID"
	mark start
}

# mark_slot KEY MOST: this run is one of those that count for KEY. It looks, itself, how many of them live, having said first that it
# does: of two that start together at least one sees both.
mark_slot() {
	echo $$ >"$LH_ALIVE/slot.$1.$$"
	count=0
	for other in "$LH_ALIVE/slot.$1."*; do
		read -r _ name letter _ 2>/dev/null <"/proc/${other##*.}/stat" || continue
		case $name$letter in
		*Z | *X) ;;
		*script.sh*) count=$((count + 1)) ;;
		esac
	done
	[ "$count" -le "$2" ] || mark "over:$1:$count"
}
