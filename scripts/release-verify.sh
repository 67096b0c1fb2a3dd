#!/usr/bin/env bash
# Checks a release from outside, with the tools that every Linux has and none of
# ours: sha256sum, ssh-keygen, ar, tar, gzip, jq. It says what holds, line by line, and
# exits 1 with the first thing that does not.
#
#   scripts/release-verify.sh [--signers FILE | --unsigned] [--source FOLDER] FOLDER
#
# FOLDER has the files of one release and nothing else. --signers is the public key
# that must have signed, as ssh-keygen(1) has it under ALLOWED SIGNERS: take it from a
# place that you trust, not from beside the release. --unsigned says that there is no
# signature to check. --source is a git repository: its commit is built anew, which
# takes minutes, and every byte compared.
set -euo pipefail
export LC_ALL=C
unset CDPATH # by which cd may find another folder than is named

fail() { echo "NOT AS RELEASED: $*" | cat -v >&2; exit 1; } # names may be anything
ok() { echo "ok    $*"; }
trap 'fail "it could not be read (line $LINENO)"' ERR

signers='' unsigned='' source=''
while [ $# -gt 1 ]; do
	case $1 in
	--signers) signers=$(realpath "$2"); shift 2 ;;
	--source) source=$(realpath "$2"); shift 2 ;;
	--unsigned) unsigned=yes; shift ;;
	*) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
	esac
done
if [ $# -ne 1 ] || [ ! -d "$1" ] || { [ -z "$signers" ] && [ -z "$unsigned" ]; }; then
	sed -n 's/^#   //p' "$0" >&2
	exit 2
fi
for tool in sha256sum ssh-keygen ar tar gzip jq cmp; do
	command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 2; }
done
cd -- "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
hash() { sha256sum | cut -d' ' -f1; }

# What a link leads to may be something else tomorrow, and a pipe never ends.
odd=$(find . -mindepth 1 ! -type f -printf '%P ')
[ -z "$odd" ] || fail "not a plain file: $odd"
[ -f SHA256SUMS ] || fail "there is no SHA256SUMS"

# The signature. Its armour is compared too, because ssh-keygen overlooks spaces.
if [ -n "$signers" ]; then
	[ -f SHA256SUMS.sig ] || fail "there is no SHA256SUMS.sig"
	{
		echo '-----BEGIN SSH SIGNATURE-----'
		sed '1d;$d' SHA256SUMS.sig | base64 -d 2>/dev/null | base64 -w 70
		echo '-----END SSH SIGNATURE-----'
	} | cmp -s - SHA256SUMS.sig || fail "SHA256SUMS.sig is no signature"
	ssh-keygen -Y verify -f "$signers" -I release@grantkeeper -n grantkeeper-release \
		-s SHA256SUMS.sig <SHA256SUMS >"$scratch/signature" 2>&1 || fail "the signature: $(head -n 1 "$scratch/signature")"
	ok "signature: $(head -n 1 "$scratch/signature")"
fi

# The sums: of each file, and of no other.
! grep -qvE '^[0-9a-f]{64}  grantkeeper[-_][0-9A-Za-z._~-]+$' SHA256SUMS || fail "SHA256SUMS has a line of another form"
sums=$(cut -c67- SHA256SUMS)
there=$(find . -mindepth 1 ! -name SHA256SUMS ! -name SHA256SUMS.sig | sed 's,^\./,,' | sort)
[ "$there" = "$(sort <<<"$sums")" ] || fail "files and SHA256SUMS: $(diff <(echo "$there") <(sort <<<"$sums") | grep '^[<>]' | tr '\n' ' ')"
sha256sum --check --strict --quiet SHA256SUMS >"$scratch/sums" 2>&1 || fail "$(head -n 1 "$scratch/sums")"
ok "check sums: $(wc -l <SHA256SUMS) files, each as in SHA256SUMS, and no other"

