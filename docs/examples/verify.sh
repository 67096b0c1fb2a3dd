#!/bin/sh
# Did Grantkeeper sign these headers, at most a minute ago? Exits 0 if so. It
# reads them as a CGI program gets them, and the key from the file $KEY_FILE.
set -eu

signature=${HTTP_X_GRANTKEEPER_SIGNATURE-}
t=${signature#t=}
t=${t%%,*}
case $t in
'' | *[!0-9]*)
	echo "not signed" >&2
	exit 1
	;;
esac
sum=$(printf '%s\n' v1 "$t" \
	"${HTTP_X_GRANTKEEPER_PERSON-}" \
	"${HTTP_X_GRANTKEEPER_ORGANIZATION-}" \
	"${HTTP_X_GRANTKEEPER_APPROVAL-}" \
	"${HTTP_X_GRANTKEEPER_CLIENT-}" \
	"${HTTP_X_GRANTKEEPER_GRANT-}" \
	"${HTTP_X_GRANTKEEPER_AUTHORITY-}" |
	openssl dgst -sha256 -hmac "$(cat "$KEY_FILE")" -r | cut -d' ' -f1)
if [ "$signature" != "t=$t,v1=$sum" ]; then
	echo "not signed by this key" >&2
	exit 1
fi

# With CALL=1 also: for this very call? The body's digest, or -, is as it says.
if [ "${CALL-}" = 1 ]; then
	said=${HTTP_X_GRANTKEEPER_CALL_SIGNATURE-}
	body=${said#body=}
	body=${body%%,*}
	call=$(printf '%s\n' call-v1 "$signature" "$REQUEST_METHOD" "$REQUEST_URI" "$body" |
		openssl dgst -sha256 -hmac "$(cat "$KEY_FILE")" -r | cut -d' ' -f1)
	if [ "$said" != "body=$body,v1=$call" ]; then
		echo "not signed for this call" >&2
		exit 1
	fi
fi
age=$(($(date +%s) - t))
if [ "$age" -gt 60 ] || [ "$age" -lt -60 ]; then
	echo "signed at another time" >&2
	exit 1
fi
