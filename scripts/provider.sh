#!/usr/bin/env bash
# Fetches the OpenID provider of the sign-in tests into the user's cache, under
# the hash of e2e/provider/package-lock.json, which says exactly what it is.
set -euo pipefail

from=$(cd "$(dirname "${BASH_SOURCE[0]}")/../e2e/provider" && pwd)
hash=$(sha256sum "$from/package-lock.json" | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/grantkeeper
if [ -d "$cache/provider-$hash" ]; then
	exit 0
fi
if [ "${1:-}" = --check ]; then
	echo "Missing for the tests: the OpenID provider of e2e/provider, in $cache" >&2
	exit 1
fi
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/provider.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cp "$from/package.json" "$from/package-lock.json" "$scratch/"
npm ci --silent --no-audit --no-fund --prefix "$scratch" >&2
mv -T "$scratch" "$cache/provider-$hash" 2>/dev/null || [ -d "$cache/provider-$hash" ] # or another was quicker
