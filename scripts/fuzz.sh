#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for the duration given (default
# 30s), or those alone whose names match the second argument; 0s fuzzes nothing. Then says how
# much of the target's package its corpus covers: its seeds, and the inputs in testdata/fuzz
# that are kept for what they reach. PART=3/22 takes the third of every 22 targets. Stops at
# the first target that finds something; go test then names the file with the input, which
# belongs in the repository.
set -euo pipefail

duration=${1:-30s}
only=${2:-.}
IFS=/ read -r part parts <<<"${PART:-0/1}"
found=0 seen=0
for package in $(go list ./...); do
	targets=$(go test -list '^Fuzz' "$package" | awk '/^Fuzz/' | grep -E -- "$only" || true)
	for target in $targets; do
		seen=$((seen + 1))
		[ $((seen % parts)) -eq $((part % parts)) ] || continue
		echo "$package $target for $duration"
		[ "$duration" = 0s ] || go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package"
		covered=()
		case $package in */e2e/*) covered=(-coverpkg=./...) ;; esac # what it tests is not in its package
		go test -count=1 -run "^$target\$" -cover "${covered[@]}" "$package" | awk -v target="$target" '/coverage:/ {
			sub(/.*coverage: /, ""); print target "'"'"'s corpus covers " $0 }'
		found=$((found + 1))
	done
done
if [ "$found" -eq 0 ]; then
	echo "no fuzz targets" >&2
	exit 1
fi
echo "$found fuzz targets, $duration each, nothing found"
