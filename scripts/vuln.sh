#!/usr/bin/env bash
# Asks the Go vulnerability database what is known against the modules and the standard
# library that the server is built from, and whether it calls that: govulncheck, of
# the version that scripts/lint/go.mod pins. GOVULNDB is another database.
#
#   scripts/vuln.sh                      the source
#   scripts/vuln.sh -mode binary FILE    a binary; or any arguments of govulncheck
#
# Exits 0 when nothing is known, 3 when something is, 4 when the database could not be
# asked, which says nothing about vulnerabilities, and 1 when it could not look at all.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
database=${GOVULNDB:-https://vuln.go.dev}
[ $# -gt 0 ] || { cd "$here/.." && set -- ./...; }
# The standard library that counts is the release's.
GOTOOLCHAIN=$(sed -n 's/^export GOTOOLCHAIN=\(go[0-9.]*\).*/\1/p' "$here/release.sh")
export GOTOOLCHAIN
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -C "$here/lint" -trimpath -o "$scratch/govulncheck" golang.org/x/vuln/cmd/govulncheck || exit 1

"$scratch/govulncheck" -db "$database" "$@" 2>"$scratch/errors"
status=$?
cat "$scratch/errors" >&2
case $status in
0) echo "$database knows of nothing." ;;
3) echo "NOT GOOD: $database knows of the above." >&2 ;;
*)
	if grep -qE '^(govulncheck: fetching vulnerabilities|creating client): ' "$scratch/errors"; then
		echo "NOT CHECKED: $database could not be asked, so nothing is known about vulnerabilities." >&2
		exit 4
	fi
	echo "NOT CHECKED: govulncheck ended with $status." >&2
	exit 1
	;;
esac
exit "$status"
