package attempt_test

import (
	"math"
	"testing"

	. "github.com/grantkeeper/grantkeeper/attempt"
)

// of gives an observation what was seen beside its outcome, and a number.
func of(o Observation, w What, n int) Observation {
	o.What, o.N = w, n
	return o
}

// What is said of each thing that can be seen, and that no two of a step are told alike.
func TestSays(t *testing.T) {
	for _, tt := range []struct {
		seen Observation
		want string
	}{
		{of(ok(Challenge), AtMCP, 0), "The client called the MCP endpoint without a token, and was told where to look."},
		{of(ok(Challenge), AtAPI, 0), "The client called the API without a token, and was told where to look."},
		{of(ok(Challenge), OtherScheme, 0), "The client sent another Authorization than Bearer, and was told where to look."},
		{of(ok(Metadata), OfServer, 0), "It read what the server says of itself."},
		{of(ok(Metadata), OfResource, 0), "It read what the API says of itself."},
		{of(ok(Registration), "", 0), "It registered, with 1 redirect URI."}, // one that an earlier release has not counted
		{of(ok(Registration), "", 1), "It registered, with 1 redirect URI."},
		{of(ok(Registration), "", 2), "It registered, with 2 redirect URIs."},
		{ok(Authorize), "The request is in order."},
		{of(ok(Authorize), PromptNone, 0), "The request is in order. It asks that no page be shown, and one is."},
		{asked(SignIn, ""), "The person is asked to sign in."},
		{asked(SignIn, SecondFactor), "The person is asked for a second factor."},
		{asked(SignIn, WrongPassword), "What the person typed was wrong."},
		{ok(SignIn), "The person is signed in."},
		{asked(Consent, ""), "The person sees the consent page."},
		{asked(Consent, AskedAdmin), "The person asked an admin to allow the app."},
		{ok(Consent), "The person approved."},
		{ok(Code), "The browser was sent back with code, state and iss."},
		{ok(Token), "The client exchanged the code."},
		{ok(FirstCall), "A call was answered."},
		{ok(Refresh), "The client refreshed."},
	} {
		if got := tt.seen.Says(); got != tt.want {
			t.Errorf("%s, %q, %d: %q, want %q", tt.seen.Step, tt.seen.What, tt.seen.N, got, tt.want)
		}
	}
}

// A failure is told in the words of its reason, and behind them with what is known of it.
func TestSaysWhatWasWrong(t *testing.T) {
	for _, tt := range []struct {
		seen Observation
		more string
	}{
		{failed(Metadata, MetadataPath), ""},
		{failed(Registration, RateLimited), ""},
		{of(failed(Registration, RateLimited), "", 1), " The next one is answered in 1 second."},
		{of(failed(Registration, RateLimited), "", 2), " The next one is answered in 2 seconds."},
		{of(failed(Token, PKCEVerifier), PaddedBase64, 44), " It ends with =, and has 44 characters."},
		{of(failed(Token, PKCEVerifier), WrongLength, 42), " It has 42 characters."},
		{of(failed(Token, PKCEVerifier), WrongAlphabet, 43), " It has characters that do not belong there."},
		{of(failed(Token, CORSHeader), Preflight, 0), " A browser asked before it."},
		{of(failed(Token, TokenBody), Unnamed, 0), " Nothing but the address of its machine says whose it is."},
		{of(failed(Authorize, RedirectMismatch), Slash, 1), " A slash at the end is the difference. They part at character 1."},
		{of(failed(Authorize, RedirectMismatch), Case, 9), " Capitals are the difference. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), Port, 9), " The port is another. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), Scheme, 5), " The scheme is another. They part at character 5."},
		{of(failed(Authorize, RedirectMismatch), HostDiffers, 9), " The host is another. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), Path, 9), " The path is another. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), Query, 9), " The query is another. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), LastCharacter, 9), " The last character is the difference. They part at character 9."},
		{of(failed(Authorize, RedirectMismatch), NothingSent, 0), " None was sent."},
		{of(failed(Authorize, ResourceUnknown), Scheme, 0), " The scheme is another."},
		{of(failed(Token, ClientCredentials), OwnGrant, 0), " The code or refresh token with it is the client's own."},
		{of(failed(Token, ClientCredentials), OtherGrant, 0), " The code or refresh token with it was given to another client."},
		{of(failed(Token, ClientCredentials), NoGrant, 0), " What came with it as the code or refresh token is none."},
		{of(failed(Token, PKCEMismatch), "of_a_later_release", 9), ""},
		{of(failed(Token, PKCEMismatch), "", 9), ""}, // a number of which nobody says what it counts
	} {
		if got, want := tt.seen.Says(), CauseOf(tt.seen.Reason).Says+tt.more; got != want {
			t.Errorf("%s, %q, %d: %q, want %q", tt.seen.Reason, tt.seen.What, tt.seen.N, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for mark, want := range map[Mark]string{
		MarkDone: "Done", MarkFailed: "Failed", MarkOpen: "Waiting for the person", MarkUnseen: "Not seen", MarkNot: "Not reached", "": "",
	} {
		if got := mark.Words(); got != want {
			t.Errorf("%s: %q", mark, got)
		}
	}
	for result, want := range map[Result]string{Open: "Going on", Worked: "Worked", Broken: "Failed", LeftOff: "Left", "": ""} {
		if got := result.Words(); got != want {
			t.Errorf("%s: %q", result, got)
		}
	}
}

// Of what cannot be read, as a later release has written it, nothing is said at any time.
func TestNothingIsSaidOfWhatCannotBeRead(t *testing.T) {
	r := Record{ID: "1", Keys: Keys{Client: "quill", Approval: "a"}}
	for _, tl := range []Timeline{Read(r), ReadAt(r, math.MaxInt64)} {
		if tl.Outlook != (Outlook{Result: Open}) || tl.Stopped != 0 {
			t.Errorf("%+v, stopped at %d", tl.Outlook, tl.Stopped)
		}
	}
}
