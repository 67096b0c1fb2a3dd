#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for the duration
# given (default 30s). Stops at the first that finds something; go test then
# names the file with the input, which belongs in the repository.
set -euo pipefail

duration=${1:-30s}
found=0
for package in $(go list ./...); do
	targets=$(go test -list '^Fuzz' "$package" | awk '/^Fuzz/')
	for target in $targets; do
		echo "$package $target for $duration"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package"
		found=$((found + 1))
	done
done
if [ "$found" -eq 0 ]; then
	echo "no fuzz targets" >&2
	exit 1
fi
echo "$found fuzz targets, $duration each, nothing found"
