// Holds contrib/verify/grantkeeper.mjs to the vectors beside it, through every way
// in: node vectors.mjs FOLDER. Says how many agree, or what does not.
import { createHash, createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { verify, middleware, fastifyPlugin, keyFile, Refused } = await import(pathToFileURL(join(folder, "grantkeeper.mjs")));
const { vectors } = JSON.parse(readFileSync(join(folder, "vectors.json"), "utf8"));
const faults = [];

// As http.IncomingMessage has them.
const joined = (pairs) => pairs.reduce((all, [name, value]) => {
	const key = name.toLowerCase();
	return { ...all, [key]: key in all ? all[key] + ", " + value : value };
}, {});

const listed = (pairs) => pairs.reduce((all, [name, value]) => {
	const key = name.toLowerCase();
	return { ...all, [key]: [...(all[key] ?? []), value] };
}, {});

function through(headers, { keys, now, call }) {
	try {
		return verify(headers, { keys, now, call });
	} catch (error) {
		if (!(error instanceof Refused)) throw error;
		return null;
	}
}

const clock = Date.now;
const signedBody = vectors.find((v) => v.name === "the call that was signed").call.body;

// A request as http.IncomingMessage is one, with what was signed where the vector does
// not say the body.
function request(headers, { call }, later) {
	const parts = [Buffer.from(call?.body ?? signedBody)].flatMap((all) => [all.subarray(0, 3), all.subarray(3)]).filter((part) => part.length > 0);
	const req = new Readable({ read() { later ? setImmediate(give, this) : give(this); } });
	const give = (to) => {
		to.complete = parts.length === 0;
		to.push(parts.shift() ?? null);
	};
	return Object.assign(req, {
		complete: false, httpVersionMajor: 1, headers: { ...headers, "transfer-encoding": "chunked" },
		method: call?.method ?? "GET", url: "/mounted", originalUrl: call?.target,
	});
}

const ways = {
	middleware: (req, options) => new Promise((resolve, reject) => middleware(options)(req, { setHeader() {}, end() { resolve(this.statusCode); } }, (error) => error ? reject(error) : resolve())),
	fastify: async (req, options) => {
		let hook;
		await fastifyPlugin({ decorateRequest() {}, addHook(name, does) { hook = name === "onRequest" && does; } }, options);
		const asked = { raw: req, originalUrl: req.originalUrl };
		try {
			await hook(asked);
			req.grantkeeper = asked.grantkeeper;
		} catch (error) {
			return error.statusCode;
		}
	},
};

async function behind(way, headers, v, later) {
	const req = request(headers, v, later);
	Date.now = () => v.now * 1000;
	const status = await ways[way](req, { keys: v.keys, call: v.call !== undefined, body: v.call?.body !== null });
	Date.now = clock;
	if (status !== (req.grantkeeper ? undefined : 401)) faults.push(`${way}: ${v.name}: it answers ${status}`);
	const left = [];
	for await (const piece of req.grantkeeper ? req : []) left.push(piece);
	if (req.grantkeeper && Buffer.concat(left).toString() !== (v.call?.body ?? signedBody)) faults.push(`${way}: ${v.name}: the body is lost`);
	return req.grantkeeper ?? null;
}

function fetched(pairs) {
	try {
		return new Headers(pairs);
	} catch { // such a value cannot be sent
		return null;
	}
}

for (const v of vectors) {
	const keys = [v.keys, v.keys.map((key) => Buffer.from(key))];
	const headers = fetched(v.headers);
	const got = { pairs: through(v.headers, v), joined: through(joined(v.headers), v), listed: through(listed(v.headers), v), bytes: through(v.headers, { ...v, keys: keys[1] }) };
	for (const way in ways) {
		got[way] = await behind(way, joined(v.headers), v, false);
		got[way + ", slowly"] = await behind(way, joined(v.headers), v, true);
	}
	// What Headers takes it trims, as every reader of HTTP does.
	if (headers && !v.headers.some(([, value]) => value !== value.trim())) got.Headers = through(headers, v);
	for (const [way, one] of Object.entries(got)) {
		const { acts, ...who } = one ?? {};
		for (const name of ["readOnly", "never", "adminWithin", "personalReads"]) if (!who[name]?.length && who[name] !== true) delete who[name];
		if (!!one !== v.accepted) faults.push(`${way}: ${v.name}: ${one ? "accepted" : "refused"}`);
		else if (one && JSON.stringify(who) !== JSON.stringify(v.identity)) faults.push(`${way}: ${v.name}: ${JSON.stringify(who)}`);
		for (const [role, want] of Object.entries(one ? v.acts : {})) {
			if (acts(role) !== want) faults.push(`${way}: ${v.name}: ${role}: ${acts(role)}`);
		}
	}
}

const good = vectors.find((v) => v.name === "the call that was signed");
Date.now = () => good.now * 1000;
async function told(change, options) {
	const req = Object.assign(request(joined(good.headers), good), change);
	return { status: await ways.middleware(req, { keys: good.keys, ...options }).catch((error) => error), req };
}

// Bytes that somebody else has read are compared as well.
for (const [body, want] of [[signedBody, undefined], [Buffer.from(signedBody), undefined], [JSON.parse(signedBody), 401], ["{}", 401], [undefined, 401]]) {
	const { status } = await told({}, { body: () => body });
	if (status !== want) faults.push(`a body that was read, ${body}: ${status}`);
}
// A body that is signed is compared also where it need not be, and up to 64 KiB.
function signing(body) {
	const [, signature] = good.headers.find(([name]) => name === "X-Grantkeeper-Signature");
	const digest = createHash("sha256").update(body).digest("hex");
	const sum = createHmac("sha256", good.keys[0]).update(["call-v1", signature, good.call.method, good.call.target, digest, ""].join("\n")).digest("hex");
	return { ...good, headers: good.headers.map(([name, value]) => [name, name === "X-Grantkeeper-Call-Signature" ? `body=${digest},v1=${sum}` : value]), call: { ...good.call, body } };
}
for (const [what, signed, came, options, want] of [
	["another body that need not be signed", good, "{}", { body: false }, 401],
	["the longest body", signing("x".repeat(1 << 16)), "x".repeat(1 << 16), {}, undefined],
	["a longer body", signing("x".repeat((1 << 16) + 1)), "x".repeat((1 << 16) + 1), {}, 401],
]) {
	const req = request(joined(signed.headers), { call: { ...signed.call, body: came } });
	const status = await ways.middleware(req, { keys: good.keys, ...options });
	if (status !== want) faults.push(`${what}: ${status}`);
}
// HTTP/2 says at once that there is no body.
const bare = vectors.find((v) => v.name === "a call without a body");
const by2 = await ways.middleware(Object.assign(request(joined(bare.headers), bare), { httpVersionMajor: 2, stream: { endAfterHeaders: true } }), { keys: bare.keys });
if (by2 !== undefined) faults.push(`a call by HTTP/2: ${by2}`);
// Who has gone before is not waited for.
const left = request(joined(good.headers), good);
await once(left.destroy(), "close");
if (await Promise.race([ways.middleware(left, { keys: good.keys }), new Promise((resolve) => setTimeout(resolve, 5000, "waits").unref())]) !== 401) faults.push("who has gone is waited for");
// What is no refusal is the service's own fault, and goes to its handler of errors.
const { status: fault } = await told({}, { body: () => { throw new TypeError("planted"); } });
if (!(fault instanceof TypeError)) faults.push("a fault of the service is not told");
// Of a stranger's body nothing is read, of another's no more than is signed.
for (const [what, change, want, most] of [
	["a stranger", { headers: {} }, 401, 0],
	["an endless body", { _read() { this.push(Buffer.alloc(1 << 14)); } }, 401, 8],
	["a body by HTTP/2", { httpVersionMajor: 2, stream: { endAfterHeaders: false } }, 401, 0],
	["who has gone", { _read() { this.destroy(); } }, 401, 1],
	["who broke off", { _read() { this.destroy(new Error("aborted")); } }, 401, 1],
]) {
	let reads = 0;
	const of = { ...change, ...(change._read && { _read(...all) { reads++; change._read.apply(this, all); } }) };
	const { status, req } = await told(of, {});
	if (status !== want || reads > most || req.grantkeeper) faults.push(`${what}: ${status} after ${reads} reads`);
}
Date.now = clock;

// Key files, as docs/integrating.md has them.
const key = "k".repeat(31) + "1", at = join(mkdtempSync(join(tmpdir(), "vectors-")), "key");
for (const [text, want] of [[key, key], [key + "\n", key], [key + "\r\n", key], [key + "\n\n", null], [" " + key, null], [key.slice(1), null], ["é" + key, null], ["", null]]) {
	writeFileSync(at, text);
	let got = null;
	try {
		got = keyFile(at);
	} catch (error) {
		if (error.message.includes("kkk")) faults.push("an error has the key");
	}
	if (got !== want) faults.push(`the key file ${JSON.stringify(text)} is ${got}`);
}
rmSync(dirname(at), { recursive: true });

console.log(faults.length === 0 ? `${vectors.length} vectors agree` : faults.join("\n"));
