package attempt

import "fmt"

// ByAddressSays is what is said of an attempt of which some was joined so.
const ByAddressSays = "Some of it was joined by the address of the client's machine alone, within 10 minutes."

// Says gives an observation in words.
func (o Observation) Says() string {
	if o.Outcome == Failed {
		return o.failed()
	}
	switch o.Step {
	case Challenge:
		return challengeSays(o.What)
	case Metadata:
		if o.What == OfResource {
			return "It read what the API says of itself."
		}
		return "It read what the server says of itself."
	case Registration:
		return fmt.Sprintf("It registered, with %d redirect %s.", max(o.N, 1), plural(o.N, "URI", "URIs"))
	case Authorize:
		if o.What == PromptNone {
			return "The request is in order. It asks that no page be shown, and one is."
		}
		return "The request is in order."
	case SignIn:
		return signInSays(o)
	case Consent:
		switch {
		case o.What == AskedAdmin:
			return "The person asked an admin to allow the app."
		case o.Outcome == Waiting:
			return "The person sees the consent page."
		}
		return "The person approved."
	case Code:
		return "The browser was sent back with code, state and iss."
	case Token:
		return "The client exchanged the code."
	case FirstCall:
		return "A call was answered."
	}
	return "The client refreshed."
}

func challengeSays(w What) string {
	switch w {
	case AtMCP:
		return "The client called the MCP endpoint without a token, and was told where to look."
	case OtherScheme:
		return "The client sent another Authorization than Bearer, and was told where to look."
	}
	return "The client called the API without a token, and was told where to look."
}

func signInSays(o Observation) string {
	switch {
	case o.Outcome == Done:
		return "The person is signed in."
	case o.What == SecondFactor:
		return "The person is asked for a second factor."
	case o.What == WrongPassword:
		return "What the person typed was wrong."
	}
	return "The person is asked to sign in."
}

// failed says what was wrong, as exactly as is known.
func (o Observation) failed() string {
	says := CauseOf(o.Reason).Says
	switch {
	case o.Reason == RateLimited && o.N > 0:
		return says + fmt.Sprintf(" The next one is answered in %d %s.", o.N, plural(o.N, "second", "seconds"))
	case o.What == PaddedBase64:
		return says + fmt.Sprintf(" It ends with =, and has %d characters.", o.N)
	case o.What == WrongLength:
		return says + fmt.Sprintf(" It has %d characters.", o.N)
	case o.What == WrongAlphabet:
		return says + " It has characters that do not belong there."
	case o.What == Preflight:
		return says + " A browser asked before it."
	case o.What == Unnamed:
		return says + " Nothing but the address of its machine says whose it is."
	}
	if what, ok := differences[o.What]; ok {
		says += " " + what
		if o.N > 0 {
			says += fmt.Sprintf(" They part at character %d.", o.N)
		}
	}
	return says
}

var differences = map[What]string{
	Slash:         "A slash at the end is the difference.",
	Case:          "Capitals are the difference.",
	Port:          "The port is another.",
	Scheme:        "The scheme is another.",
	HostDiffers:   "The host is another.",
	Path:          "The path is another.",
	Query:         "The query is another.",
	LastCharacter: "The last character is the difference.",
	NothingSent:   "None was sent.",
	OwnGrant:      "The code or refresh token with it is the client's own.",
	OtherGrant:    "The code or refresh token with it was given to another client.",
	NoGrant:       "What came with it as the code or refresh token is none.",
}

func plural(n int, one, many string) string {
	if n <= 1 {
		return one
	}
	return many
}
