// Clients that others wrote, unmodified, each through the whole flow. What only
// the test can do it is asked for on standard output, a line each, and it
// answers on standard input: to be the person's browser, to let time pass.
import { createInterface } from "node:readline";
import { createHash, randomBytes } from "node:crypto";
import { strict as assert } from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { McpError, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
import * as newest from "@modelcontextprotocol/client";
import * as oauth from "oauth4webapi";
import * as openid from "openid-client";
import simple from "simple-oauth2";
import { OAuth2Client, generateCodeVerifier } from "@badgateway/oauth2-client";
import { refreshOnce } from "./refresh.mjs"; // docs/examples

const [which, base, redirect, metadataURL] = process.argv.slice(2);
const endpoint = base + "/api/v5/mcp";
const me = base + "/api/v5/me";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async (what, about = "") => {
	console.log(what, about);
	return (await lines.next()).value;
};
// visit gives where the person's browser ends up.
const visit = async (url) => new URL(await ask("visit", String(url)));
const bearer = (token) => ({ headers: { Authorization: "Bearer " + token } });

// atOnce makes calls that all find the access token expired. The SDK gives up one
// whose 401 comes after another's refresh; the approval lives, and it can be made again.
async function atOnce(n, call) {
	for (const { reason } of await Promise.allSettled(Array.from({ length: n }, call)))
		assert(!reason || /401 after successful auth/.test(reason.message), reason);
	await call();
}

// register is for those that cannot do it themselves.
async function register(uri = redirect) {
	const r = await fetch(base + "/oauth/register", {
		method: "POST",
		headers: { "Content-Type": "application/json" },
		body: JSON.stringify({ client_name: which, redirect_uris: [uri] }),
	});
	assert.equal(r.status, 201);
	return (await r.json()).client_id;
}

// A provider is what the MCP SDK asks of an application.
class Provider {
	clientMetadata = {
		client_name: "Quill Assistant", redirect_uris: [redirect], scope: "api", logo_uri: "https://quill.example/logo.png",
		grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "client_secret_post",
	};
	registrations = 0;
	clientMetadataUrl = metadataURL; // undefined registers
	get redirectUrl() { return redirect; }
	state() { return this.sent = `${randomBytes(16).toString("hex")} <"'&+%>é`; }
	clientInformation() { return this.client; }
	saveClientInformation(c) { this.client = c; this.registrations++; }
	tokens() { return this.kept; }
	saveTokens(t) { this.kept = t; }
	saveCodeVerifier(v) { this.verifier = v; }
	codeVerifier() { return this.verifier; }
	invalidateCredentials(scope) {
		assert.equal(scope, "tokens"); // the client itself is still known
		this.kept = undefined;
	}
	async redirectToAuthorization(url) {
		this.back = await visit(url);
		assert.equal(this.back.searchParams.get("state"), this.sent);
		assert.equal(this.back.searchParams.get("iss"), base);
	}
	saveDiscoveryState(d) { this.discovered = d; }
	discoveryState() { return this.discovered; }
}

async function mcp() {
	const provider = new Provider();
	const opened = () => new StreamableHTTPClientTransport(new URL(endpoint), { authProvider: provider, fetch: refreshOnce() });
	const connect = async () => {
		const client = new Client({ name: "quill", version: "1" }, { capabilities: { roots: { listChanged: true } } });
		let transport = opened();
		await client.connect(transport).catch(async (e) => {
			assert(e instanceof UnauthorizedError, e);
			await transport.finishAuth(provider.back.searchParams.get("code"));
			await client.close();
			await client.connect((transport = opened()));
		});
		return { client, transport };
	};
	const { client, transport } = await connect();
	if (metadataURL) assert.equal(provider.client.client_id, metadataURL);
	else assert.equal(provider.client.token_endpoint_auth_method, "none");
	assert.equal(client.getServerVersion().name, "Svalinn");
	assert.equal(transport.sessionId, undefined);
	await client.ping();

	// Every tool that is listed for this grant set has a schema that the SDK
	// can read, and those that ask nothing answer by their own.
	const { tools } = await client.listTools();
	const call = async (name, args = {}) => {
		const r = await client.callTool({ name, arguments: args });
		assert(!r.isError && r.structuredContent, `${name}: ${JSON.stringify(r)}`);
		return r.structuredContent;
	};
	for (const name of ["whoami", "list_people", "list_circles", "list_roles"]) await call(name);
	const item = (await call("list_items", { kind: "note" })).items[0];
	assert.equal((await call("read_item", { kind: "note", id: item.id })).title, item.title);
	const { resourceTemplates } = await client.listResourceTemplates();
	assert.equal(resourceTemplates.length, 4);
	const uri = resourceTemplates.find((t) => t.name === "note").uriTemplate.replace("{organization}", "nordlys").replace("{id}", item.id);
	assert.equal(JSON.parse((await client.readResource({ uri })).contents[0].text).id, item.id);
	assert.deepEqual((await client.listResources()).resources, []);

	// Errors of a call are errors of that call, and the session lives on.
	const refused = async (code, f) => assert.rejects(f, (e) => e instanceof McpError && e.code === code || assert.fail(String(e)));
	await refused(-32602, () => client.callTool({ name: "drop_tables", arguments: {} }));
	await refused(-32602, () => client.readResource({ uri: uri.replace("nordlys", "fjell") }));
	await refused(-32601, () => client.request({ method: "tasks/list", params: {} }, ResultSchema));
	await client.notification({ method: "notifications/of-its-own", params: {} });
	await client.notification({ method: "notifications/cancelled", params: { requestId: 4711, reason: "bored" } });
	const patience = new AbortController();
	const given = client.callTool({ name: "whoami", arguments: {} }, undefined, { signal: patience.signal });
	patience.abort("enough");
	await refused(-32001, () => given);
	await Promise.all(Array.from({ length: 20 }, () => call("whoami")));
	assert.equal((await client.callTool({ name: "list_items", arguments: { kind: "song" } })).isError, true);

	// The access token expires: the SDK refreshes for each call, the server is
	// asked once, and nobody is asked to approve.
	const first = provider.kept;
	await ask("expire");
	await atOnce(8, () => call("whoami"));
	assert.notEqual(provider.kept.refresh_token, first.refresh_token);
	assert.equal(provider.kept.scope, "api");

	// The approval ends: the person is asked again, of the same client.
	await ask("revoke");
	await assert.rejects(call("whoami"), UnauthorizedError);
	await transport.finishAuth(provider.back.searchParams.get("code"));
	await call("whoami");
	assert.equal(provider.registrations, 1);
	await transport.terminateSession(); // there is none: DELETE is 405, and that is fine
	await client.close();
	return tools.map((t) => t.name).sort().join(" ");
}

// refusals says that the example keeps no refusal: the same refresh token may
// be sent again, and is.
async function refusals() {
	let sent = 0;
	const once = refreshOnce(async () => {
		if (++sent === 1) throw new TypeError("no network");
		return new Response("{}", { status: sent === 2 ? 503 : 200 });
	});
	const refresh = () => once(base, { method: "POST", body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: "r" }) });
	await assert.rejects(refresh(), TypeError);
	for (const status of [503, 200, 200]) assert.equal((await refresh()).status, status);
	assert.equal(sent, 3);
}

