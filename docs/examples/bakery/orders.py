"""A bakery's service in Flask: an API and an MCP server that know nothing of OAuth.
Each request says in signed headers whom it is for; grantkeeper.py checks them."""
import json
import os

from flask import Flask, request

from grantkeeper import WSGI, key_file

orders = [{"id": 1, "of": "bakery", "what": "40 rolls", "by": "Bea"}]
TOOLS = [
    {"name": "list_orders", "title": "List orders", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "create_order", "title": "Take an order", "inputSchema": {
        "type": "object", "properties": {"what": {"type": "string", "maxLength": 200}}, "required": ["what"]}},
]

app = Flask("bakery")
app.wsgi_app = WSGI(app.wsgi_app, [key_file(os.environ.get("GRANTKEEPER_KEY_FILE", "gk.key"))])


def orders_of(who):
    return [order for order in orders if order["of"] == who.organization]


def take(who, what):
    orders.append({"id": len(orders) + 1, "of": who.organization, "what": str(what), "by": who.person})
    return orders[-1]


@app.get("/api/v5/orders")
def list_orders():
    return orders_of(request.environ["grantkeeper"])


@app.post("/api/v5/orders")
def create_order():
    return take(request.environ["grantkeeper"], request.json["what"]), 201


def call(tool, what=""):
    who = request.environ["grantkeeper"]
    result = {"list_orders": lambda: orders_of(who), "create_order": lambda: take(who, what)}[tool]()
    return {"content": [{"type": "text", "text": json.dumps(result)}]}


@app.post("/mcp")
def mcp():
    """Answers one message of the Model Context Protocol. Its Python SDK does more."""
    message = request.json
    params = message.get("params", {})
    methods = {
        "initialize": lambda: {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "bakery", "version": "1.0.0"}},
        "ping": lambda: {},
        "tools/list": lambda: {"tools": TOOLS},
        "tools/call": lambda: call(params["name"], **params.get("arguments", {})),
    }
    if "id" not in message:
        return "", 202
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] not in methods:
        return reply | {"error": {"code": -32601, "message": "method not found"}}
    return reply | {"result": methods[message["method"]]()}


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "9000")))
