"""Reads the headers by which Grantkeeper tells a service whom a call is for, and
refuses what it has not signed. Copy this file: it needs Python 3.9 and nothing
else. What is signed: docs/integrating.md, "Signed headers".

    from grantkeeper import ASGI, WSGI, key_file

    app.wsgi_app = WSGI(app.wsgi_app, [key_file("/etc/service/grantkeeper.key")])  # Flask
    request.environ["grantkeeper"].acts("nordlys-treasurer") == "change"

    app.add_middleware(ASGI, keys=[key_file("/etc/service/grantkeeper.key")])  # FastAPI
    request.scope["grantkeeper"].acts("nordlys-treasurer") == "change"
"""
import dataclasses
import hashlib
import hmac
import io
import re
import time
import typing

NAMES = ("person", "organization", "approval", "client", "grant", "authority")
TOLERANCE = 60  # seconds, either way
MIN_KEY = 32  # bytes
MAX_BODY = 64 << 10  # bytes: of a longer body api.upstream signs nothing


class Refused(Exception):
    """Why a call is for nobody. The message holds no secret."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """Whom a call is for, and how far it may go now."""

    person: str  # ID
    organization: str  # ID: the only one that the call may touch
    approval: str  # ID; "" when an API key was sent
    client: str  # client ID; "" when an API key was sent
    grant: str  # "roles", "everything" or "organization"
    admin: bool = False  # circles, roles, fillers and members may be changed
    personal: bool = False  # the person's own items may be read and changed
    roles: tuple = ()  # under the grant "roles" alone: pairs of ID and "read" or "change"
    read_only: bool = False  # the organization lets apps read only
    never: tuple = ()  # under the other grants: not through these roles
    admin_within: bool = False  # as admin, but for items of the roles in never, and under read_only to read
    personal_reads: bool = False  # the person's own items may be read, and not changed

    def acts(self, role: str) -> str:
        """Gives "none", "read" or "change": what may be done through a role that
        the person fills. Whether they do, the service knows."""
        if role in self.never:
            return "none"
        access = "change" if self.grant in ("everything", "organization") else "none"
        for name, given in reversed(self.roles):  # the first counts
            access = given if name == role else access
        return "read" if self.read_only and access == "change" else access


class Call(typing.NamedTuple):
    """A call as the service got it."""

    method: str
    target: str  # path and query, in the bytes of the request line
    body: typing.Optional[bytes] = None  # None does not ask whether it is the one that was signed


def key_file(path) -> bytes:
    """Reads a key file: one line of 32 visible ASCII characters or more."""
    with open(path, "rb") as file:
        key = re.sub(rb"\r?\n\Z", b"", file.read())
    if not re.fullmatch(rb"[\x21-\x7e]{%d,}" % MIN_KEY, key):
        raise ValueError(f"{path}: a key is one line of at least {MIN_KEY} visible ASCII characters")
    return key


def verify(headers, keys, call=None, now=None) -> Identity:
    """Gives whom a call is for, or raises Refused. headers is a mapping, or pairs,
    of text or bytes; now is in Unix seconds. Several keys are for the time in which
    one takes the place of another. Without a call, headers that were copied are
    good for any, for a minute."""
    headers = list(headers.items() if hasattr(headers, "items") else headers)
    signature = _one(headers, "signature")
    read = re.fullmatch(r"t=(0|-?[1-9][0-9]{0,18}),v1=([0-9a-f]{64})", signature)
    if not read:
        raise Refused("no signature, or another form")
    values = [_one(headers, name) for name in NAMES]
    if not _signed(keys, ["v1", read[1], *values], read[2]):
        raise Refused("not signed by a known key")
    if abs(int(time.time() if now is None else now) - int(read[1])) > TOLERANCE:
        raise Refused("signed at another time than now")
    if call is not None:
        _verify_call(_one(headers, "call-signature"), signature, call, keys)
    return Identity(*values[:5], **_authority(values[5]))


def _verify_call(said, signature, call, keys):
    read = re.fullmatch(r"body=(-|[0-9a-f]{64}),v1=([0-9a-f]{64})", said)
    if not read:
        raise Refused("no signature of the call, or another form")
    if call.body is not None and read[1] != hashlib.sha256(call.body).hexdigest():
        raise Refused("the body is another, or not signed")
    if not _signed(keys, ["call-v1", signature, call.method, call.target, read[1]], read[2]):
        raise Refused("not signed for this call")


def _body_signed(headers):
    return not _one(headers, "call-signature").startswith("body=-,")


def _signed(keys, lines, digits):
    """Compares with every key, each in constant time."""
    text = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
    keys = [key.encode() if isinstance(key, str) else key for key in keys]
    sums = [hmac.new(key, text, hashlib.sha256).hexdigest() for key in keys if len(key) >= MIN_KEY]
    return sum(hmac.compare_digest(one, digits) for one in sums) > 0


def _one(headers, name):
    """Gives a header, "" when it was not sent."""
    name = "x-grantkeeper-" + name
    values = [_text(value) for key, value in headers if _text(key).lower() == name]
    if len(values) > 1:
        raise Refused(name + ": sent twice")
    if not re.fullmatch(r"[\x21-\x7e]*", "".join(values)):
        raise Refused(name + ": more than visible ASCII characters")
    return "".join(values)


def _text(value):
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _authority(text):
    said = {"admin": False, "personal": False, "readonly": False}
    roles, never = [], []
    for word in text.split(",") if text else []:
        role = re.fullmatch(r"([^=]+)=(read|change|none)", word)
        if word in said:
            said[word] = True
        elif role and role[2] == "none":
            never.append(role[1])
        elif role:
            roles.append((role[1], role[2]))
        else:
            raise Refused("x-grantkeeper-authority: unknown word")
    admin, personal, read_only = said.values()
    limited = read_only or bool(never)
    return {
        "admin": admin and not limited, "personal": personal and not read_only, "roles": tuple(roles),
        "read_only": read_only, "never": tuple(never), "admin_within": admin and limited, "personal_reads": personal and read_only,
    }


class WSGI:
    """Middleware of Flask, Django and their like: environ["grantkeeper"] says whom
    the call is for, and what is not signed for this very call is 401. body=False also
    takes a body that is not signed: that of any call behind forward-auth, and one of
    more than 64 KiB. The raw target is what gunicorn, uWSGI, mod_wsgi and Werkzeug
    give; where a server has none, or a proxy rewrites the path, only call=False
    works, which compares nothing of the call."""

    def __init__(self, app, keys, call=True, body=True):
        self.app, self.keys, self.call, self.body = app, keys, call, body

    def __call__(self, environ, start_response):
        try:
            environ["grantkeeper"] = self.verify(environ)
        except Refused as why:
            text = f"{why}\n".encode()
            start_response("401 Unauthorized", [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))])
            return [text]
        return self.app(environ, start_response)

    def verify(self, environ):
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        call = None
        if self.call:
            target = environ.get("RAW_URI") or environ.get("REQUEST_URI")
            if not target:
                raise Refused("the server does not tell the raw target")
            call = Call(environ["REQUEST_METHOD"], target)
            verify(headers, self.keys, call)  # before anything is read for a stranger
            if self.body or _body_signed(headers):
                call = call._replace(body=self.read(environ))
        return verify(headers, self.keys, call)

    @staticmethod
    def read(environ):
        if environ.get("HTTP_TRANSFER_ENCODING") and not environ.get("wsgi.input_terminated"):
            raise Refused("the server does not tell where the body ends")
        length = environ.get("CONTENT_LENGTH") or "0"
        if not re.fullmatch("[0-9]{1,18}", length):
            raise Refused("the length of the body is no number")
        most = MAX_BODY + 1
        body = environ["wsgi.input"].read(most if environ.get("wsgi.input_terminated") else min(int(length), most))
        if len(body) > MAX_BODY:
            raise Refused("the body is too long to be signed")
        environ["wsgi.input"] = io.BytesIO(body)
        return body


class ASGI:
    """Middleware of FastAPI, Starlette and their like: scope["grantkeeper"] says
    whom the call is for; else as WSGI. A path that ends in ? and nothing is refused:
    ASGI does not tell it from one without."""

    def __init__(self, app, keys, call=True, body=True):
        self.app, self.keys, self.call, self.body = app, keys, call, body

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        try:
            who, receive = await self.verify(scope, receive)
        except Refused as why:
            if scope["type"] == "websocket":
                return await send({"type": "websocket.close", "code": 1008})
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
            return await send({"type": "http.response.body", "body": f"{why}\n".encode()})
        return await self.app({**scope, "grantkeeper": who}, receive, send)

    async def verify(self, scope, receive):
        call = None
        if self.call:
            if not scope.get("raw_path"):
                raise Refused("the server does not tell the raw target")
            query = scope.get("query_string") or b""
            target = scope["raw_path"] + (b"?" + query if query else b"")
            call = Call(scope.get("method", "GET"), target.decode("latin-1"))
            verify(scope["headers"], self.keys, call)  # before anything is read for a stranger
            if self.body or _body_signed(scope["headers"]):
                body, receive = await self.read(scope, receive)
                call = call._replace(body=body)
        return verify(scope["headers"], self.keys, call), receive

    @staticmethod
    async def read(scope, receive):
        if scope["type"] == "websocket":
            return b"", receive
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused("the caller has gone")
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > MAX_BODY:
                raise Refused("the body is too long to be signed")
        told = False

        async def again():
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        return body, again
