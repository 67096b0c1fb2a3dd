"""The same service in Python, with a secret that both sides have.

    openssl rand -hex 32 > handoff.key; chmod 600 handoff.key
    python3 docs/examples/handoff.py handoff.key http://127.0.0.1:8080 9000
"""
import base64, hashlib, hmac, http.cookies, http.server, json, sys, time, urllib.parse


def b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def assertion(secret, audience, challenge, person, auth_time):
    """A JWS in its compact form (RFC 7515), good for a minute."""
    header = b64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    claims = b64(json.dumps({
        "aud": audience,         # {base} of Grantkeeper
        "challenge": challenge,  # as it came
        "sub": person,           # ID or email
        "iat": int(time.time()),
        "auth_time": auth_time,  # Unix seconds
        # "impersonated_by": "support-7",  where it is not the person
    }).encode())
    signed = header + b"." + claims
    return (signed + b"." + b64(hmac.new(secret, signed, hashlib.sha256).digest())).decode()


class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        asked = urllib.parse.parse_qs(address.query)
        challenge = asked.get("challenge", [""])[0]
        cookies = http.cookies.SimpleCookie(self.headers.get("Cookie", ""))
        if address.path != "/grantkeeper":
            self.send_error(404)
            return
        # The cookie stands for the session of a real service; switch asks for another account.
        if "service" not in cookies or "switch" in asked:
            self.send_error(401, "sign in first")
            return
        signed = assertion(secret, grantkeeper, challenge, "ada@nordlys.example", int(time.time()))
        self.send_response(303)
        # To a place that is configured, never to one that the request names.
        self.send_header("Location", grantkeeper + "/signin/callback/handoff?assertion=" + signed)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()


with open(sys.argv[1], "rb") as file:
    secret = file.read().strip()
grantkeeper = sys.argv[2]
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Service).serve_forever()
