"""The service of docs/examples/notes with Flask: python3 notes_flask.py KEYFILE [PORT]"""
import logging, sys

from flask import Flask, request
from werkzeug.serving import make_server

from grantkeeper import WSGI, key_file  # contrib/verify

app = Flask(__name__)
app.wsgi_app = WSGI(app.wsgi_app, [key_file(sys.argv[1])])


@app.post("/api/v5/notes")
def add():
    who = request.environ["grantkeeper"]
    if who.acts("nordlys-treasurer") != "change":
        return "The approval does not let changes be made through the treasurer's role.\n", 403
    return {"person": who.person, "note": request.get_json()}, 201


@app.get("/api/v5/<path:rest>")
def show(rest):
    who = request.environ["grantkeeper"]
    return {"person": who.person, "client": who.client}


logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each call
server = make_server("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0, app, threaded=True)
print("http://127.0.0.1:%d" % server.port, flush=True)
server.serve_forever()
