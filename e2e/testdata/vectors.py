"""Holds contrib/verify/grantkeeper.py to the vectors beside it, through every way
in: python3 vectors.py FOLDER. Says how many agree, or what does not."""
import asyncio, io, json, os, sys, tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import grantkeeper

with open(os.path.join(sys.argv[1], "vectors.json"), encoding="utf-8") as file:
    vectors = json.load(file)["vectors"]
faults = []
# What was signed of a body that a vector does not ask for is the same everywhere.
SIGNED = next(v for v in vectors if v["name"] == "the call that was signed")["call"]["body"].encode()


def identity(got, roles):
    """Gives what a vector says of an identity: the limits where there are any."""
    out = {**vars(got), "roles": roles, "never": list(got.never)}
    for name, said in [("read_only", "readOnly"), ("never", "never"), ("admin_within", "adminWithin"), ("personal_reads", "personalReads")]:
        value = out.pop(name)
        if value:
            out[said] = value
    return out


def call_of(v):
    if "call" not in v:
        return None
    body = v["call"]["body"]
    return grantkeeper.Call(v["call"]["method"], v["call"]["target"], None if body is None else body.encode())


def through(headers, v, keys=None):
    try:
        return grantkeeper.verify(headers, keys or v["keys"], call_of(v), v["now"])
    except grantkeeper.Refused:
        return None


