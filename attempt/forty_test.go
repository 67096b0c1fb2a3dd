package attempt_test

import (
	"testing"

	. "github.com/grantkeeper/grantkeeper/attempt"
)

// seen makes a record of steps, each a tenth of a second after the other, of one
// client in one walk. A pause is an observation of no step, and N seconds long.
func seen(steps ...Observation) Record {
	at, r := int64(1_790_000_000_000), Record{}
	for _, o := range steps {
		if o.Step == 0 {
			at += int64(o.N) * 1000
			continue
		}
		o.At = at
		r = Merge(r, Of(o))
		at += 100
	}
	return r
}

func ok(s Step) Observation { return Observation{Step: s, Outcome: Done, Status: 200} }
func asked(s Step, w What) Observation {
	return Observation{Step: s, Outcome: Waiting, What: w, Status: 200}
}
func failed(s Step, r Reason) Observation {
	return Observation{Step: s, Outcome: Failed, Reason: r, Status: 400}
}
func pause(seconds int) Observation { return Observation{N: seconds} }
func upTo(s Step) (all []Observation) {
	for i := Challenge; i <= s; i++ {
		all = append(all, ok(i))
	}
	return all
}
func after(s Step, more ...Observation) []Observation { return append(upTo(s), more...) }

// Known ways to fail, as the doors see them, and the reason that has to be given an
// hour after the last observation.
var waysToFail = []struct {
	name string
	seen []Observation
	want Reason
	at   Step
}{
	{"the 401 is not understood", upTo(Challenge), NotFollowed, Challenge},
	{"metadata at OpenID's path", after(Challenge, failed(Metadata, MetadataPath)), MetadataPath, Metadata},
	{"metadata read and nothing made of it", upTo(Metadata), NotRegistered, Metadata},
	{"registration with a loopback redirect", after(Metadata, failed(Registration, RedirectLoopback)), RedirectLoopback, Registration},
	{"registration with a scheme of its own", after(Metadata, failed(Registration, RedirectScheme)), RedirectScheme, Registration},
	{"registration with a fragment", after(Metadata, failed(Registration, RedirectInvalid)), RedirectInvalid, Registration},
	{"registration of client_credentials", after(Metadata, failed(Registration, RegistrationGrants)), RegistrationGrants, Registration},
	{"registration as a form", after(Metadata, failed(Registration, RegistrationBody)), RegistrationBody, Registration},
	{"registration with markup in the name", after(Metadata, failed(Registration, RegistrationName)), RegistrationName, Registration},
	{"registration over the limit", after(Metadata, failed(Registration, RateLimited)), RateLimited, Registration},
	{"a document's URL with a port", after(Metadata, failed(Authorize, DocumentURL)), DocumentURL, Authorize},
	{"a document of a host that is not taken", after(Metadata, failed(Authorize, DocumentHost)), DocumentHost, Authorize},
	{"a document on loopback", after(Metadata, failed(Authorize, DocumentPrivate)), DocumentPrivate, Authorize},
	{"a document that nobody reaches", after(Metadata, failed(Authorize, DocumentUnreachable)), DocumentUnreachable, Authorize},
	{"a document that is gone", after(Metadata, failed(Authorize, DocumentStatus)), DocumentStatus, Authorize},
	{"a document in HTML", after(Metadata, failed(Authorize, DocumentType)), DocumentType, Authorize},
	{"a document without end", after(Metadata, failed(Authorize, DocumentLarge)), DocumentLarge, Authorize},
	{"a document with a member twice", after(Metadata, failed(Authorize, DocumentJSON)), DocumentJSON, Authorize},
	{"a document with another client_id", after(Metadata, failed(Authorize, DocumentClientID)), DocumentClientID, Authorize},
	{"a document with a secret", after(Metadata, failed(Authorize, DocumentAuthentication)), DocumentAuthentication, Authorize},
	{"a document of client_credentials", after(Metadata, failed(Authorize, DocumentGrants)), DocumentGrants, Authorize},
	{"a document with loopback redirects", after(Metadata, failed(Authorize, DocumentRedirects)), DocumentRedirects, Authorize},
	{"a document with markup in the name", after(Metadata, failed(Authorize, DocumentName)), DocumentName, Authorize},
	{"registered and no browser", upTo(Registration), BrowserNotSent, Registration},
	{"registered, and metadata asked for again", after(Registration, failed(Metadata, MetadataPath)), BrowserNotSent, Registration},
	{"refused once, registered then, and no browser", after(Metadata, failed(Registration, RedirectScheme), ok(Registration)), BrowserNotSent, Registration},
	{"a client that was swept", []Observation{failed(Authorize, ClientUnknown)}, ClientUnknown, Authorize},
	{"a client that is disabled", after(Metadata, failed(Authorize, ClientDisabled)), ClientDisabled, Authorize},
	{"redirect with a slash more", after(Registration, failed(Authorize, RedirectMismatch)), RedirectMismatch, Authorize},
	{"response_type token", after(Registration, failed(Authorize, ResponseType)), ResponseType, Authorize},
	{"no PKCE", after(Registration, failed(Authorize, PKCEMissing)), PKCEMissing, Authorize},
	{"PKCE plain", after(Registration, failed(Authorize, PKCEMethod)), PKCEMethod, Authorize},
	{"a challenge that is the verifier in hex", after(Registration, failed(Authorize, PKCEChallenge)), PKCEChallenge, Authorize},
	{"an unknown scope", after(Registration, failed(Authorize, ScopeUnknown)), ScopeUnknown, Authorize},
	{"a resource over http", after(Registration, failed(Authorize, ResourceUnknown)), ResourceUnknown, Authorize},
	{"a parameter twice", after(Registration, failed(Authorize, RequestMalformed)), RequestMalformed, Authorize},
	{"prompt=none in a hidden frame", after(Registration, Observation{Step: Authorize, Outcome: Done, What: PromptNone}, asked(SignIn, "")), PromptNotPossible, Authorize},
	{"left at sign-in", after(Authorize, asked(SignIn, "")), LeftAtSignIn, SignIn},
	{"a wrong password, and left", after(Authorize, asked(SignIn, ""), asked(SignIn, WrongPassword)), SignInFailed, SignIn},
	{"a second factor not finished", after(Authorize, asked(SignIn, ""), asked(SignIn, SecondFactor)), LeftAtSecondFactor, SignIn},
	{"signed in, and left", upTo(SignIn), Left, Consent},
	{"signed in before, and left", []Observation{ok(Authorize), asked(Consent, "")}, Left, Consent},
	{"left at consent", after(SignIn, asked(Consent, "")), Left, Consent},
	{"cancelled", after(SignIn, asked(Consent, ""), failed(Consent, Cancelled)), Cancelled, Consent},
	{"the organization blocks", after(SignIn, failed(Consent, OrganizationBlocks)), OrganizationBlocks, Consent},
	{"the organization asks", after(SignIn, asked(Consent, ""), failed(Consent, OrganizationAsks)), OrganizationAsks, Consent},
	{"no organization has it on", after(SignIn, failed(Consent, NoOrganization)), NoOrganization, Consent},
	{"support staff act as the person", after(SignIn, failed(Consent, ActingAs)), ActingAs, Consent},
	{"the code never came", upTo(Code), CodeNotExchanged, Code},
	{"the code too late", after(Code, pause(400), failed(Token, CodeExpired)), CodeExpired, Token},
	{"the code twice", after(Token, failed(Token, CodeReused)), CodeReused, Token},
	{"the code for another client", after(Code, failed(Token, CodeOtherClient)), CodeOtherClient, Token},
	{"another redirect at the exchange", after(Code, failed(Token, RedirectAtToken)), RedirectAtToken, Token},
	{"a verifier with =", after(Code, failed(Token, PKCEVerifier)), PKCEVerifier, Token},
	{"a verifier of another tab", after(Code, failed(Token, PKCEMismatch), failed(Token, PKCEMismatch)), PKCEMismatch, Token},
	{"JSON at the token endpoint", after(Code, failed(Token, TokenBody)), TokenBody, Token},
	{"Basic at the token endpoint", after(Code, failed(Token, ClientCredentials)), ClientCredentials, Token},
	{"GET at the token endpoint", after(Code, failed(Token, TokenMethod)), TokenMethod, Token},
	{"an unsupported grant type", after(Code, failed(Token, GrantType)), GrantType, Token},
	{"a missing parameter", after(Code, failed(Token, TokenParameter)), TokenParameter, Token},
	{"a proof for another address", after(Code, failed(Token, DPoPProof)), DPoPProof, Token},
	{"a nonce that is not taken up", after(Code, failed(Token, DPoPNonce)), DPoPNonce, Token},
	{"a nonce that is taken up", after(Code, failed(Token, DPoPNonce), ok(Token)), TokenNeverUsed, FirstCall},
	{"a refresh without the key", after(FirstCall, failed(Refresh, DPoPKey)), DPoPKey, Refresh},
	{"tokens never used", upTo(Token), TokenNeverUsed, FirstCall},
	{"a proxy takes Authorization away", after(Token, ok(Challenge)), NoAuthorization, FirstCall},
	{"the token in the address", after(Token, failed(FirstCall, TokenInQuery)), TokenInQuery, FirstCall},
	{"the token in another header", after(Token, failed(FirstCall, TokenInHeader)), TokenInHeader, FirstCall},
	{"the refresh token as bearer", after(Token, failed(FirstCall, TokenWrongKind)), TokenWrongKind, FirstCall},
	{"a token at API v4", after(Token, failed(FirstCall, TokenLegacy)), TokenLegacy, FirstCall},
	{"an MCP version of the future", after(FirstCall, failed(FirstCall, MCPVersion)), MCPVersion, FirstCall},
	{"a header that CORS does not allow", after(Registration, failed(Token, CORSHeader)), CORSHeader, Token},
	{"expired and never refreshed", after(FirstCall, pause(1900), failed(FirstCall, AccessExpired)), AccessExpired, FirstCall},
	{"the approval was revoked", after(FirstCall, pause(60), failed(FirstCall, ApprovalEnded)), ApprovalEnded, FirstCall},
	{"refreshes race", after(Refresh, failed(Refresh, RefreshRace)), RefreshRace, Refresh},
	{"refreshes race, and both go on", after(Refresh, failed(Refresh, RefreshRace), failed(FirstCall, ApprovalEnded), failed(Refresh, ApprovalEnded)), RefreshRace, Refresh},
	{"the code twice, and a call", after(Token, failed(Token, CodeReused), failed(FirstCall, ApprovalEnded)), CodeReused, Token},
	{"a refresh token was stolen", after(Refresh, pause(5000), failed(Refresh, RefreshReused)), RefreshReused, Refresh},
	{"a refresh token of another server", after(FirstCall, failed(Refresh, RefreshUnknown)), RefreshUnknown, Refresh},
	{"a refresh token was stolen, and a call", after(Refresh, failed(Refresh, RefreshReused), failed(FirstCall, ApprovalEnded)), RefreshReused, Refresh},
	{"refreshes race, and a token of elsewhere", after(Refresh, failed(Refresh, RefreshRace), failed(FirstCall, TokenUnknown)), TokenUnknown, FirstCall},
	{"a call after the approval was revoked, and a refresh token that was used up", after(Refresh, failed(FirstCall, ApprovalEnded), failed(Refresh, RefreshReused)), RefreshReused, Refresh},
	{"a token of another server, and documents in vain", []Observation{failed(FirstCall, TokenUnknown), failed(Metadata, MetadataPath)}, MetadataPath, Metadata},
	{"documents in vain, and left at consent", []Observation{failed(Metadata, MetadataPath), asked(Consent, "")}, Left, Consent},
	{"a call without a token before the exchange", []Observation{failed(Token, PKCEMismatch), ok(Challenge), ok(Token)}, TokenNeverUsed, FirstCall},
	{"tokens, and a call without one, and nothing before", []Observation{ok(Token), ok(Challenge)}, NoAuthorization, FirstCall},
	{"a wrong password, then a right one, and no second factor", after(Authorize, asked(SignIn, WrongPassword), asked(SignIn, SecondFactor)), LeftAtSecondFactor, SignIn},
	{"a wrong second factor", after(Authorize, asked(SignIn, SecondFactor), asked(SignIn, WrongPassword)), SignInFailed, SignIn},
	{"registered after the person was refused", after(SignIn, failed(Consent, NoOrganization), ok(Registration)), NoOrganization, Consent},
	{"the server was down", after(Code, failed(Token, ServerUnavailable)), ServerUnavailable, Token},
}

