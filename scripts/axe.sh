#!/usr/bin/env bash
# Fetches axe-core, which looks for what people with disabilities would stumble
# over on a page, into the user's cache. The tests of the pages run it; the
# product has nothing of it (MPL-2.0). Its version is pinned here and in
# consent/chromium/axe.go, and its bytes by their checksum.
#
#   scripts/axe.sh          fetch it where it is missing
#   scripts/axe.sh --check  only say so; exits 1 if it is missing
set -euo pipefail

version=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c

cache=${XDG_CACHE_HOME:-$HOME/.cache}/grantkeeper
file=$cache/axe-$version.min.js
if [ -e "$file" ] && echo "$sha256  $file" | sha256sum --check --status; then
	exit 0
fi
if [ "${1:-}" = --check ]; then
	echo "Missing for the tests: axe-core $version, which $0 fetches" >&2
	exit 1
fi
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/axe.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && npm pack --silent "axe-core@$version" >/dev/null && tar -xzf "axe-core-$version.tgz" package/axe.min.js)
if ! echo "$sha256  $scratch/package/axe.min.js" | sha256sum --check --status; then
	echo "axe-core $version has another checksum than expected" >&2
	exit 1
fi
mv "$scratch/package/axe.min.js" "$file"
echo "Fetched: axe-core $version" >&2
