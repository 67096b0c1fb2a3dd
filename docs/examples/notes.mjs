// The service of docs/examples/notes in Node: node notes.mjs KEYFILE [PORT]
import http from "node:http";
import { keyFile, middleware } from "../../contrib/verify/grantkeeper.mjs";

const [, , file, port = "0"] = process.argv;
const signed = middleware({ keys: [keyFile(file)], body: (req) => req.body });

function notes(req, res) {
	const who = req.grantkeeper;
	if (req.method === "POST" && who.acts("nordlys-treasurer") !== "change") {
		res.writeHead(403).end("The approval does not let changes be made through the treasurer's role.\n");
		return;
	}
	res.writeHead(req.method === "POST" ? 201 : 200, { "Content-Type": "application/json" }).end(JSON.stringify(who));
}

const server = http.createServer(async (req, res) => {
	const pieces = [];
	let size = 0;
	for await (const piece of req) {
		if ((size += piece.length) > 64 << 10) return res.writeHead(413).end();
		pieces.push(piece);
	}
	req.body = Buffer.concat(pieces);
	signed(req, res, () => notes(req, res));
});
server.listen(Number(port), "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port));