func TestKnownWaysToFail(t *testing.T) {
	named := map[Reason]bool{}
	for _, w := range waysToFail {
		t.Run(w.name, func(t *testing.T) {
			r := seen(w.seen...)
			read := Read(r)
			result, got := read.At(r.Last() + 3_600_000)
			if got != w.want || read.Stopped != w.at {
				t.Errorf("%s at step %d, want %s at %d", got, read.Stopped, w.want, w.at)
			}
			if result != CauseOf(w.want).Result {
				t.Errorf("the result is %s", result)
			}
			named[w.want] = true
		})
	}
	for _, c := range Causes {
		switch c.Code { // of causes that need no fold of their own
		case CodeUnknown, CodeOtherIssuer, TokenUnknown, ServerFault:
		default:
			if !named[c.Code] {
				t.Errorf("no way to fail is told as %s", c.Code)
			}
		}
	}
}

// Nothing is wrong with what goes on, or has mended itself.
func TestWaysToConnect(t *testing.T) {
	for name, steps := range map[string][]Observation{
		"all at once":                       upTo(Refresh),
		"not refreshed yet":                 upTo(FirstCall),
		"preregistered, metadata known":     {ok(Authorize), ok(SignIn), ok(Consent), ok(Code), ok(Token), ok(FirstCall)},
		"metadata at other paths first":     after(Challenge, failed(Metadata, MetadataPath), ok(Metadata), ok(Registration), ok(Authorize), ok(Consent), ok(Code), ok(Token), ok(FirstCall)),
		"no metadata at all, and it knew":   after(Challenge, failed(Metadata, MetadataPath), ok(Authorize), ok(Consent), ok(Code), ok(Token), ok(FirstCall)),
		"a refused registration before":     after(Metadata, failed(Registration, RedirectLoopback), ok(Registration), ok(Authorize), ok(Consent), ok(Code), ok(Token), ok(FirstCall)),
		"the right verifier after a wrong":  after(Code, failed(Token, PKCEMismatch), ok(Token), ok(FirstCall)),
		"expired, and refreshed":            after(FirstCall, pause(1900), failed(FirstCall, AccessExpired), ok(Refresh)),
		"a call without a token in between": after(Token, ok(Challenge), ok(FirstCall)),
		"a wrong password, and then right":  after(Authorize, asked(SignIn, WrongPassword), ok(SignIn), ok(Consent), ok(Code), ok(Token), ok(FirstCall)),
	} {
		r := seen(steps...)
		if result, reason := Read(r).At(r.Last() + 3_600_000); result != Worked || reason != "" {
			t.Errorf("%s: %s, %s", name, result, reason)
		}
	}
}