// mcp2 is the second line of the SDK, which asks for the newest revision and
// checks iss by itself.
async function mcp2() {
	await refusals();
	const provider = new Provider();
	const opened = () => new newest.StreamableHTTPClientTransport(new URL(endpoint), { authProvider: provider, fetch: refreshOnce() });
	const client = new newest.Client({ name: "quill", version: "2" }, { versionNegotiation: { mode: "auto" } });
	let transport = opened();
	await assert.rejects(client.connect(transport), newest.UnauthorizedError);
	await transport.finishAuth(provider.back.searchParams);
	await client.connect((transport = opened()));
	assert.equal(transport.protocolVersion, "2026-07-28");
	const { tools } = await client.listTools();
	const call = async (name, args = {}) => {
		const r = await client.callTool({ name, arguments: args });
		assert(!r.isError && r.structuredContent, `${name}: ${JSON.stringify(r)}`);
		return r.structuredContent;
	};
	await call("whoami");
	const item = (await call("list_items", { kind: "note" })).items[0];
	const { contents } = await client.readResource({ uri: `svalinn://nordlys/notes/${item.id}` });
	assert.equal(JSON.parse(contents[0].text).title, item.title);
	await assert.rejects(client.readResource({ uri: `svalinn://fjell/notes/${item.id}` }), newest.ResourceNotFoundError);
	await assert.rejects(client.callTool({ name: "drop_tables", arguments: {} }), (e) => e instanceof newest.ProtocolError && e.code === -32602);
	await client.notification({ method: "notifications/of-its-own", params: {} });
	await (await client.listen({ toolsListChanged: true })).closed; // nothing ever changes
	await Promise.all(Array.from({ length: 20 }, () => call("whoami")));

	const first = provider.kept;
	await ask("expire");
	await atOnce(8, () => call("whoami"));
	assert.notEqual(provider.kept.refresh_token, first.refresh_token);
	await ask("revoke");
	await assert.rejects(call("whoami"), newest.UnauthorizedError);
	const forged = new URLSearchParams(provider.back.searchParams);
	forged.set("iss", "https://evil.example");
	await assert.rejects(transport.finishAuth(forged), newest.IssuerMismatchError);
	await transport.finishAuth(provider.back.searchParams);
	await call("whoami");
	assert.equal(provider.registrations, 1);
	await client.close();
	return tools.map((t) => t.name).sort().join(" ");
}

