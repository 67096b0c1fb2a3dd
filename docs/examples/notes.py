"""The service of docs/examples/notes in Python: python3 notes.py KEYFILE [PORT]"""
import json, os, sys
from wsgiref import simple_server

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/verify"))
from grantkeeper import WSGI, key_file


def notes(environ, start_response):
    who = environ["grantkeeper"]
    if environ["REQUEST_METHOD"] == "POST" and who.acts("nordlys-treasurer") != "change":
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"The approval does not let changes be made through the treasurer's role.\n"]
    status = "201 Created" if environ["REQUEST_METHOD"] == "POST" else "200 OK"
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps({"person": who.person, "client": who.client}).encode()]


class Raw(simple_server.WSGIRequestHandler):
    """Tells the raw target, as gunicorn, uWSGI and Werkzeug do by themselves."""

    def get_environ(self):
        return {**super().get_environ(), "RAW_URI": self.path}

    def log_message(self, *_):
        pass


app = WSGI(notes, [key_file(sys.argv[1])])
port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
server = simple_server.make_server("127.0.0.1", port, app, handler_class=Raw)
print("http://127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