# The statement of provenance is about the same files.
statement=$(grep -- '-provenance\.json$' <<<"$sums") || fail "there is no statement of provenance"
[ "$(wc -l <<<"$statement")" = 1 ] || fail "there are several statements of provenance"
version=${statement#grantkeeper-} version=${version%-provenance.json}
[ "$(jq -r '._type, .predicateType' "$statement" | tr '\n' ' ')" = 'https://in-toto.io/Statement/v1 https://slsa.dev/provenance/v1 ' ] ||
	fail "$statement is no in-toto statement with SLSA's provenance"
jq -r '.subject[] | .digest.sha256 + "  " + .name' "$statement" | cmp -s - <(grep -v -- '-provenance\.json$' SHA256SUMS) ||
	fail "$statement is about other files"
commit=$(jq -r '.predicate.buildDefinition.externalParameters.commit' "$statement")
epoch=$(jq -r '.predicate.buildDefinition.internalParameters.SOURCE_DATE_EPOCH' "$statement")
[[ $commit =~ ^[0-9a-f]{40}$ && $epoch =~ ^[0-9]+$ ]] || fail "$statement names no commit"
[ "$(jq -r '.predicate.buildDefinition.externalParameters.version' "$statement")" = "$version" ] || fail "$statement is of another version"
ok "provenance: version $version of commit $commit, about each of the files"

# The bill of materials has each binary, by its hash, and what the toolchain says is in it.
bill=grantkeeper-$version-sbom.spdx.json
[ "$(jq -r .spdxVersion "$bill")" = SPDX-2.3 ] || fail "$bill is no SPDX 2.3"
jq -r '.packages[] | select(.packageFileName) | .checksums[0].checksumValue + "  " + .packageFileName' "$bill" >"$scratch/binaries"
cmp -s "$scratch/binaries" <(grep -E -- '-(linux|darwin|windows)-[a-z0-9]+(\.exe)?$' SHA256SUMS) || fail "$bill is about other binaries"
modules=$(jq '[.packages[] | select(.primaryPackagePurpose == "LIBRARY")] | length' "$bill")
if command -v go >/dev/null; then
	while read -r _ binary; do
		# Lines "dep", and "=>" below one where another module replaces it.
		go version -m "$binary" | awk -F '\t' '$2 == "dep" { if (m) print m; m = $3 "@" $4 } $2 == "=>" { m = $3 "@" $4 } END { if (m) print m }' | sort >"$scratch/linked"
		jq -r --arg f "$binary" '(.packages | map({(.SPDXID): .}) | add) as $p | .relationships[]
			| select(.relationshipType == "DEPENDS_ON" and $p[.spdxElementId].packageFileName == $f)
			| $p[.relatedSpdxElement] | select(.name != "stdlib") | .name + "@" + .versionInfo' "$bill" | sort | cmp -s - "$scratch/linked" || fail "$bill: other modules than in $binary"
	done <"$scratch/binaries"
	ok "bill of materials: $modules libraries, for each binary those of: go version -m"
else
	ok "bill of materials: $modules libraries (no Go here to compare them with the binaries)"
fi

texts=grantkeeper-$version-licenses.txt
sed -n 's/^== //p' "$texts" | sort | cmp -s - <({ echo "grantkeeper@$version"; jq -r '.packages[] | select(.primaryPackagePurpose == "LIBRARY") | .name + "@" + .versionInfo' "$bill"; } | sort) || fail "$texts is about other modules"
ok "licences: of each library, and ours"

# The packages hold the same binaries.
for arch in amd64 arm64; do
	binary=grantkeeper-$version-linux-$arch package=grantkeeper_${version}_$arch.deb
	[ "$(ar t "$package" | tr '\n' ' ')" = 'debian-binary control.tar.gz data.tar.gz ' ] || fail "$package is no package"
	ar p "$package" control.tar.gz | tar -xzO ./control >"$scratch/control"
	grep -qx "Version: ${version/-/\~}" "$scratch/control" && grep -qx "Architecture: $arch" "$scratch/control" || fail "$package is of another version"
	ar p "$package" data.tar.gz | gzip -dc >"$scratch/data.tar"
	tar -xOf "$scratch/data.tar" ./usr/bin/grantkeeper | cmp -s - "$binary" || fail "$package: usr/bin/grantkeeper is not $binary"
	# Nothing with more rights than its owner's, and no owner but root.
	if tar --numeric-owner -tvf "$scratch/data.tar" | grep -vqE '^[d-][r-][w-][x-][r-]-[x-][r-]-[x-] 0/0 '; then fail "$package: a file with other rights, or of another owner"; fi
	ok "$package: the same binary"
done

# The image: each blob is what its name says, and what leads to it.
image=grantkeeper-$version-image.tar
mkdir "$scratch/image" # with nothing beside it that the archive could write over
tar -xf "$image" -C "$scratch/image" --no-same-owner
(cd "$scratch/image/blobs/sha256" && for f in *; do echo "$f  $f"; done | sha256sum --check --strict --quiet) >"$scratch/sums" 2>&1 || fail "$image: $(head -n 1 "$scratch/sums")"
blob() { echo "$scratch/image/blobs/sha256/${1#sha256:}"; }
index=$(blob "$(jq -r '.manifests[0].digest' "$scratch/image/index.json")")
seen=2 # index.json and the index
for arch in amd64 arm64; do
	digest=$(jq -r --arg a $arch '.manifests[] | select(.platform.os == "linux" and .platform.architecture == $a).digest' "$index")
	manifest=$(blob "$digest")
	config=$(blob "$(jq -r .config.digest "$manifest")")
	layer=$(blob "$(jq -r '.layers[0].digest' "$manifest")")
	[ "$(jq '.layers | length' "$manifest")" = 1 ] || fail "$image: $arch has other layers"
	gzip -dc "$layer" >"$scratch/layer.tar"
	[ "$(jq -r '.rootfs.diff_ids[0]' "$config")" = "sha256:$(hash <"$scratch/layer.tar")" ] || fail "$image: the layer of $arch is another"
	[ "$(jq -r '.config.User, .architecture, .config.Entrypoint[0]' "$config" | tr '\n' ' ')" = "10001:10001 $arch /grantkeeper " ] || fail "$image: $arch does not run the server as nobody's user"
	tar -xOf "$scratch/layer.tar" grantkeeper | cmp -s - "grantkeeper-$version-linux-$arch" || fail "$image: /grantkeeper of $arch is not the binary"
	seen=$((seen + 3))
done
[ "$(find "$scratch/image/blobs" ! -type d | wc -l)" = $((seen - 1)) ] || fail "$image: blobs that nothing leads to"
ok "$image: each blob as its name, the same binaries, run as 10001"

chart=grantkeeper-$version.tgz
tar -xzOf "$chart" grantkeeper/Chart.yaml >"$scratch/Chart.yaml"
[ "$(grep -cxE "(version|appVersion): \"$version\"" "$scratch/Chart.yaml")" = 2 ] || fail "$chart is of another version"
ok "$chart: the chart of this version"

if [ -n "$source" ]; then
	git clone -q --no-checkout "$source" "$scratch/source"
	git -C "$scratch/source" checkout -q "$commit" || fail "$source has no commit $commit"
	[ "$(git -C "$scratch/source" show -s --format=%ct)" = "$epoch" ] || fail "the commit is of another time"
	VERSION=$version bash "$scratch/source/scripts/release.sh" "$scratch/again" >"$scratch/log" 2>&1 || fail "the source does not build: $(tail -n 3 "$scratch/log")"
	diff "$scratch/again/SHA256SUMS" SHA256SUMS >"$scratch/differences" || fail "built anew, it differs: $(grep '^>' "$scratch/differences" | cut -c69- | tr '\n' ' ')"
	ok "source: built anew, every byte the same"
fi
[ -n "$signers" ] || echo "NOT CHECKED: who made it (--unsigned)"