// mcpOld is the first release of the SDK that speaks streamable HTTP. It knows
// no protected-resource metadata, no resource and no error codes.
async function mcpOld() {
	const old = { ...await import("mcp-2025-03/client/index.js"), ...await import("mcp-2025-03/client/streamableHttp.js") };
	const provider = new Provider();
	provider.redirectToAuthorization = async (url) => { provider.back = await visit(url); };
	let client, transport;
	const open = () => {
		client = new old.Client({ name: "quill", version: "0" }, { capabilities: {} });
		return client.connect((transport = new old.StreamableHTTPClientTransport(new URL(endpoint), { authProvider: provider })));
	};
	await assert.rejects(open(), /Unauthorized/);
	const approved = () => transport.finishAuth(provider.back.searchParams.get("code"));
	await approved();
	await open();
	const whoami = () => client.callTool({ name: "whoami", arguments: {} });
	assert((await client.listTools()).tools.length > 0);
	const first = (await whoami(), provider.kept);
	await ask("expire");
	await whoami();
	assert.notEqual(provider.kept.refresh_token, first.refresh_token);
	await ask("revoke");
	await assert.rejects(whoami(), /Unauthorized/);
	await approved();
	assert.equal((await whoami()).isError, undefined);
	await client.close();
}

async function oauth4webapi() {
	const http = { [oauth.allowInsecureRequests]: true };
	const found = await oauth.processResourceDiscoveryResponse(new URL(endpoint), await oauth.resourceDiscoveryRequest(new URL(endpoint), http));
	const issuer = new URL(found.authorization_servers[0]);
	const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...http }));
	const client = await oauth.processDynamicClientRegistrationResponse(
		await oauth.dynamicClientRegistrationRequest(server, { client_name: which, redirect_uris: [redirect], token_endpoint_auth_method: "none" }, http));
	const verifier = oauth.generateRandomCodeVerifier(), state = oauth.generateRandomState();
	const url = new URL(server.authorization_endpoint);
	url.search = new URLSearchParams({
		client_id: client.client_id, redirect_uri: redirect, response_type: "code", scope: "api", state, resource: found.resource,
		code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
		nonce: "n", prompt: "none", login_hint: "nobody@nordlys.example", audience: endpoint,
	});
	const answer = oauth.validateAuthResponse(server, client, await visit(url), state);
	const code = await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), answer, redirect, verifier, { ...http, additionalParameters: { resource: found.resource } });
	const tokens = await oauth.processAuthorizationCodeResponse(server, client, code);
	assert.equal(tokens.expires_in, 1800);
	const refresh = (t) => oauth.refreshTokenGrantRequest(server, client, oauth.None(), t, http).then((r) => oauth.processRefreshTokenResponse(server, client, r));
	const next = await refresh(tokens.refresh_token);
	const get = (t) => oauth.protectedResourceRequest(t, "GET", new URL(me), undefined, undefined, http);
	assert.equal((await get(next.access_token)).status, 200);
	await assert.rejects(get(tokens.refresh_token), (e) => e.cause[0].scheme === "bearer" && e.cause[0].parameters.error === "invalid_token" &&
		e.cause[0].parameters.resource_metadata === base + "/.well-known/oauth-protected-resource/api/v5");
	await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, oauth.None(), next.access_token, http));
	await assert.rejects(refresh(next.refresh_token), (e) => e instanceof oauth.ResponseBodyError && e.error === "invalid_grant");
	await assert.rejects(get(next.access_token), oauth.WWWAuthenticateChallengeError);
}

