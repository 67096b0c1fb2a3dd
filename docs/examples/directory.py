"""Tells Grantkeeper of a change in a service's own directory.

    echo '{"id": "evt-1842", "version": 1842, "kind": "membership_removed",
           "object": {"organization": "nordlys", "person": "tor"}}' |
        python3 docs/examples/directory.py directory.key http://127.0.0.1:8082
"""
import hashlib, hmac, sys, time, urllib.error, urllib.request


def tell(gateway, secret, event):
    """Sends one event, and again until it has arrived: twice is once."""
    for wait in (1, 5, 25, 125, None):
        now = str(int(time.time()))
        signed = b"event\n" + now.encode() + b"\n" + event
        request = urllib.request.Request(gateway + "/v1/directory/events", event, {
            "Content-Type": "application/json",
            "X-Grantkeeper-Signature": "t=" + now + ",v1=" + hmac.new(secret, signed, hashlib.sha256).hexdigest(),
        })
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refusal:
            if refusal.code < 500 or wait is None:  # to send it again would not help
                raise SystemExit(refusal.read().decode())
        except OSError:
            if wait is None:
                raise
        time.sleep(wait)


with open(sys.argv[1], "rb") as file:
    secret = file.read().strip()
print(tell(sys.argv[2], secret, sys.stdin.buffer.read()), end="")