def wsgi(v, chunked=False):
    call, environ = call_of(v), {"wsgi.input": io.BytesIO(b"")}
    for name, value in v["headers"]:
        name = "HTTP_" + name.upper().replace("-", "_")
        environ[name] = environ[name] + "," + value if name in environ else value
    if call:
        body = SIGNED if call.body is None else call.body
        environ.update({"REQUEST_METHOD": call.method, "RAW_URI": call.target, "wsgi.input": io.BytesIO(body + (b"" if chunked else b"the next request"))})
        environ.update({"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True} if chunked else {"CONTENT_LENGTH": str(len(body))})
    seen, answered = [], []

    def app(environ, start_response):
        seen.append(environ)
        if call and environ["wsgi.input"].read(len(body)) != body:
            faults.append("wsgi: " + v["name"] + ": the body is lost")
        return [b""]

    middleware = grantkeeper.WSGI(app, v["keys"], call=bool(call), body=bool(call) and call.body is not None)
    middleware(environ, lambda status, headers: answered.append(status))
    if bool(seen) == (answered == ["401 Unauthorized"]):
        faults.append("wsgi: " + v["name"] + ": passed and answered, or neither")
    return seen[0]["grantkeeper"] if seen else None


def asgi(v, pieces=1):
    call = call_of(v)
    scope = {"type": "http", "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in v["headers"]]}
    body = b""
    if call:
        path, _, query = call.target.partition("?")
        scope.update({"method": call.method, "raw_path": path.encode(), "query_string": query.encode()})
        body = SIGNED if call.body is None else call.body
    parts = [body[n * len(body) // pieces:(n + 1) * len(body) // pieces] for n in range(pieces)]
    messages = [{"type": "http.request", "body": part, "more_body": n + 1 < pieces} for n, part in enumerate(parts)]
    messages.append({"type": "http.disconnect"})
    seen, sent = [], []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        seen.append(scope)
        got = []
        while not got or got[-1]["type"] != "http.disconnect":
            got.append(await receive())
        if call:
            if b"".join(message.get("body", b"") for message in got) != body or got[-2]["more_body"]:
                faults.append("asgi: " + v["name"] + ": the body is lost")

    middleware = grantkeeper.ASGI(app, v["keys"], call=bool(call), body=bool(call) and call.body is not None)
    asyncio.run(middleware(scope, receive, send))
    if bool(seen) == bool(sent and sent[0].get("status") == 401):
        faults.append("asgi: " + v["name"] + ": passed and answered, or neither")
    return seen[0]["grantkeeper"] if seen else None


real = grantkeeper.time.time
for v in vectors:
    grantkeeper.time.time = lambda: v["now"] + 0.9
    ways = {
        "pairs": through(v["headers"], v), "bytes": through([(n.encode(), s.encode("latin-1")) for n, s in v["headers"]], v),
        "keys": through(v["headers"], v, [key.encode() for key in v["keys"]]) if v["keys"] else None,
        "clock": through(v["headers"], {**v, "now": None}), "wsgi": wsgi(v), "wsgi, chunked": wsgi(v, True),
    }
    if len({name.lower() for name, _ in v["headers"]}) == len(v["headers"]):
        ways["mapping"] = through(dict(v["headers"]), v)
    if not v.get("call", {}).get("target", "").endswith("?"):  # ASGI does not tell
        ways.update({"asgi": asgi(v), "asgi, in pieces": asgi(v, 3)})
    for way, got in ways.items():
        roles = [] if got is None else [{"role": role, "access": access} for role, access in got.roles]
        if (got is not None) != v["accepted"]:
            faults.append(f"{way}: {v['name']}: {got}")
        elif got and identity(got, roles) != v["identity"]:
            faults.append(f"{way}: {v['name']}: {got}")
        for role, want in v["acts"].items() if got else ():
            if got.acts(role) != want:
                faults.append(f"{way}: {v['name']}: {role}: {got.acts(role)}")

# Whatever a server does not tell, or is too much, is refused and not guessed.
good = next(v for v in vectors if v["name"] == "the call that was signed")
grantkeeper.time.time = lambda: good["now"]


def said(change):
    body = good["call"]["body"].encode()
    environ = {"REQUEST_METHOD": "POST", "RAW_URI": good["call"]["target"], "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    environ.update({"HTTP_" + name.upper().replace("-", "_"): value for name, value in good["headers"]})
    environ.update(change)
    try:
        grantkeeper.WSGI(None, good["keys"]).verify({k: v for k, v in environ.items() if v is not None})
    except grantkeeper.Refused as why:
        return str(why)
    return "accepted"


for what, want, change in [
    ("all of it", "accepted", {}),
    ("the target by its other name", "accepted", {"RAW_URI": None, "REQUEST_URI": good["call"]["target"]}),
    ("no target", "the server does not tell the raw target", {"RAW_URI": None}),
    ("chunked, and no end", "the server does not tell where the body ends", {"HTTP_TRANSFER_ENCODING": "chunked"}),
    ("a length below nothing", "the length of the body is no number", {"CONTENT_LENGTH": "-1"}),
    ("a body too long", "the body is too long to be signed", {"CONTENT_LENGTH": "65537", "wsgi.input": io.BytesIO(b"x" * 65537)}),
    ("half a body", "the body is another, or not signed", {"wsgi.input": io.BytesIO(b"{")}),
]:
    if (got := said(change)) != want:
        faults.append(f"{what}: {got}")


# A body that is signed is compared also where it need not be.
environ = {"REQUEST_METHOD": "POST", "RAW_URI": good["call"]["target"], "CONTENT_LENGTH": "2", "wsgi.input": io.BytesIO(b"{}")}
environ.update({"HTTP_" + name.upper().replace("-", "_"): value for name, value in good["headers"]})
try:
    faults.append(f"another body that need not be signed: {grantkeeper.WSGI(None, good['keys'], body=False).verify(environ)}")
except grantkeeper.Refused:
    pass


class Counted(io.BytesIO):
    def read(self, *_):
        faults.append("the body of a stranger is read")
        return b""


said({"HTTP_X_GRANTKEEPER_PERSON": "tor", "wsgi.input": Counted()})


def other(kind, change, messages=()):
    messages, sent, seen = list(messages), [], []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        seen.append(scope.get("grantkeeper"))

    scope = {"type": kind, "method": "GET", "raw_path": plain["call"]["target"].encode(), "headers": [(n.lower().encode(), s.encode()) for n, s in plain["headers"]]}
    if kind == "websocket":
        del scope["method"]
    asyncio.run(grantkeeper.ASGI(app, plain["keys"])({**scope, **change}, receive, send))
    return [who and who.person for who in seen], [message["type"] for message in sent]


plain = next(v for v in vectors if v["name"] == "a call without a body")
closed, answered = ([], ["websocket.close"]), ([], ["http.response.start", "http.response.body"])
for kind, change, messages, want in [
    ("lifespan", {"headers": []}, [], ([None], [])),
    ("websocket", {}, [], (["ada"], [])),
    ("websocket", {"headers": []}, [], closed),
    ("websocket", {"raw_path": b"/api/v5/actions"}, [], closed),
    ("http", {}, [{"type": "http.request"}], (["ada"], [])),
    ("http", {"raw_path": None}, [], answered),
    ("http", {"headers": []}, [], answered),  # and nothing is received
    ("http", {}, [{"type": "http.disconnect"}], answered),
    ("http", {}, [{"type": "http.request", "body": b"x" * 65536, "more_body": True}, {"type": "http.request", "body": b"x", "more_body": True}], answered),
]:
    if (got := other(kind, change, messages)) != want:
        faults.append(f"{kind} {change}: {got}")

# Key files, as docs/integrating.md has them.
key = "k" * 31 + "1"
with tempfile.NamedTemporaryFile() as file:
    for text, want in [(key, key), (key + "\n", key), (key + "\r\n", key), (key + "\n\n", None), (" " + key, None), (key[1:], None), ("é" + key, None), ("", None)]:
        file.seek(0)
        file.truncate()
        file.write(text.encode())
        file.flush()
        try:
            got = grantkeeper.key_file(file.name).decode()
        except ValueError as why:
            got = "the key" if "kkk" in str(why) else None
        if got != want:
            faults.append(f"the key file {text!r} is {got}")

scope = {"type": "http", "method": "POST", "raw_path": b"/api/v5/notes", "query_string": b"a=b", "headers": [(n.lower().encode(), s.encode()) for n, s in good["headers"]]}
grantkeeper.time.time = lambda: good["now"]


async def other_body():
    return {"type": "http.request", "body": b"{}"}


try:
    faults.append(f"asgi, another body that need not be signed: {asyncio.run(grantkeeper.ASGI(None, good['keys'], body=False).verify(scope, other_body))}")
except grantkeeper.Refused:
    pass

print("\n".join(faults) if faults else f"{len(vectors)} vectors agree")
