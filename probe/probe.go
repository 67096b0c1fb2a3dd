// Package probe judges what an assistant, which is an MCP client, meets at any MCP
// endpoint, API or authorization server. It says which request is asked next of what
// was answered so far, and makes rows of all of it: what was seen, by which section of
// which document, whom it stops, and what mends it. It asks nothing itself.
package probe

import "slices"

// What a row can come to.
const (
	OK   = "ok"
	Note = "note" // true, and no fault: something optional, or for older clients
	Warn = "warn" // some kind of client is stopped, or a form is broken that many overlook
	Fail = "fail" // who keeps to the documents cannot get through
	None = "none" // cannot be judged: it was not asked, or there was nothing to see
)

// A Kind is a kind of client that a row matters to.
type Kind string

// The kinds of clients.
const (
	Hosted  Kind = "hosted"  // an assistant on servers, with an https redirect
	Desktop Kind = "desktop" // a program with a redirect to a loopback port
	CLI     Kind = "cli"     // the same from a terminal
	CIMD    Kind = "cimd"    // one whose ID is the address of its metadata document
	Browser Kind = "browser" // a page that asks by itself, under CORS
)

var (
	everyone = []Kind{Hosted, Desktop, CLI, CIMD, Browser}
	loopback = []Kind{Desktop, CLI}
)

// A Row is one thing that was judged.
type Row struct {
	Code   string `json:"code"`         // stable
	At     string `json:"at,omitempty"` // the issuer, of a row about an authorization server
	Result string `json:"result"`
	Source string `json:"source"`           // document and section
	Seen   string `json:"seen"`             // what of it others wrote is escaped, and cut
	Breaks []Kind `json:"breaks,omitempty"` // of a row that is not ok
	Fix    string `json:"fix,omitempty"`    // of a row that is not ok
}

// What may go wrong with a request before there is an answer to judge.
const (
	Unreachable = "unreachable" // no connection, or it broke off
	Slow        = "slow"        // not within the time that one request has
	Large       = "large"       // more than an answer may have
	TLS         = "tls"         // its certificate is not trusted
	Scheme      = "scheme"      // neither https nor, where that is allowed, http
	Private     = "private"     // a private address, named by a public server
	Redirects   = "redirects"   // too many, or to where this request may not be led
	Malformed   = "malformed"   // no HTTP, or no URL
	Stopped     = "stopped"     // all requests together took too long
)

// failures says each for people.
var failures = map[string]string{
	Unreachable: "does not answer",
	Slow:        "does not answer in time",
	Large:       "answers with more than 1 MiB",
	TLS:         "has a certificate that is not trusted",
	Scheme:      "is not asked: it is not https",
	Private:     "is not asked: it is a private address, which a public server named",
	Redirects:   "redirects too often, or to where no request may follow",
	Malformed:   "does not answer as HTTP",
	Stopped:     "was not asked any more: all together took too long",
}

// An Answer is what came back, as far as it is judged.
type Answer struct {
	Error      string   `json:"error,omitempty"` // one of the above; "" when there is an answer
	Status     int      `json:"status,omitempty"`
	Type       string   `json:"type,omitempty"`       // Content-Type
	Challenges []string `json:"challenges,omitempty"` // fields WWW-Authenticate
	Location   string   `json:"location,omitempty"`   // of a redirect that was not followed
	Origin     string   `json:"origin,omitempty"`     // Access-Control-Allow-Origin
	Via        []string `json:"via,omitempty"`        // where redirects led, in their order
	Body       string   `json:"body,omitempty"`
}

// How far redirects of a request are followed. None leaves the scheme https.
const (
	FollowNone   = ""
	FollowOrigin = "origin" // within the origin; of a POST, 307 and 308 alone
	FollowAny    = "any"
)

// A Request is one that is to be made, or was. It has no credential but the token by
// which a server lets a client be deleted that was registered a moment ago.
type Request struct {
	Step   string `json:"step"` // what it is asked for
	Method string `json:"method"`
	URL    string `json:"url"`
	Accept string `json:"accept,omitempty"`
	Type   string `json:"type,omitempty"`   // Content-Type
	Origin string `json:"origin,omitempty"` // as a page in a browser sends it
	Body   string `json:"body,omitempty"`
	Follow string `json:"follow,omitempty"`
	Brief  bool   `json:"brief,omitempty"` // nothing of the body is needed
	Token  string `json:"-"`               // of RFC 7592
}

// Registers reports whether an answer to it may be all that there is to delete a client by.
func (r Request) Registers() bool { return r.Step == registerHTTPS || r.Step == registerLoopback }

// An Exchange is a request and its answer.
type Exchange struct {
	Request Request `json:"request"`
	Answer  Answer  `json:"answer"`
}

// An Inquiry is all that was asked and answered so far. It is complete when Next has
// nothing more to ask.
type Inquiry struct {
	URL       string     `json:"url"`      // as Check takes it
	Register  bool       `json:"register"` // whether clients may be registered
	Exchanges []Exchange `json:"exchanges"`
}

// find gives the answer to a request that was made.
func (q *Inquiry) find(step, address string) (Answer, bool) {
	i := slices.IndexFunc(q.Exchanges, func(e Exchange) bool { return e.Request.Step == step && (address == "" || e.Request.URL == address) })
	if i < 0 {
		return Answer{}, false
	}
	return q.Exchanges[i].Answer, true
}

// Rows judges what was seen. Rows about an authorization server come once for each
// that the resource names.
func (q *Inquiry) Rows() (all []Row) {
	v := q.view()
	servers := v.servers
	if len(servers) == 0 {
		servers = []*server{{}} // so that every row is there
	}
	for _, r := range table {
		if !r.ofServer {
			all = append(all, r.of(v, nil))
			continue
		}
		for _, s := range servers {
			all = append(all, r.of(v, s))
		}
	}
	for _, r := range revisions {
		all = append(all, r.of(all, v))
	}
	return all
}

// Codes are those of all rows, in their order.
func Codes() (all []string) {
	for _, r := range table {
		all = append(all, r.code)
	}
	for _, r := range revisions {
		all = append(all, r.code)
	}
	return all
}