async function openidClient() {
	const execute = [openid.allowInsecureRequests];
	const config = await openid.dynamicClientRegistration(new URL(base), { client_name: which, redirect_uris: [redirect], token_endpoint_auth_method: "none" }, openid.None(), { algorithm: "oauth2", execute });
	const pkceCodeVerifier = openid.randomPKCECodeVerifier(), expectedState = openid.randomState();
	const url = openid.buildAuthorizationUrl(config, {
		redirect_uri: redirect, scope: "api", state: expectedState, code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: "S256",
	});
	const tokens = await openid.authorizationCodeGrant(config, await visit(url), { pkceCodeVerifier, expectedState });
	const next = await openid.refreshTokenGrant(config, tokens.refresh_token);
	assert.equal((await openid.fetchProtectedResource(config, next.access_token, new URL(me), "GET")).status, 200);
	await openid.tokenRevocation(config, next.refresh_token);
	await assert.rejects(openid.refreshTokenGrant(config, next.refresh_token), (e) => e.error === "invalid_grant");
}

// With a key of the client's (RFC 9449): both ask again by themselves, or when they are
// told to, with the nonce that they are given, and take access tokens as the Bearer
// tokens that they are.
async function oauth4webapiDPoP() {
	const http = { [oauth.allowInsecureRequests]: true };
	const server = await oauth.processDiscoveryResponse(new URL(base), await oauth.discoveryRequest(new URL(base), { algorithm: "oauth2", ...http }));
	for (const alg of ["ES256", "Ed25519", "RS256", "PS256"]) {
		assert(server.dpop_signing_alg_values_supported.includes(alg));
		const client = { client_id: await register() };
		const holds = async () => oauth.DPoP(client, await oauth.generateKeyPair(alg));
		const DPoP = await holds(), other = await holds();
		const verifier = oauth.generateRandomCodeVerifier(), state = oauth.generateRandomState();
		const url = new URL(server.authorization_endpoint);
		url.search = new URLSearchParams({
			client_id: client.client_id, redirect_uri: redirect, response_type: "code", state, dpop_jkt: await DPoP.calculateThumbprint(),
			code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
		});
		const answer = oauth.validateAuthResponse(server, client, await visit(url), state);
		let nonces = 0;
		const again = async (request) => {
			try {
				return await request();
			} catch (e) {
				if (!oauth.isDPoPNonceError(e)) throw e;
				nonces++;
				return await request();
			}
		};
		const exchange = (options) => again(async () => oauth.processAuthorizationCodeResponse(server, client,
			await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), answer, redirect, verifier, { ...http, ...options })));
		const refresh = (t, options) => again(async () => oauth.processRefreshTokenResponse(server, client,
			await oauth.refreshTokenGrantRequest(server, client, oauth.None(), t, { ...http, ...options })));
		const refused = (f) => assert.rejects(f, (e) => e instanceof oauth.ResponseBodyError && e.error === "invalid_grant");
		await refused(exchange({})); // the code is for the key
		await refused(exchange({ DPoP: other }));
		const tokens = await exchange({ DPoP });
		assert.equal(tokens.token_type, "bearer");
		assert.equal((await fetch(me, bearer(tokens.access_token))).status, 200);
		const first = await refresh(tokens.refresh_token, { DPoP });
		for (const stolen of [tokens, first]) {
			await refused(refresh(stolen.refresh_token, {}));
			await refused(refresh(stolen.refresh_token, { DPoP: other }));
		}
		const next = await refresh(first.refresh_token, { DPoP }); // nothing has ended
		assert.equal((await fetch(me, bearer(next.access_token))).status, 200);
		assert.equal(nonces, 2); // the first of each key: every answer brings the next
		await ask("expire");
		await refresh(next.refresh_token, { DPoP });
		assert.equal(nonces, 3); // that one was old
	}
}

