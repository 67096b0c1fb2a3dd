#!/usr/bin/env bash
# Runs the tests and says truthfully how many there were: the output of
# packages and of failed tests, then one line "N passed, N failed, N skipped",
# counted from the events of go test. Arguments go to go test; bench/, which is a module
# of its own, is tested after all packages that they name.
#
# Exits with go test's own status; with 1 where that is 0 but a test was
# skipped or none ran, because a run that left something out proves nothing.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")

# What computes for one goroutine at a time, and is nobody's here, is built without
# the race detector's questions, in what the tests build too: SQLite, which is C that
# was translated (the driver around it is asked about), and the checker of histories.
# That is half of what the tests compute.
for package in github.com/ncruces/go-sqlite3-wasm/... github.com/anishathalye/porcupine; do
	export GOFLAGS="${GOFLAGS:-} -gcflags=$package=-race=false"
done

flags=()
for argument; do
	[[ $argument == ./* ]] || flags+=("$argument")
done

# LC_ALL: test output may be any bytes, and awk must pass them through.
{
	go test -json "$@"
	first=$?
	go test -C "$here/../bench" -json "${flags[@]}" ./...
	second=$?
	exit $((first ? first : second))
} 2>&1 </dev/null | LC_ALL=C awk -f "$here/tally.awk"
status=("${PIPESTATUS[@]}")

if [ "${status[0]}" -ne 0 ]; then
	exit "${status[0]}"
fi
exit "${status[1]}"
