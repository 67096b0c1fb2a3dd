// A bakery's service: an API and an MCP server that know nothing of OAuth. Each
// request says in signed headers whom it is for; grantkeeper.mjs checks them.
import express from "express";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { keyFile, middleware } from "./grantkeeper.mjs";

const orders = [{ id: 1, of: "bakery", what: "40 rolls", by: "Bea" }];
const ordersOf = (who) => orders.filter((order) => order.of === who.organization);
function take(who, what) {
	const order = { id: orders.length + 1, of: who.organization, what, by: who.person };
	orders.push(order);
	return order;
}

const app = express();
app.use(middleware({ keys: [keyFile(process.env.GRANTKEEPER_KEY_FILE ?? "gk.key")] }), express.json());

app.get("/api/v5/orders", (req, res) => res.json(ordersOf(req.grantkeeper)));
app.post("/api/v5/orders", (req, res) => res.status(201).json(take(req.grantkeeper, String(req.body.what))));

app.post("/mcp", async (req, res) => {
	const who = req.grantkeeper;
	const says = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });
	const server = new McpServer({ name: "bakery", version: "1.0.0" });
	server.registerTool("list_orders", { title: "List orders", annotations: { readOnlyHint: true } },
		() => says(ordersOf(who)));
	server.registerTool("create_order", { title: "Take an order", inputSchema: { what: z.string().max(200) } },
		({ what }) => says(take(who, what)));
	const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
	res.on("close", () => server.close());
	await server.connect(transport);
	await transport.handleRequest(req, res, req.body);
});

const port = Number(process.env.PORT ?? 9000);
app.listen(port, "127.0.0.1", () => console.log(`The bakery is open at http://127.0.0.1:${port}`));