async function openidClientDPoP() {
	const execute = [openid.allowInsecureRequests];
	const config = await openid.dynamicClientRegistration(new URL(base), { client_name: which, redirect_uris: [redirect], token_endpoint_auth_method: "none" }, openid.None(), { algorithm: "oauth2", execute });
	const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair());
	const pkceCodeVerifier = openid.randomPKCECodeVerifier(), expectedState = openid.randomState();
	const url = openid.buildAuthorizationUrl(config, {
		redirect_uri: redirect, state: expectedState, code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: "S256",
	});
	const tokens = await openid.authorizationCodeGrant(config, await visit(url), { pkceCodeVerifier, expectedState }, undefined, { DPoP });
	await assert.rejects(openid.refreshTokenGrant(config, tokens.refresh_token), (e) => e.error === "invalid_grant");
	await ask("expire");
	const next = await openid.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP });
	assert.equal((await openid.fetchProtectedResource(config, next.access_token, new URL(me), "GET")).status, 200);
	await openid.tokenRevocation(config, next.refresh_token);
	await assert.rejects(openid.refreshTokenGrant(config, next.refresh_token, undefined, { DPoP }), (e) => e.error === "invalid_grant");
}

// openidClient5 is the line before, which finds no authorization server by its
// issuer unless it is one of OpenID: it is given the document's address.
async function openidClient5() {
	const { Issuer, generators } = await import("openid-client5");
	await assert.rejects(Issuer.discover(base), (e) => e.error === "not_found");
	const issuer = await Issuer.discover(base + "/.well-known/oauth-authorization-server");
	const client = await issuer.Client.register({ redirect_uris: [redirect], application_type: "web" });
	assert.equal(client.metadata.token_endpoint_auth_method, "none");
	const code_verifier = generators.codeVerifier(), state = generators.state();
	const back = await visit(client.authorizationUrl({
		scope: "api", state, code_challenge: generators.codeChallenge(code_verifier), code_challenge_method: "S256",
	}));
	const checks = { state, code_verifier, response_type: "code" };
	await assert.rejects(client.oauthCallback(redirect, { ...client.callbackParams(back.href), iss: "https://evil.example" }, checks), /iss mismatch/);
	const tokens = await client.refresh(await client.oauthCallback(redirect, client.callbackParams(back.href), checks));
	assert.equal((await client.requestResource(me, tokens.access_token)).statusCode, 200);
	await client.revoke(tokens.refresh_token);
	await assert.rejects(client.refresh(tokens), (e) => e.error === "invalid_grant");
}

