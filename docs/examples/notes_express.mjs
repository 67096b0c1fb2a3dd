// The service of docs/examples/notes with Express: node notes_express.mjs KEYFILE [PORT]
import express from "express";
import { keyFile, middleware } from "./grantkeeper.mjs"; // contrib/verify

const [, , file, port = "0"] = process.argv;

const app = express();
app.use(middleware({ keys: [keyFile(file)] }));
app.use(express.json());
app.post("/api/v5/notes", (req, res) => {
	if (req.grantkeeper.acts("nordlys-treasurer") !== "change") {
		return res.status(403).send("The approval does not let changes be made through the treasurer's role.\n");
	}
	res.status(201).json({ person: req.grantkeeper.person, note: req.body });
});

app.get("/api/v5/*rest", (req, res) => res.json(req.grantkeeper));
const server = app.listen(Number(port), "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port));
