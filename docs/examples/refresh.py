"""Keeps a client's tokens in one file, for all of its threads and processes.

    python3 docs/examples/refresh.py tokens.json https://app.example.com/oauth/token
"""
import fcntl, json, os, sys, time, urllib.error, urllib.parse, urllib.request


class Ended(Exception):
    """The tokens are worth nothing any more: forget them, and ask the person again."""


def access_token(path, endpoint, refused=None):
    """Gives an access token that is good for a minute; refused is one that got 401."""
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever waits here reads what this one writes
        with open(path) as file:
            tokens = json.load(file)
        if tokens["expires_at"] > time.time() + 60 and tokens["access_token"] != refused:
            return tokens["access_token"]
        answer = refresh(endpoint, {
            "grant_type": "refresh_token",
            "client_id": tokens["client_id"],
            "refresh_token": tokens["refresh_token"],
        })
        tokens.update(answer, expires_at=time.time() + answer["expires_in"])
        with open(os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(tokens, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)  # before anybody uses them
        return tokens["access_token"]


def refresh(endpoint, form):
    """Sends a refresh token once. A server that is busy has not looked at it."""
    while True:
        try:
            with urllib.request.urlopen(endpoint, urllib.parse.urlencode(form).encode(), timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (429, 503):
                raise Ended(refusal.read().decode()) from None
            time.sleep(int(refusal.headers.get("Retry-After", 5)))


if __name__ == "__main__":
    print(access_token(sys.argv[1], sys.argv[2], *sys.argv[3:]))
