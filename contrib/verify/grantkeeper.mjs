/**
 * Reads the headers by which Grantkeeper tells a service whom a call is for, and
 * refuses what it has not signed. Copy this file: it needs Node 18 and nothing
 * else. What is signed: docs/integrating.md, "Signed headers".
 *
 *     import { fastifyPlugin, keyFile, middleware } from "./grantkeeper.mjs";
 *     const keys = [keyFile("/etc/service/grantkeeper.key")];
 *     app.use(middleware({ keys })); // Express, before whatever reads bodies
 *     app.register(fastifyPlugin, { keys }); // Fastify
 *     if (req.grantkeeper.acts("nordlys-treasurer") !== "change") ...
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

/**
 * Whom a call is for, and how far it may go now.
 * @typedef {object} Identity
 * @property {string} person ID
 * @property {string} organization ID: the only one that the call may touch
 * @property {string} approval ID; "" when an API key was sent
 * @property {string} client client ID; "" when an API key was sent
 * @property {string} grant "roles", "everything" or "organization"
 * @property {boolean} admin circles, roles, fillers and members may be changed
 * @property {boolean} personal the person's own items may be read and changed
 * @property {{role: string, access: "read"|"change"}[]} roles under the grant "roles" alone: by ID
 * @property {boolean} readOnly the organization lets apps read only
 * @property {string[]} never under the other grants: not through these roles
 * @property {boolean} adminWithin as admin, but for items of the roles in never, and under readOnly to read
 * @property {boolean} personalReads the person's own items may be read, and not changed
 * @property {(role: string) => "none"|"read"|"change"} acts what may be done
 *   through a role that the person fills; whether they do, the service knows
 */

/**
 * A call as the service got it: path and query in the bytes of the request line,
 * and all of the body; null does not ask whether it is the body that was signed.
 * @typedef {{method: string, target: string, body: Uint8Array|string|null}} Call
 */

/** @typedef {string|Uint8Array} Key of 32 bytes at least */

/** Why a call is for nobody. The message holds no secret; Fastify answers with the status. */
export class Refused extends Error {
	statusCode = 401;
}

const names = ["person", "organization", "approval", "client", "grant", "authority"];
const tolerance = 60; // seconds, either way
const minKey = 32; // bytes
const maxBody = 64 << 10; // bytes: of a longer body api.upstream signs nothing

/** Reads a key file: one line of 32 visible ASCII characters or more. */
export function keyFile(/** @type {string} */ path) {
	const key = readFileSync(path, "latin1").replace(/\r?\n$/, "");
	if (key.length < minKey || !/^[\x21-\x7e]*$/.test(key)) throw new Error(path + ": a key is one line of at least 32 visible ASCII characters");
	return key;
}

/**
 * Gives whom a call is for, or throws Refused. Several keys are for the time in
 * which one takes the place of another. Without a call, headers that were copied
 * are good for any, for a minute.
 * @param {Headers|Record<string, string|string[]|undefined>|[string, string][]} headers
 * @param {{keys: Key[], call?: Call, now?: number}} options now is in Unix seconds
 * @returns {Identity}
 */
export function verify(headers, { keys, call, now = Math.floor(Date.now() / 1000) }) {
	const signature = one(headers, "signature");
	const [, time, sum] = /^t=(0|-?[1-9][0-9]{0,18}),v1=([0-9a-f]{64})$/.exec(signature) ?? refuse("no signature, or another form");
	const values = names.map((name) => one(headers, name));
	if (!signed(keys, ["v1", time, ...values], sum)) refuse("not signed by a known key");
	if (!(Math.abs(now - Number(time)) <= tolerance)) refuse("signed at another time than now");
	if (call) verifyCall(one(headers, "call-signature"), signature, call, keys);
	const [person, organization, approval, client, grant, authority] = values;
	const words = readAuthority(authority);
	const all = grant === "everything" || grant === "organization" ? "change" : "none";
	const acts = (/** @type {string} */ id) => {
		const access = words.never.includes(id) ? "none" : words.roles.find(({ role }) => role === id)?.access ?? all;
		return words.readOnly && access === "change" ? "read" : access;
	};
	return { person, organization, approval, client, grant, ...words, acts };
}

function verifyCall(said, signature, { method, target, body }, keys) {
	const [, digest, sum] = /^body=(-|[0-9a-f]{64}),v1=([0-9a-f]{64})$/.exec(said) ?? refuse("no signature of the call, or another form");
	if (body !== null && digest !== createHash("sha256").update(body).digest("hex")) refuse("the body is another, or not signed");
	if (!signed(keys, ["call-v1", signature, method, target, digest], sum)) refuse("not signed for this call");
}

/** Compares with every key, each in constant time. */
function signed(keys, lines, sum) {
	const text = lines.join("\n") + "\n";
	return keys.filter((key) => Buffer.byteLength(key) >= minKey
		&& timingSafeEqual(createHmac("sha256", key).update(text).digest(), Buffer.from(sum, "hex"))).length > 0;
}

