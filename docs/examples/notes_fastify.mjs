// The service of docs/examples/notes with Fastify: node notes_fastify.mjs KEYFILE [PORT]
import Fastify from "fastify";
import { fastifyPlugin, keyFile } from "./grantkeeper.mjs"; // contrib/verify

const [, , file, port = "0"] = process.argv;

const app = Fastify();
app.register(fastifyPlugin, { keys: [keyFile(file)] });
app.post("/api/v5/notes", async (request, reply) => {
	if (request.grantkeeper.acts("nordlys-treasurer") !== "change") {
		return reply.code(403).send("The approval does not let changes be made through the treasurer's role.\n");
	}
	return reply.code(201).send({ person: request.grantkeeper.person, note: request.body });
});

app.get("/api/v5/*", async (request) => request.grantkeeper);
console.log(await app.listen({ port: Number(port), host: "127.0.0.1" }));
