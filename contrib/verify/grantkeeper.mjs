/**
 * Reads the headers by which Grantkeeper tells a service whom a call is for, and
 * refuses what it has not signed. Copy this file: it needs Node 18 and nothing
 * else. What is signed: docs/integrating.md, "Signed headers".
 *
 *     import { keyFile, middleware } from "./grantkeeper.mjs";
 *     app.use(middleware({ keys: [keyFile("/etc/service/grantkeeper.key")] }));
 *     app.post("/api/v5/notes", (req, res) => {
 *       if (req.grantkeeper.acts("nordlys-treasurer") !== "change") ...
 *     });
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
	statusCode = 403;
}

const names = ["person", "organization", "approval", "client", "grant", "authority"];
const tolerance = 60; // seconds, either way
const minKey = 32;

/** Reads a key file: one line, in which there is no space. */
export function keyFile(/** @type {string} */ path) {
	return readFileSync(path, "utf8").trim();
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
	const { admin, personal, roles } = readAuthority(authority);
	const all = grant === "everything" || grant === "organization" ? "change" : "none";
	const acts = (/** @type {string} */ id) => roles.find(({ role }) => role === id)?.access ?? all;
	return { person, organization, approval, client, grant, admin, personal, roles, acts };
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
	const out = { admin: false, personal: false, roles: [] };
	for (const word of text === "" ? [] : text.split(",")) {
		const [, role, access] = /^([^=]+)=(read|change)$/.exec(word) ?? [];
		if (word === "admin" || word === "personal") out[word] = true;
		else if (access) out.roles.push({ role, access });
		else refuse("x-grantkeeper-authority: unknown word");
	}
	return out;
}

function refuse(why) {
	throw new Refused(why);
}

/**
 * Middleware of Express, Connect and their like: req.grantkeeper says whom the call
 * is for, and what is not signed for this very call is 403. Behind api.upstream give
 * it the body as well, for instance behind express.raw({ type: () => true }):
 * body: (req) => req.body. What is no bytes counts as an empty body. Without it, as
 * behind forward-auth, the body is not compared. call: false compares nothing of
 * the call, for a proxy that rewrites the path.
 * @param {{keys: Key[], call?: boolean, body?: (req: any) => unknown}} options
 */
export function middleware({ keys, call = true, body }) {
	return (/** @type {any} */ req, /** @type {any} */ res, /** @type {(error?: unknown) => void} */ next) => {
		try {
			const bytes = body && body(req);
			req.grantkeeper = verify(req.headers, { keys, call: !call ? undefined : {
				method: req.method, target: req.originalUrl ?? req.url,
				body: !body ? null : typeof bytes === "string" || bytes instanceof Uint8Array ? bytes : "",
			} });
		} catch (error) {
			if (!(error instanceof Refused)) return next(error);
			res.statusCode = 403;
			res.setHeader("Content-Type", "text/plain; charset=utf-8");
			return res.end(error.message + "\n");
		}
		next();
	};
}