/** Gives a header, "" when it was not sent. What was sent twice and joined has a space. */
function one(headers, name) {
	const wanted = "x-grantkeeper-" + name;
	const all = typeof headers.get === "function" ? [[wanted, headers.get(wanted) ?? []]]
		: Array.isArray(headers) ? headers : Object.entries(headers);
	const values = all.filter(([key]) => key.toLowerCase() === wanted).flatMap(([, value]) => value ?? []);
	if (values.length > 1) refuse(wanted + ": sent twice");
	if (!/^[\x21-\x7e]*$/.test(values[0] ?? "")) refuse(wanted + ": more than visible ASCII characters");
	return values[0] ?? "";
}

function readAuthority(text) {
	const roles = [], never = [], said = { admin: false, personal: false, readonly: false };
	for (const word of text === "" ? [] : text.split(",")) {
		const [, role, access] = /^([^=]+)=(read|change|none)$/.exec(word) ?? [];
		if (Object.hasOwn(said, word)) said[word] = true;
		else if (access === "none") never.push(role);
		else if (access) roles.push({ role, access });
		else refuse("x-grantkeeper-authority: unknown word");
	}
	const { admin, personal, readonly: readOnly } = said, limited = readOnly || never.length > 0;
	return {
		admin: admin && !limited, personal: personal && !readOnly, roles,
		readOnly, never, adminWithin: admin && limited, personalReads: personal && readOnly,
	};
}

function refuse(why) {
	throw new Refused(why);
}

/**
 * Asks what a request is for that has just come: keys, and in call and body what the
 * middleware is told. Nothing is read of a stranger's body; that of others is put
 * back for whoever parses it.
 */
async function admit(req, target, { keys, call = true, body = true }) {
	if (!call) return verify(req.headers, { keys });
	const of = { method: req.method, target, body: null };
	const who = verify(req.headers, { keys, call: of });
	if (body === false && one(req.headers, "call-signature").startsWith("body=-,")) return who;
	if (typeof body === "function") {
		const bytes = body(req);
		of.body = typeof bytes === "string" || bytes instanceof Uint8Array ? bytes : "";
	} else of.body = await peek(req);
	return verify(req.headers, { keys, call: of });
}

/** Gives the body of a request, and leaves it there to be read. */
function peek(req) {
	const http2 = req.httpVersionMajor > 1;
	if (http2 ? req.stream.endAfterHeaders : !req.headers["transfer-encoding"] && !Number(req.headers["content-length"])) return Buffer.alloc(0);
	if (http2) throw new Refused("a body that comes by HTTP/2 cannot be put back: the option body has to give it");
	return new Promise((resolve, reject) => {
		const pieces = [];
		let size = 0;
		const listeners = { readable: more, error: gone, close: gone };
		function stop() {
			for (const [event, listener] of Object.entries(listeners)) req.off(event, listener);
		}
		function more() {
			while (req.readableLength > 0) size += pieces[pieces.push(req.read()) - 1].length;
			if (req.complete || size > maxBody) done();
		}
		function done() {
			stop();
			const body = Buffer.concat(pieces);
			if (size > maxBody) return reject(new Refused("the body is too long to be signed"));
			if (size > 0) req.unshift(body);
			resolve(body);
		}
		function gone() {
			stop();
			reject(new Refused("the body is broken off"));
		}
		for (const [event, listener] of Object.entries(listeners)) req.on(event, listener);
		if (req.destroyed) gone();
		else more();
	});
}

/**
 * Middleware of Express, Connect and their like: req.grantkeeper says whom the call
 * is for, and what is not signed for this very call is 401. It stands before
 * whatever reads the body, or is given the bytes: body: (req) => req.rawBody. What is
 * no bytes counts as an empty body. body: false also takes a body that is not signed:
 * that of any call behind forward-auth, and one of more than 64 KiB. call: false
 * compares nothing of the call, for a proxy that rewrites the path.
 * @param {{keys: Key[], call?: boolean, body?: boolean|((req: any) => unknown)}} options
 */
export function middleware(options) {
	return (/** @type {any} */ req, /** @type {any} */ res, /** @type {(error?: unknown) => void} */ next) => {
		admit(req, req.originalUrl ?? req.url, options).then((who) => {
			req.grantkeeper = who;
			next();
		}, (error) => {
			if (!(error instanceof Refused)) return next(error);
			res.statusCode = error.statusCode;
			res.setHeader("Content-Type", "text/plain; charset=utf-8");
			res.end(error.message + "\n");
		});
	};
}

/** The same for Fastify: request.grantkeeper, in every route of the application. */
export async function fastifyPlugin(/** @type {any} */ app, /** @type {Parameters<typeof middleware>[0]} */ options) {
	app.decorateRequest("grantkeeper", null);
	app.addHook("onRequest", async (/** @type {any} */ request) => {
		request.grantkeeper = await admit(request.raw, request.originalUrl, options);
	});
}
fastifyPlugin[Symbol.for("skip-override")] = true; // else it would be for its own routes alone
