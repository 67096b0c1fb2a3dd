#!/usr/bin/env bash
# Fetches what the tests use of npm into the user's cache: the OpenID provider of
# the sign-in tests, clients and an MCP server that others wrote, and frameworks of
# services. Each stands there under the hash of its package-lock.json, which says
# exactly what it is.
set -euo pipefail

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")/../e2e" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/grantkeeper
for name in provider clients services mcpserver; do
	from=$e2e/$name
	hash=$(sha256sum "$from/package-lock.json" | cut -c1-12)
	if [ -d "$cache/$name-$hash" ]; then
		continue
	fi
	if [ "${1:-}" = --check ]; then
		echo "Missing for the tests: the packages of e2e/$name, in $cache" >&2
		exit 1
	fi
	mkdir -p "$cache"
	scratch=$(mktemp -d "$cache/$name.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	cp "$from/package.json" "$from/package-lock.json" "$scratch/"
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$scratch" >&2
	mv -T "$scratch" "$cache/$name-$hash" 2>/dev/null || [ -d "$cache/$name-$hash" ] # or another was quicker
	rm -rf "$scratch"
done