// Nobody is told that somebody left who may still be there.
func TestOpenUntilItIsTime(t *testing.T) {
	r := seen(after(SignIn, asked(Consent, ""))...)
	read := Read(r)
	if result, reason := read.At(r.Last() + 29*60_000); result != Open || reason != "" {
		t.Errorf("after 29 minutes: %s, %s", result, reason)
	}
	if result, reason := read.At(r.Last() + 30*60_000); result != LeftOff || reason != Left {
		t.Errorf("after 30 minutes: %s, %s", result, reason)
	}
	if s := read.Stages[Consent-1]; s.Mark != MarkOpen {
		t.Errorf("consent is %s", s.Mark)
	}
	for at, want := range map[int64]Outlook{29: {Result: Open}, 30: {Result: LeftOff, Reason: Left}} {
		now := ReadAt(r, r.Last()+at*60_000)
		mark := map[Result]Mark{Open: MarkOpen, LeftOff: MarkFailed}[now.Result]
		if now.Outlook != want || now.Stages[Consent-1].Mark != mark || now.Stopped != Consent || now.Stages[SignIn-1].Mark != MarkDone {
			t.Errorf("read after %d minutes: %+v", at, now)
		}
	}
	if s := Read(seen(after(Authorize, asked(SignIn, ""), ok(Consent))...)).Stages[SignIn-1]; s.Mark != MarkDone {
		t.Errorf("a step before the one that waits is %s", s.Mark)
	}
	r = seen(after(FirstCall, pause(1900), failed(FirstCall, AccessExpired))...) // it may refresh yet
	for ms, want := range map[int64]Result{0: Open, 119_999: Open, 120_000: Broken} {
		if result, _ := Read(r).At(r.Last() + ms); result != want {
			t.Errorf("expired for %d ms: %s", ms, result)
		}
	}
	if read := Read(seen(after(Code, failed(Token, PKCEMismatch))...)); read.Result != Broken || read.Due != 0 {
		t.Errorf("what is broken is due: %+v", read.Outlook)
	}
	for _, s := range read.Stages {
		if s.Mark.Words() == "" {
			t.Errorf("%s is said by no word", s.Mark)
		}
	}
	r = seen(upTo(Code)...)
	if result, _ := Read(r).At(r.Last() + 5*60_000 - 1); result != Open {
		t.Error("a code that can still be exchanged has failed")
	}
	if result, _ := Read(r).At(r.Last() + 5*60_000); result != Broken {
		t.Error("a code that has expired may still be exchanged")
	}
}
