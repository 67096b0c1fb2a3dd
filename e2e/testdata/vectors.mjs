// Holds contrib/verify/grantkeeper.mjs to the vectors beside it, through every way
// in: node vectors.mjs FOLDER. Says how many agree, or what does not.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { verify, middleware, Refused } = await import(pathToFileURL(join(folder, "grantkeeper.mjs")));
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
function behind(headers, { keys, now, call }) {
	const req = { headers, method: call?.method ?? "GET", url: "/mounted", originalUrl: call?.target, body: call?.body === null ? null : Buffer.from(call?.body ?? "") };
	const res = { setHeader() {}, end(text) { this.text = text; } };
	let passed = false;
	Date.now = () => now * 1000;
	middleware({ keys, call: call !== undefined, body: call && call.body !== null ? (r) => r.body : undefined })(req, res, (error) => {
		if (error) throw error;
		passed = true;
	});
	Date.now = clock;
	if (passed === (res.statusCode === 403) || passed !== (res.text === undefined)) faults.push("a middleware that passes and answers, or neither");
	return passed ? req.grantkeeper : null;
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
	const ways = { pairs: through(v.headers, v), joined: through(joined(v.headers), v), listed: through(listed(v.headers), v), bytes: through(v.headers, { ...v, keys: keys[1] }), middleware: behind(joined(v.headers), v) };
	// What Headers takes it trims, as every reader of HTTP does.
	if (headers && !v.headers.some(([, value]) => value !== value.trim())) ways.Headers = through(headers, v);
	for (const [way, got] of Object.entries(ways)) {
		const { acts, ...who } = got ?? {};
		if (!!got !== v.accepted) faults.push(`${way}: ${v.name}: ${got ? "accepted" : "refused"}`);
		else if (got && JSON.stringify(who) !== JSON.stringify(v.identity)) faults.push(`${way}: ${v.name}: ${JSON.stringify(who)}`);
		for (const [role, want] of Object.entries(got ? v.acts : {})) {
			if (acts(role) !== want) faults.push(`${way}: ${v.name}: ${role}: ${acts(role)}`);
		}
	}
}

// What is no refusal is the service's own fault, and goes to its handler of errors.
let told;
middleware({ keys: vectors[0].keys, body: () => { throw new TypeError("planted"); } })({ headers: {}, method: "GET", url: "/" }, {}, (error) => { told = error; });
if (!(told instanceof TypeError)) faults.push("a fault of the service is not told");

console.log(faults.length === 0 ? `${vectors.length} vectors agree` : faults.join("\n"));
