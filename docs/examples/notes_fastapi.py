"""The service of docs/examples/notes with FastAPI: python3 notes_fastapi.py KEYFILE [PORT]"""
import socket, sys

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Request

from grantkeeper import ASGI, key_file  # contrib/verify

app = FastAPI()
app.add_middleware(ASGI, keys=[key_file(sys.argv[1])])


@app.post("/api/v5/notes", status_code=201)
def add(request: Request, note=Body()):
    who = request.scope["grantkeeper"]
    if who.acts("nordlys-treasurer") != "change":
        raise HTTPException(403, "The approval does not let changes be made through the treasurer's role.")
    return {"person": who.person, "note": note}


@app.head("/api/v5/{rest:path}")
@app.get("/api/v5/{rest:path}")
def show(request: Request):
    who = request.scope["grantkeeper"]
    return {"person": who.person, "client": who.client}


listener = socket.create_server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
print("http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