// authJS is Auth.js, which takes this server for a place to sign in.
async function authJS() {
	const { Auth } = await import("@auth/core");
	const site = new URL(redirect).origin, callback = site + "/auth/callback/svalinn";
	const config = {
		secret: "of the test, and long enough for it", trustHost: true, basePath: "/auth", logger: { warn() {}, error() {} },
		providers: [{
			id: "svalinn", name: "Svalinn", type: "oauth", clientId: await register(callback), client: { token_endpoint_auth_method: "none" },
			issuer: base, authorization: { url: base + "/oauth/authorize", params: { scope: "api" } }, token: base + "/oauth/token", userinfo: me,
			checks: ["pkce", "state"], profile: (p) => ({ id: p.person.id, name: p.person.name }),
		}],
	};
	const jar = {};
	const send = async (path, form) => {
		const answer = await Auth(new Request(new URL(path, site), {
			method: form ? "POST" : "GET", body: form && new URLSearchParams(form), headers: { Cookie: Object.entries(jar).map((c) => c.join("=")).join("; ") },
		}), config);
		for (const c of answer.headers.getSetCookie()) jar[c.split("=", 1)] = c.slice(c.indexOf("=") + 1, c.indexOf(";"));
		return answer;
	};
	const { csrfToken } = await (await send("/auth/csrf")).json();
	const away = await send("/auth/signin/svalinn", { csrfToken, callbackUrl: site });
	const back = await visit(away.headers.get("Location"));
	// Of where the browser has gone, the test tells the parameters alone.
	const home = await send(new URL(callback).pathname + back.search);
	assert.equal(home.headers.get("Location"), site);
	assert.equal((await (await send("/auth/session")).json()).user.name, "Ada Aasen");
}

async function simpleOAuth2() {
	const client = new simple.AuthorizationCode({
		client: { id: await register(), secret: "" }, options: { authorizationMethod: "body" },
		auth: { tokenHost: base, tokenPath: "/oauth/token", authorizePath: "/oauth/authorize", revokePath: "/oauth/revoke" },
	});
	const code_verifier = randomBytes(96).toString("base64url"); // 128 characters
	const back = await visit(client.authorizeURL({
		redirect_uri: redirect, scope: "api", state: "s", code_challenge_method: "S256", code_challenge: createHash("sha256").update(code_verifier).digest("base64url"),
	}));
	let token = await client.getToken({ code: back.searchParams.get("code"), redirect_uri: redirect, code_verifier });
	token = await token.refresh();
	assert.equal((await fetch(me, bearer(token.token.access_token))).status, 200);
	await token.revoke("access_token");
	await assert.rejects(token.refresh(), (e) => e.data.payload.error === "invalid_grant");
}

async function badgateway() {
	const client = new OAuth2Client({ server: base, clientId: await register(), discoveryEndpoint: "/.well-known/oauth-authorization-server" });
	const codeVerifier = await generateCodeVerifier();
	const back = await visit(await client.authorizationCode.getAuthorizeUri({ redirectUri: redirect, state: "s", codeVerifier, scope: ["api"] }));
	let token = await client.authorizationCode.getTokenFromCodeRedirect(back.href, { redirectUri: redirect, state: "s", codeVerifier });
	token = await client.refreshToken(token);
	assert.equal((await fetch(me, bearer(token.accessToken))).status, 200);
	await client.revoke(token);
	assert.equal((await fetch(me, bearer(token.accessToken))).status, 401);
}

const said = await { mcp, mcp2, mcpOld, oauth4webapi, oauth4webapiDPoP, openidClient, openidClientDPoP, openidClient5, authJS, simpleOAuth2, badgateway }[which]();
console.log("done", said ?? "");
process.exit(0);
