#!/usr/bin/env bash
# Runs the tests and says truthfully how many there were: the output of
# packages and of failed tests, then one line "N passed, N failed, N skipped",
# counted from the events of go test. Arguments go to go test.
#
# Exits with go test's own status; with 1 where that is 0 but a test was
# skipped or none ran, because a run that left something out proves nothing.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")

# LC_ALL: test output may be any bytes, and awk must pass them through.
go test -json "$@" 2>&1 </dev/null | LC_ALL=C awk -f "$here/tally.awk"
status=("${PIPESTATUS[@]}")

if [ "${status[0]}" -ne 0 ]; then
	exit "${status[0]}"
fi
exit "${status[1]}"
