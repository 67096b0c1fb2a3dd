#!/usr/bin/env bash
# Runs every test and says truthfully how many there were: the output of packages and of
# failed tests, then one line "N passed, N failed, N skipped", counted from the events of
# go test. Arguments are flags for go test.
#
# The race detector looks at everything, but for eight things. Of the rooms that have the most
# tests, and of the servers that e2e starts, it sees those where a test does several things at
# once, which its name says: the others do one thing after the other. What drives the servers
# of e2e and e2e/faults is no part of them. What store/enginetest asks of PostgreSQL is asked
# behind a pooler once more. The tests that look at every page in
# every language compute for minutes under it. Two pure rooms, which know no goroutines, try so
# much that they would as well. The seeds of store/simulate decide in which
# order goroutines run. The tests at the root read sources, one after the other. And
# Kubernetes takes minutes to build. What go vet says is for make lint.
#
# Exits with go test's own status; with 1 where that is 0 but a test was
# skipped or none ran, because a run that left something out proves nothing.
set -uo pipefail

here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

cd "$here/.." || exit 1
album='^(TestLook|TestDocumentsAreAlike|TestTurnedPagesAreThePages|TestWeight|TestEveryPageInEveryLanguage)$'
partly=(./store ./store/records ./cmd/grantkeeper ./sample ./consent ./signin ./orgadmin ./operator/console)
pooled='^TestPostgresBehindBouncer$'
computing=(./grantset ./journal/chain)
drivers=(./e2e ./e2e/faults)
atonce='AtOnce|While|Beside|Once|Wait'

# What tests kill is a process and never the machine, so their files, 3 GB at most, may be in
# memory. It has to be a folder that PostgreSQL's own user may enter.
room() { df --output=avail -k /dev/shm; grep MemAvailable /proc/meminfo; }
if [ -z "${TMPDIR:-}" ] && room 2>/dev/null | awk '/[0-9]/ { n += $NF == "kB" ? $2 > 12e6 : $1 > 8e6 } END { exit n < 2 }'; then
	TMPDIR=$(mktemp -d /dev/shm/grantkeeper.XXXXXX) && chmod 755 "$TMPDIR" && export TMPDIR
	memory=$TMPDIR
fi
beside=$(mktemp)
driven=$(mktemp)
trap 'rm -rf "$beside" "$driven" "${memory:-}"' EXIT

# The longest come first, so that they run beside the others, and so do those that are built
# otherwise. Many tests wait, for what they killed or for a page: five packages at once keep
# two processors busy.
# LC_ALL: test output may be any bytes, and awk must pass them through.
{
	# Compilers get more memory than what is tested, which is to decide by itself how much.
	run() { # in a folder, which is a module's
		(cd "$1" && shift && go test -json -vet=off -exec 'env -u GOGC' "$@")
	}
	(
		failed=0
		run . "$@" -run "$album" ./consent || failed=1
		run . "$@" -skip "$album|$atonce" "${partly[@]}" || failed=1
		run . "$@" -run "$pooled" ./store/enginetest || failed=1
		run . "$@" . ./store/simulate "${computing[@]}" || failed=1
		run bench -race "$@" ./... || failed=1
		run e2e/chart "$@" ./... || failed=1
		exit $failed
	) >"$beside" 2>&1 &
	apart=$! # not below: a list that is read from a command takes its place
	run . -p 2 "$@" "${drivers[@]}" >"$driven" 2>&1 &
	drives=$!
	failed=0
	mapfile -t others < <(go list ./... | grep -vxF "$(go list . "${computing[@]}" "${partly[@]}" "${drivers[@]}")")
	run . -race -p 2 "$@" -skip "$pooled" ./store/enginetest "${others[@]}" || failed=1
	run . -race "$@" -run "$atonce" "${partly[@]}" || failed=1
	wait "$apart" || failed=1
	wait "$drives" || failed=1
	cat "$beside" "$driven"
	exit $failed
} 2>&1 </dev/null | LC_ALL=C awk -f "$here/tally.awk"
status=("${PIPESTATUS[@]}")

if [ "${status[0]}" -ne 0 ]; then
	exit "${status[0]}"
fi
exit "${status[1]}"
