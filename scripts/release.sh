#!/usr/bin/env bash
# Makes a release of the commit that is checked out, in the folder $1, which is made
# anew: "make release". Whatever the machine, its folder and its environment, the same
# commit and version give the same bytes.
#
#   VERSION=1.2.3 scripts/release.sh bin/release
set -euo pipefail

unset CDPATH GOOS GOARCH $(git rev-parse --local-env-vars)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(realpath -m "$1")

# Whatever decides on bytes is said here, and not by the machine: of what go env -w has
# written, an empty variable leaves all that stands there.
for name in GOPROXY GOSUMDB GOMODCACHE GOCACHE; do
	export "$name=$(GOTOOLCHAIN=local go env "$name")"
done
export GOENV=off
export GOTOOLCHAIN=go1.26.8 # another one fetches it, checked by the go command
export GOFLAGS='-trimpath -buildvcs=false -mod=readonly' GOWORK=off GOEXPERIMENT= GOFIPS140=off GODEBUG=
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 LC_ALL=C TZ=UTC
umask 022

# The server not for Windows: whose a file is, which decides on secrets and databases, is
# asked of Unix. What runs on people's own computers is for all.
server=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)
connect=("${server[@]}" windows/amd64 windows/arm64)

version=${VERSION:-$(sed -n 's/^var version = "\(.*\)"/\1/p' cmd/grantkeeper/version.go)}
commit=$(git rev-parse --verify HEAD)
epoch=$(git show -s --format=%ct HEAD)
# Whatever the machine's git is told to overlook.
changes() { git -c core.excludesFile=/dev/null status --porcelain --untracked-files=all --ignore-submodules=none; }
changed=$(changes)
if [ -n "$changed" ]; then
	echo "A release is made from a commit, and these are in none:" >&2
	echo "$changed" >&2
	exit 1
fi

rm -rf "$out" && mkdir -p "$out"
build() { # program, and its platforms
	local program=$1 platform os arch end
	shift
	for platform; do
		os=${platform%/*} arch=${platform#*/} end=
		[ "$os" != windows ] || end=.exe
		echo "$program $version $platform"
		GOOS=$os GOARCH=$arch go build \
			-ldflags "-s -w -buildid= -X main.version=$version -X github.com/grantkeeper/grantkeeper/server.released=$commit" \
			-o "$out/$program-$version-$os-$arch$end" "./cmd/$program"
	done
}
build grantkeeper "${server[@]}"
build grantkeeper-connect "${connect[@]}"
go run ./scripts/release -version "$version" -commit "$commit" -epoch "$epoch" -folder "$out"
if [ "$(git rev-parse HEAD)" != "$commit" ] || [ -n "$(changes)" ]; then
	echo "The source has changed meanwhile: $out is of no commit." >&2
	exit 1
fi
echo "$out: $(wc -l <"$out/SHA256SUMS") files, and SHA256SUMS"
