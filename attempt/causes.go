package attempt

import "time"

// Causes are all reasons, in the order in which a client can meet them. The documents
// have this table.
var Causes = []Cause{
	{NotFollowed, Broken, Author, "A call was answered with 401, and nobody read the documents that it names.",
		"Read resource_metadata in WWW-Authenticate, and the document at that address. Where a client does, look for a firewall or a proxy that keeps it from there.", idle},
	{MetadataPath, Broken, Author, "A document was asked for at an address where there is none.",
		"Ask for /.well-known/oauth-authorization-server at the root of the host, and for /.well-known/oauth-protected-resource followed by the path of the API. This is no OpenID provider.", 0},
	{NotRegistered, Broken, Author, "The documents were read, and no client came of it.",
		"Register at registration_endpoint, or set a client ID up. Where a client does neither, it may not know a method that the documents list: they list none and S256 alone.", idle},
	{RedirectLoopback, Broken, Author, "A redirect URI is on loopback, or in a private network.",
		"Register a public https address: a page of the client's maker that receives the code and hands it on.", 0},
	{RedirectScheme, Broken, Author, "A redirect URI is not https.",
		"Register a public https address. Schemes of apps, http and urn:ietf:wg:oauth:2.0:oob are refused.", 0},
	{RedirectInvalid, Broken, Author, "A redirect URI is not a plain public address.",
		"Register 1 to 5 absolute https addresses without user, fragment and unusual characters. The answer's error_description says which entry, and why.", 0},
	{RegistrationGrants, Broken, Author, "The registration asks for a grant or response type that is not given here.",
		"Leave grant_types and response_types out, or send authorization_code, refresh_token and code.", 0},
	{RegistrationName, Broken, Author, "The client's name was refused.",
		"Send a client_name of at most 100 characters, without markup and control characters.", 0},
	{RegistrationBody, Broken, Author, "The registration could not be read.",
		"Send one JSON object with Content-Type application/json, each member once. error_description says what is wrong with it.", 0},
	{BrowserNotSent, Broken, Author, "The client registered, and no browser came.",
		"Send the person's browser to authorization_endpoint. Where a client does, see that it can open a browser, or shows the address.", idle},

	{ClientUnknown, Broken, Author, "The client ID is not known here.",
		"Register again, and keep the new ID. A client that nobody approves goes after 14 days; one of another installation is not known here.", 0},
	{ClientDisabled, Broken, Operator, "The operator has disabled this client.",
		"Ask the operator why. Registering anew does not help where the host is blocked too.", 0},
	{RedirectMismatch, Broken, Author, "The redirect URI is not one of those that the client registered.",
		"Send a registered one, character by character: capitals, port and a slash at the end count.", 0},
	{RequestMalformed, Broken, Author, "The request for authorization could not be read.",
		"Send each parameter once, percent-encoded as UTF-8, and a state of at most 4,096 bytes.", 0},
	{ResponseType, Broken, Author, "The response_type is not code.",
		"Send response_type=code: there is no implicit grant.", 0},
	{PKCEMissing, Broken, Author, "There is no code_challenge.",
		"Send code_challenge and code_challenge_method=S256 with every request (RFC 7636).", 0},
	{PKCEMethod, Broken, Author, "The code_challenge_method is not S256.",
		"Send code_challenge_method=S256. Left out it means plain, which is refused.", 0},
	{PKCEChallenge, Broken, Author, "The code_challenge is not a SHA-256 hash in base64url.",
		"Hash the verifier, and encode the 32 bytes as base64url: 43 characters, without = at the end.", 0},
	{ScopeUnknown, Broken, Author, "The scope is not api.",
		"Send scope=api, or leave it out. The person chooses what the client gets.", 0},
	{ResourceUnknown, Broken, Author, "The resource is not an API of this server.",
		"Send the resource of the metadata, or leave it out: https, and the host that the person uses.", 0},

	{LeftAtSignIn, LeftOff, Person, "The person was asked to sign in, and did not.",
		"Nothing has to be mended. The person can begin again in the app.", idle},
	{SignInFailed, LeftOff, Person, "What the person typed to sign in was wrong, and they left.",
		"The person can ask for a new password, and begin again in the app.", idle},
	{LeftAtSecondFactor, LeftOff, Person, "The person did not give the second factor.",
		"The person can use a recovery code. An operator can take a lost factor away.", idle},
	{PromptNotPossible, Broken, Author, "The client asked for an answer without a page (prompt=none), and nobody saw the page.",
		"Open authorization_endpoint in a window that the person sees, without prompt=none: every person gets the consent page each time.", idle},
	{ActingAs, LeftOff, Person, "Support staff were acting as the person: only the person can approve.",
		"The person opens the app and approves as themselves.", 0},
	{NoOrganization, Broken, Admin, "In none of the person's organizations apps can be connected.",
		"An admin turns AI integration on.", 0},
	{OrganizationBlocks, Broken, Admin, "The organization blocks this app.",
		"An admin can allow it under Rules.", 0},
	{OrganizationAsks, Broken, Admin, "The organization wants an admin to allow this app first.",
		"An admin answers the request. Then the person begins again in the app.", 0},
	{Cancelled, LeftOff, Person, "The person chose Cancel.",
		"Nothing has to be mended. The client was told access_denied.", 0},
	{Left, LeftOff, Person, "The person saw the consent page, and did not answer it.",
		"Nothing has to be mended. The person can begin again in the app.", idle},

	{CodeNotExchanged, Broken, Author, "The person approved, and the code was never exchanged.",
		"See that the page at the redirect URI is there and that the client checks state as it sent it; then send the code to token_endpoint within 5 minutes.", 5 * time.Minute},
	{TokenMethod, Broken, Author, "The token endpoint was asked by another method than POST.",
		"Send POST to token_endpoint, and follow no redirect there: that makes a GET of it.", 0},
	{TokenBody, Broken, Author, "The body of the token request could not be read.",
		"Send a form: Content-Type application/x-www-form-urlencoded, and no JSON.", 0},
	{TokenParameter, Broken, Author, "A parameter of the token request is missing, or was sent twice.",
		"Send grant_type, client_id and what the grant needs, each once, in the body and not in the address. error_description names it.", 0},
	{ClientCredentials, Broken, Author, "The client sent a secret, or an Authorization header, to the token endpoint.",
		"Send client_id in the body and nothing else: token_endpoint_auth_method is none. The code was not used up.", 0},
	{GrantType, Broken, Author, "The grant_type is not one of the two.",
		"Send authorization_code or refresh_token.", 0},
	{PKCEVerifier, Broken, Author, "The code_verifier is not one.",
		"Send the verifier as it was made: 43 to 128 letters, digits and - . _ ~, without = at the end. The code was not used up.", 0},
	{PKCEMismatch, Broken, Author, "The code_verifier is not the one behind the code_challenge.",
		"Keep the verifier of the very request that the browser was sent with: two tabs, or a retry, often overwrite it. Hash its characters, not what they decode to. The code was not used up.", 0},
	{CodeExpired, Broken, Author, "The code came after its 5 minutes, or its page was answered anew.",
		"Exchange the code at once. See that the client's clock does not hold it back.", 0},
	{CodeReused, Broken, Author, "The code was exchanged twice: all that it gave has ended.",
		"Exchange a code once, and do not send the request again when the answer is lost. A browser that loads the redirect URI anew must not exchange it anew.", 0},
	{CodeUnknown, Broken, Author, "What was sent as the code is no code of this server.",
		"Send the parameter code of the redirect, decoded once. See that the client does not mix two servers up.", 0},
	{CodeOtherClient, Broken, Author, "The code was given to another client ID.",
		"Exchange it with the client ID of the request for authorization. A client that registers anew in between loses it.", 0},
	{CodeOtherIssuer, Broken, Author, "The code was made at another address of this server.",
		"Exchange it at the host that iss in the redirect names.", 0},
	{RedirectAtToken, Broken, Author, "The redirect_uri of the exchange is not that of the request for authorization.",
		"Send the same one again, character by character. The code was not used up.", 0},
	{TokenNeverUsed, Broken, Author, "The client has tokens, and has made no call.",
		"See that the client kept them, and that its next call goes to this host.", 30 * time.Minute},
	{NoAuthorization, Broken, Operator, "The client has tokens, and called without one.",
		"See that no proxy takes Authorization away, and that no redirect of the client's loses it. Else the client does not send it.", 2 * time.Minute},
	{TokenInQuery, Broken, Author, "A token was sent in the address.",
		"Send Authorization: Bearer and the token. What is in an address ends in logs: let the person revoke this approval.", 0},
	{TokenInHeader, Broken, Author, "A token was sent in another header than Authorization, or two credentials were.",
		"Send one credential: Authorization: Bearer and the access token.", 0},
	{TokenWrongKind, Broken, Author, "A refresh token or a code was sent as an access token.",
		"Send access_token with calls. refresh_token and code go to token_endpoint.", 0},
	{TokenUnknown, Broken, Author, "What was sent as an access token is none of this server.",
		"Send access_token as it came, after Bearer and one space, without quotes.", 0},
	{TokenLegacy, Broken, Author, "A token was sent to API v3 or v4, which take API keys alone.",
		"Call API v5.", 0},
	{MCPVersion, Broken, Author, "The MCP endpoint does not speak the protocol version that was asked for.",
		"Send MCP-Protocol-Version as initialize agreed on it.", 0},
	{CORSHeader, Broken, Author, "A script in a browser wanted to send a header that is not allowed.",
		"Send none but those that Access-Control-Allow-Headers lists.", 0},
	{AccessExpired, Broken, Author, "The access token has expired, and the client does not refresh it.",
		"On 401 with invalid_token send the refresh token to token_endpoint, and call again with the new one. Reckon from expires_in and not by the clock of the day.", 2 * time.Minute},
	{ApprovalEnded, Broken, Person, "The approval has ended.",
		"The person approves again. Connected apps says why it ended.", 0},
	{RefreshUnknown, Broken, Author, "What was sent as the refresh token is none of this server, or of another client.",
		"Send refresh_token of the last answer, with the client ID that it was given to.", 0},
	{RefreshRace, Broken, Author, "A refresh token was sent twice, from the client's own network: the approval has ended.",
		"Refresh from one place, one call at a time, and store the new token before anybody uses it. Two processes need a lock around it.", 0},
	{RefreshReused, Broken, Author, "A refresh token that was used up came back: the approval has ended, for it may be stolen.",
		"Find out who else has it. Keep one copy, and store the new one before use. The person approves again.", 0},
	{RateLimited, Broken, Author, "There were too many requests.",
		"Wait for the seconds of Retry-After. Register once, and keep the tokens. An operator can give a network that many people share a multiple.", 0},
	{ServerUnavailable, Broken, Operator, "The server could not answer for a while.",
		"Send the same request again. The operator looks at /readyz.", 0},
	{ServerFault, Broken, Operator, "Something went wrong in the server.",
		"The operator finds it in the log by the answer's reference.", 0},
}

// idle is how long an attempt may stand still before it counts as left: as long as
// a consent page can be answered.
const idle = 30 * time.Minute

var byCode = func() map[Reason]Cause {
	m := make(map[Reason]Cause, len(Causes))
	for _, c := range Causes {
		m[c.Code] = c
	}
	return m
}()

// CauseOf gives the words of a reason. Of none that there is, it gives those of
// ServerFault under that code: a later release may have written it.
func CauseOf(r Reason) Cause {
	if c, ok := byCode[r]; ok {
		return c
	}
	return Cause{Code: r, Result: Broken, Who: Operator, Says: "Another release of the server has written this reason.", Do: "Read the documents of that release."}
}

// Known reports whether there is such a reason.
func Known(r Reason) bool { _, ok := byCode[r]; return ok }
