// Package attempt is how a client tried to connect: what the doors have seen of it,
// step by step, joined to one timeline, and why it came no farther. Nothing in it
// decides anything. It knows no token, code, verifier or state, nor a part of one.
package attempt

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// Step is one of the ten that a client goes through (spec section 1).
type Step uint8

const (
	Challenge    Step = iota + 1 // a call without a credential
	Metadata                     // the documents that say where everything is
	Registration                 // RFC 7591
	Authorize                    // the browser arrives
	SignIn                       // the person says who they are
	Consent                      // the person approves, or does not
	Code                         // the browser goes back with a code
	Token                        // the client exchanges it
	FirstCall                    // the first use of an access token
	Refresh                      // the first use of a refresh token
)

// Steps is how many there are.
const Steps = 10

var stepNames = [Steps + 1]string{
	"", "Challenge", "Metadata", "Registration", "Authorize", "Sign-in", "Consent", "Code", "Token", "First call", "Refresh",
}

// String is the name of a step; "" is none.
func (s Step) String() string {
	if int(s) < len(stepNames) {
		return stepNames[s]
	}
	return ""
}

// Outcome is how a step went, as far as was seen.
type Outcome uint8

const (
	Done    Outcome = iota + 1
	Waiting         // the person is asked something
	Failed
)

// What was seen at a step, beside its outcome. The words of Says are made of it.
type What string

const (
	AtMCP         What = "mcp"          // the MCP endpoint was called
	AtAPI         What = "api"          // another endpoint
	OtherScheme   What = "other_scheme" // an Authorization header that is no Bearer
	OfServer      What = "server"       // metadata of the authorization server
	OfResource    What = "resource"     // of the protected resource
	PromptNone    What = "prompt_none"  // the request asked that nothing be shown
	SecondFactor  What = "factor"       // the person is asked for it
	WrongPassword What = "wrong"        // what the person typed was wrong
	AskedAdmin    What = "asked_admin"  // the person has asked an admin
	Slash         What = "slash"        // a slash at the end is the difference
	Case          What = "case"         // capitals are
	Port          What = "port"
	Scheme        What = "scheme"
	HostDiffers   What = "host"
	Path          What = "path"
	Query         What = "query"
	LastCharacter What = "last_character"
	NothingSent   What = "nothing"
	PaddedBase64  What = "padding"   // = where none belongs
	WrongLength   What = "length"    // N is the length that came
	WrongAlphabet What = "alphabet"  // characters that do not belong there
	Preflight     What = "preflight" // a browser asked whether a script may
	OwnGrant      What = "own"       // the code or refresh token that came with it is the client's
	OtherGrant    What = "other"     // it was given to another client
	NoGrant       What = "none"      // what came as one is none
	Unnamed       What = "unnamed"   // nothing says whose it is but an address
)

// Agent is the class of a User-Agent header: of a fixed list, for what it says
// itself is anybody's text.
type Agent string

const (
	NoAgent    Agent = "none"
	Browser    Agent = "browser"
	CurlAgent  Agent = "curl"
	Node       Agent = "node"
	Python     Agent = "python"
	GoAgent    Agent = "go"
	Java       Agent = "java"
	Ruby       Agent = "ruby"
	PHP        Agent = "php"
	DotNet     Agent = "dotnet"
	Rust       Agent = "rust"
	OtherAgent Agent = "other"
)

var agents = []struct {
	class Agent
	begin []string // of the header, in small letters
}{
	{Browser, []string{"mozilla/"}},
	{CurlAgent, []string{"curl/", "wget/"}},
	{Node, []string{"node", "undici", "axios/", "got ", "got/", "bun/", "deno/"}},
	{Python, []string{"python", "aiohttp/", "httpx/", "urllib3/"}},
	{GoAgent, []string{"go-http-client/", "go/"}},
	{Java, []string{"java/", "java-http-client/", "okhttp/", "apache-httpclient/", "ktor"}},
	{Ruby, []string{"ruby", "faraday"}},
	{PHP, []string{"php/", "guzzlehttp/", "symfony"}},
	{DotNet, []string{".net/", "dotnet"}},
	{Rust, []string{"reqwest", "hyper/", "rust"}},
}

// AgentOf gives the class of a User-Agent header. It looks at the beginning alone.
func AgentOf(header string) Agent {
	const most = 24 // bytes: no beginning is longer
	if header == "" {
		return NoAgent
	}
	begin := strings.ToLower(header[:min(len(header), most)])
	for _, a := range agents {
		for _, b := range a.begin {
			if strings.HasPrefix(begin, b) {
				return a.class
			}
		}
	}
	return OtherAgent
}

// Keys say whose an observation is; what is empty says nothing.
type Keys struct {
	Client       string // ID, of a client that there is
	Name, Host   string // the client's name as it came, and the host of its address
	Approval     string // ID
	Walk         string // of one request for authorization: see WalkOf
	Person       string // ID
	Organization string // ID
	Address      string // of the client's machine, never of a person's: see AddressOf
}

// An Observation is what a door has seen.
type Observation struct {
	At      int64 // Unix milliseconds
	Step    Step
	Outcome Outcome
	Reason  Reason // of Failed
	What    What
	Status  int // of HTTP; 0 is none
	N       int // a length, a position or seconds, as What and Reason have it
	Agent   Agent
	Again   int // how many more times the same was seen
	Keys
}

// Same reports whether two differ in their time alone.
func (o Observation) same(p Observation) bool {
	return o.Step == p.Step && o.Outcome == p.Outcome && o.Reason == p.Reason && o.What == p.What &&
		o.Status == p.Status && o.N == p.N && o.Agent == p.Agent
}

// refusedRegistration reports whether it is one.
func (o Observation) refusedRegistration() bool { return o.Step == Registration && o.Outcome == Failed }

// byAddress reports whether it can have been joined by an address alone: steps 1 and
// 2, a registration that was refused, and a browser's question name no client ever.
func (o Observation) byAddress() bool {
	return o.What == Unnamed || o.Step <= Metadata || o.refusedRegistration() || o.Reason == CORSHeader
}

// WalkOf names one request for authorization by the client and its code_challenge,
// which is new with each (RFC 7636 section 4.1); "" where there is none.
func WalkOf(client, challenge string) string {
	if challenge == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(client + "\x00" + challenge))
	return hex.EncodeToString(sum[:10])
}

// AddressOf gives what of an address attempts are joined by, as text: all of an
// IPv4 address and the /64 of an IPv6 one, of which a machine has all addresses.
func AddressOf(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}
	p, _ := a.Prefix(64) // 64 bits are there
	return p.String()
}
