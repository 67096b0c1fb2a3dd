#!/usr/bin/env bash
# Installs what the tests need beside the Go toolchain. Quick, and silent,
# where everything is there; on anything but Debian and its relatives it names
# what is missing and exits 1.
#
#   scripts/setup-debian.sh          install what is missing
#   scripts/setup-debian.sh --check  only name it; exits 1 if anything is missing
set -euo pipefail

missing=() # packages, by Debian's names
reasons=() # one for each of them

need() { # package, reason
	missing+=("$1")
	reasons+=("$2")
}
have() { command -v "$1" >/dev/null 2>&1; }

debian=
if [ -e /etc/debian_version ] && have apt-get; then
	debian=yes
fi

have make || need make "runs the targets of the Makefile"
have git || need git "builds are stamped with the commit"
have curl || need curl "the README's commands, and scripts of commands"

have jq || need jq "reads what a release says of itself"
have ssh-keygen || need openssh-client "signs releases, and checks them"
have ar || need binutils "opens their packages"
have dpkg-deb || need dpkg "does so too"

# The race detector is the only thing here that needs a C compiler.
have "${CC:-gcc}" || need gcc "a C compiler, for go test -race"
if [ -n "$debian" ]; then
	[ -e /usr/include/stdlib.h ] || need libc6-dev "headers of the C library, for go test -race"
	[ -s /etc/ssl/certs/ca-certificates.crt ] || need ca-certificates "to fetch modules over https"
fi

have chromium-headless-shell || have chromium ||
	need chromium-headless-shell "a browser, for the page tests"

have npm || need npm "fetches axe-core, which checks the pages"

have nginx || [ -x /usr/sbin/nginx ] ||
	need nginx-light "a proxy, for the recipe in docs/integrating.md"

have caddy || need caddy "another proxy, for the recipe beside it"

have promtool || need prometheus "promtool, for the alert rules in contrib/"

have redis-server || have valkey-server ||
	need redis-server "counts rate limits for several nodes"

have node || need nodejs "runs the OpenID provider of the sign-in tests"
have npm || need npm "fetches that provider, and clients"
have openssl || need openssl "makes the keys of the hand-off's examples"
have python3 || need python3 "runs one of them"
python=/usr/bin/python3 # of the system, whose packages these are
[ -x "$python" ] || python=python3
for module in flask fastapi uvicorn; do
	"$python" -c "import $module" 2>/dev/null || need "python3-$module" "for services behind, as examples"
done

[ -n "$(compgen -G '/usr/lib/postgresql/*/bin/initdb')" ] || have initdb ||
	need postgresql "the other database, which the tests start by themselves"

have pgbouncer || [ -x /usr/sbin/pgbouncer ] ||
	need pgbouncer "stands between nodes and that database in one of the tests"

# High availability: no service of this machine either.
have patroni || need patroni "runs PostgreSQL on several servers in one of the tests"
have etcd || need etcd-server "says which of them is the primary"
have haproxy || [ -x /usr/sbin/haproxy ] ||
	need haproxy "leads to that one"
have ip || [ -x /sbin/ip ] || need iproute2 "networks of the tests' own, which are cut"

# The pages show names in whatever script they were written in. A bare system
# cannot draw Arabic or Devanagari; these two stand for the rest.
fonts="fonts for the page tests, Arabic included"
if ! have fc-list; then
	need fontconfig "finds the fonts"
	need fonts-noto-core "$fonts"
elif [ -z "$(fc-list :lang=ar family)" ] || [ -z "$(fc-list :lang=hi family)" ]; then
	need fonts-noto-core "$fonts"
fi

here=$(dirname "${BASH_SOURCE[0]}")

if [ ${#missing[@]} -eq 0 ]; then
	"$here/axe.sh" "$@"
	"$here/packages.sh" "$@"
	exit 0
fi

{
	echo "Missing for the tests (names of Debian packages):"
	for i in "${!missing[@]}"; do
		printf '  %-16s %s\n' "${missing[$i]}" "${reasons[$i]}"
	done
} >&2

if [ "${1:-}" = --check ]; then
	exit 1
fi
if [ -z "$debian" ]; then
	echo "This is not Debian: install them by its own means, then run again." >&2
	exit 1
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! have sudo || ! sudo -n true 2>/dev/null; then
		echo "Run as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	root=(sudo -n)
fi

apt() {
	# A machine that has just booted may still be updating itself: wait for it.
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
		-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# What is installed for the tests is not to run as a service of this machine.
log=$(mktemp)
policy=/usr/sbin/policy-rc.d
if [ -e "$policy" ]; then
	trap 'rm -f "$log"' EXIT
else
	trap 'rm -f "$log"; "${root[@]}" rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
	"${root[@]}" chmod 755 "$policy"
fi

# Package lists may be absent or stale. They are fetched only when installing
# without them fails, so that a machine with fresh ones is not kept waiting.
if ! apt install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
	if ! { apt update && apt install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
		cat "$log" >&2
		echo "apt-get could not install: ${missing[*]}" >&2
		exit 1
	fi
fi
echo "Installed: ${missing[*]}" >&2
"$here/axe.sh"
"$here/packages.sh"
