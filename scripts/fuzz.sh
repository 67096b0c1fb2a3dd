#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for the duration given (default
# 30s), or those alone whose names match the second argument; 0s fuzzes nothing. Then says how
# much of the target's package its corpus covers: its seeds, and the inputs in testdata/fuzz
# that are kept for what they reach. PART=3/22 takes the third of every 22 targets. Where
# something is found, go test names the file with the input, which belongs in the repository
# and is printed at the end, so that it can be made again from what was printed.
set -euo pipefail

duration=${1:-30s}
only=${2:-.}
IFS=/ read -r part parts <<<"${PART:-0/1}"
found=0 seen=0 failed=()
while read -r package folder; do
	for target in $(grep -hoE '^func Fuzz\w+' "$folder"/*_test.go 2>/dev/null | sed 's/^func //' | grep -E -- "$only" || true); do
		seen=$((seen + 1))
		[ $((seen % parts)) -eq $((part % parts)) ] || continue
		echo "$package $target for $duration"
		[ "$duration" = 0s ] || go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package" || failed+=("$folder/testdata/fuzz/$target")
		covered=()
		case $package in */e2e/*) covered=(-coverpkg=./...) ;; esac # what it tests is not in its package
		go test -count=1 -run "^$target\$" -cover "${covered[@]}" "$package" | awk -v target="$target" '/coverage:/ {
			sub(/.*coverage: /, ""); print target "'"'"'s corpus covers " $0 }' || failed+=("$folder/testdata/fuzz/$target")
		found=$((found + 1))
	done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
if [ "$found" -eq 0 ]; then
	echo "no fuzz targets" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	git status --porcelain --untracked-files=all -- "${failed[@]}" | cut -c4- | while read -r input; do
		echo "$input:" && cat "$input"
	done
	echo "something was found, of $found fuzz targets" >&2
	exit 1
fi
echo "$found fuzz targets, $duration each, nothing found"
