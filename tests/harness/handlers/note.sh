#!/bin/sh
# The cheapest run that leaves a trace.
. "${0%/*}/mark.sh"
mark_start
mark end
