#!/bin/sh
# Asks whether the access token $TOKEN may call, with the gateway's key in the
# file $KEY_FILE.
set -eu

curl -s "${GATEWAY:-http://127.0.0.1:8082}/v1/decisions" \
	-H "X-Gateway-Key: $(cat "$KEY_FILE")" -H 'Content-Type: application/json' \
	-d '{"token": "'"$TOKEN"'", "host": "app.example.com", "path": "/api/v5/notes", "method": "GET"}'
