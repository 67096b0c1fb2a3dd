package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// A scenario is one kind of request to the server.
type scenario struct {
	name  string
	phase approval.Phase // of the approvals that have to be there; 0 for none
	once  bool           // each approval is good for one request

	within string // bound on staleness that the server has; on PostgreSQL only

	behind bool // the service stands behind, and beside it the bare reverse proxy
	ruled  bool // rules say what its tools touch
	few    int  // connections, where they are not those of the flag
	held   bool // half of the clients hold a key, and bare is the other half at the same server

	// player makes the requests of one of so many connections. They share the
	// stock's approvals evenly.
	player playing
	// bare makes those to the bare server in turn.
	bare playing
	// proof asks the database, when the server is gone, how many right
	// answers it must have given; empty where a request leaves nothing.
	proof string
}

// playing gives one of so many connections its player.
type playing func(s *stock, connection, connections int) player

var scenarios = []scenario{
	{name: "bare", player: barePlayer, bare: barePlayer},
	{name: "metadata", player: metadataPlayer, bare: barePlayer},
	{name: "verify", phase: approval.Live, player: verifyPlayer, bare: endless(verifyPlayer, bareAnswer[:20])},
	{name: "verify-bounded", phase: approval.Live, player: verifyPlayer, bare: endless(verifyPlayer, bareAnswer[:20]), within: staleness},
	{
		name: "refresh", phase: approval.Live, player: refreshPlayer, bare: barePlayer,
		proof: `SELECT SUM(generation) - COUNT(*) FROM approval WHERE phase = 2`,
	},
	{
		name: "exchange", phase: approval.CodeIssued, once: true, player: exchangePlayer, bare: barePlayer,
		proof: `SELECT COUNT(*) FROM approval WHERE phase = 2 AND generation = 1`,
	},
	{
		name: "revoke", phase: approval.Live, once: true, player: revokePlayer, bare: barePlayer,
		proof: `SELECT COUNT(*) FROM approval WHERE phase = 3 AND reason = 'revoked_by_client'`,
	},
	{
		name: "register", player: registerPlayer, bare: barePlayer,
		proof: `SELECT COUNT(*) FROM client WHERE approved = 0`,
	},
	{
		name: "refresh-dpop", phase: approval.Live, held: true, player: proved(refreshPlayer), bare: half(refreshPlayer, false),
		proof: `SELECT SUM(generation) - COUNT(*) FROM approval WHERE phase = 2 AND LENGTH(bound) > 0`,
	},
	{
		name: "exchange-dpop", phase: approval.CodeIssued, once: true, held: true, player: proved(exchangePlayer), bare: half(exchangePlayer, false),
		proof: `SELECT COUNT(*) FROM approval WHERE phase = 2 AND generation = 1 AND LENGTH(bound) > 0`,
	},
	{name: "proxy", phase: approval.Live, behind: true, player: proxyPlayer, bare: endless(proxyPlayer, "")},
	{name: "proxy-8", phase: approval.Live, behind: true, few: 8, player: proxyPlayer, bare: endless(proxyPlayer, "")},
	{name: "mcp", phase: approval.Live, behind: true, ruled: true, player: mcpPlayer, bare: endless(mcpPlayer, "")},
	{name: "mcp-8", phase: approval.Live, behind: true, ruled: true, few: 8, player: mcpPlayer, bare: endless(mcpPlayer, "")},
}

func scenarioOf(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("there is no scenario %q", name)
}

// --- whose request it is

// firstAddress and addresses are 198.18.0.0/15, set aside for measuring
// (RFC 2544 appendix C.2.2).
const (
	firstAddress = 198<<24 | 18<<16
	addresses    = 1 << 17
)

// A spread gives the requests of so many clients their addresses: each client
// its own until that has used up what the contract gives it, then one more
// (spec section 8). With more clients than addresses some share one.
type spread struct {
	clients int
	uses    int // of one address, in the whole of a scenario
}

// of gives the address of a request. turn counts a client's requests from 0.
// ok is false when all addresses are used up.
func (s spread) of(client, turn int) (address uint32, ok bool) {
	sharing := (s.clients + addresses - 1) / addresses // clients of one address
	slots := min(s.clients, addresses)
	block := turn / max(s.uses/sharing, 1)
	at := client%slots + block*slots
	return uint32(firstAddress + at), at < addresses
}

func appendAddress(b []byte, a uint32) []byte {
	for shift := 24; shift >= 0; shift -= 8 {
		b = strconv.AppendUint(b, uint64(a>>shift&0xff), 10)
		if shift > 0 {
			b = append(b, '.')
		}
	}
	return b
}

// --- requests

// host is what the server is asked for: the generator is the proxy before it.
const host = "bench.example"

const form = "application/x-www-form-urlencoded"

func appendGet(b []byte, path string, address uint32, bearer []byte) []byte {
	b = appendLine(b, "GET ", path, address)
	if bearer != nil {
		b = append(append(append(b, "Authorization: Bearer "...), bearer...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func appendPost(b []byte, path string, address uint32, media string, body []byte) []byte {
	return appendBody(appendLine(b, "POST ", path, address), media, body)
}

// appendProved is appendPost with a proof of the client's key.
func appendProved(b []byte, path string, address uint32, media string, proof, body []byte) []byte {
	b = append(append(append(appendLine(b, "POST ", path, address), "DPoP: "...), proof...), "\r\n"...)
	return appendBody(b, media, body)
}

func appendBody(b []byte, media string, body []byte) []byte {
	return fmt.Appendf(b, "Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s", media, len(body), body)
}

func appendLine(b []byte, method, path string, address uint32) []byte {
	b = append(append(append(b, method...), path...), " HTTP/1.1\r\nHost: "+host+"\r\nX-Forwarded-For: "...)
	return append(appendAddress(b, address), "\r\n"...)
}

// right says what is wrong with an answer that should have this status and
// these bytes.
func right(a answer, status int, needed []byte) error {
	switch {
	case a.status != status:
		return fmt.Errorf("status %d %s", a.status, errorCode(a.body))
	case !bytes.Contains(a.body, needed):
		return errors.New("the answer has not what it should")
	}
	return nil
}

// errorCode gives the member "error" of an answer. Nothing else of the body
// is shown: it may hold a token.
func errorCode(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"error":"`))
	code, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || len(code) > 40 || len(bytes.Trim(code, "abcdefghijklmnopqrstuvwxyz_")) > 0 {
		return "without an error code"
	}
	return string(code)
}

// fixed is a player that asks for the same all the time.
type fixed struct {
	request []byte
	needed  []byte
}

func (p fixed) next(b []byte) []byte { return append(b, p.request...) }
func (p fixed) check(a answer) error { return right(a, 200, p.needed) }

func barePlayer(_ *stock, connection, _ int) player {
	return fixed{appendGet(nil, "/", uint32(firstAddress+connection), nil), []byte(bareAnswer[:20])}
}

func metadataPlayer(_ *stock, connection, _ int) player {
	return fixed{
		appendGet(nil, "/.well-known/oauth-authorization-server", uint32(firstAddress+connection), nil),
		[]byte(`"issuer":"` + issuer + `"`),
	}
}

// share is what a connection has of the stock: every so many-th approval from
// its own number on, one after the other, and again from the first.
type share struct {
	stock *stock
	first int
	step  int
	count int
	asked int // requests made
}

func shareOf(s *stock, connection, connections int) share {
	return share{s, connection, connections, max(0, (s.asked()-connection+connections-1)/connections), 0}
}

// turn gives the next approval: its place in the share, its number in the
// stock, and how often it had its turn before.
func (s *share) turn() (place, number, turn int) {
	place, turn = s.asked%s.count, s.asked/s.count
	s.asked++
	return place, s.number(place), turn
}

// number gives the number in the stock of what is at a place of the share.
func (s *share) number(place int) int {
	at := s.first + place*s.step
	if s.stock.chosen != nil {
		return s.stock.chosen[at]
	}
	return at
}

// tokens gives one token of each approval of the share.
func (s *share) tokens(of func(h token.Handle) string) [][token.Len]byte {
	all := make([][token.Len]byte, s.count)
	for i := range all {
		copy(all[i][:], of(s.stock.handle(s.number(i))))
	}
	return all
}

// tokenSpread is the spread of requests that count as spec section 8 has it
// for /oauth/token and /oauth/revoke.
func (s *share) tokenSpread() spread { return spread{s.stock.approvals, limit.Token.N} }

// verifies asks for GET /api/v5/me with access tokens that were made before.
type verifies struct {
	share
	tokens [][token.Len]byte
	turns  int // of each approval, before its organization's limit is reached
	needed []byte
	body   []byte

	// request makes that of an approval, and what its answer needs.
	request func(b []byte, number int, bearer []byte) []byte
}

func verifyPlayer(s *stock, connection, connections int) player {
	p := &verifies{share: shareOf(s, connection, connections), turns: limit.API.N / s.inOrganization()}
	expires := time.Now().Add(approval.AccessLifetime).Unix() // to write ten million takes a while
	p.tokens = p.share.tokens(func(h token.Handle) string { return s.ring.Access(h, 1, expires) })
	p.request = func(b []byte, number int, bearer []byte) []byte {
		p.needed = append(append(append(p.needed[:0], `"id":"`...), s.personOf(number)...), '"')
		return appendGet(b, "/api/v5/me", addressOf(number), bearer)
	}
	return p
}

func (p *verifies) next(b []byte) []byte {
	place, number, turn := p.turn()
	if turn >= p.turns {
		return nil
	}
	return p.request(b, number, p.tokens[place][:])
}

func (p *verifies) check(a answer) error { return right(a, 200, p.needed) }

// endless makes the same requests to the bare server, which lets everybody in and counts
// nobody's requests: beside it a guarded call costs what the guard does, and nothing that
// the generator does with as many tokens. Its answers need what is given, or the same.
func endless(of playing, needed string) playing {
	return func(s *stock, connection, connections int) player {
		p := of(s, connection, connections).(*verifies)
		request := p.request
		p.turns, p.request = math.MaxInt, func(b []byte, number int, bearer []byte) []byte {
			b = request(b, number, bearer)
			if needed != "" {
				p.needed = append(p.needed[:0], needed...)
			}
			return b
		}
		return p
	}
}

// spends sends a token or code of each approval of its share.
type spends struct {
	share
	spread spread
	tokens [][token.Len]byte // the current ones
	at     int               // whose turn it was
	body   []byte

	proofs [][]byte // of the client's key, one for each request; nil where it holds none
	proof  int      // whose turn it is

	once bool   // each is good for one request
	path string // is asked
	// form begins the body, whose end is the rest: the token stands between.
	form, rest string
	right      func(p *spends, a answer) error
}

func spend(s *stock, connection, connections int, of func(token.Handle) string, p spends) *spends {
	p.share = shareOf(s, connection, connections)
	p.spread, p.tokens = p.tokenSpread(), p.share.tokens(of)
	return &p
}

func (p *spends) next(b []byte) []byte {
	if p.once && p.asked == p.count || p.proofs != nil && p.proof == len(p.proofs) {
		return nil
	}
	place, number, turn := p.turn()
	address, ok := p.spread.of(number, turn)
	if !ok {
		return nil
	}
	p.at = place
	p.body = append(append(append(p.body[:0], "client_id="...), p.stock.clientOf(number)...), p.form...)
	p.body = append(append(p.body, p.tokens[place][:]...), p.rest...)
	if p.proofs != nil {
		p.proof++
		return appendProved(b, p.path, address, form, p.proofs[p.proof-1], p.body)
	}
	return appendPost(b, p.path, address, form, p.body)
}

func (p *spends) check(a answer) error { return p.right(p, a) }

var (
	accessMember  = []byte(`"access_token":"svo_`)
	refreshMember = []byte(`"refresh_token":"`)
)

// refreshPlayer keeps a chain of refresh tokens for each approval. A refused one stays:
// the next answer to it says so again.
func refreshPlayer(s *stock, connection, connections int) player {
	of := func(h token.Handle) string { return s.ring.Refresh(h, 1) }
	return spend(s, connection, connections, of, spends{path: "/oauth/token", form: "&grant_type=refresh_token&refresh_token=", right: func(p *spends, a answer) error {
		if err := right(a, 200, accessMember); err != nil {
			return err
		}
		fresh := newRefreshToken(a.body)
		if fresh == nil || bytes.Equal(fresh, p.tokens[p.at][:]) {
			return errors.New("the answer has no new refresh token")
		}
		copy(p.tokens[p.at][:], fresh)
		return nil
	}})
}

// newRefreshToken gives the refresh token of a token answer, or nil.
func newRefreshToken(body []byte) []byte {
	_, rest, ok := bytes.Cut(body, refreshMember)
	if !ok || len(rest) <= token.Len || rest[token.Len] != '"' || !bytes.HasPrefix(rest, []byte("svr_")) {
		return nil
	}
	return rest[:token.Len]
}

// exchangePlayer trades each code once.
func exchangePlayer(s *stock, connection, connections int) player {
	of := func(h token.Handle) string { return s.ring.Code(h, s.made) }
	return spend(s, connection, connections, of, spends{once: true, path: "/oauth/token", form: "&grant_type=authorization_code&code=",
		rest: "&redirect_uri=" + url.QueryEscape(redirectURI) + "&code_verifier=" + verifier,
		right: func(_ *spends, a answer) error {
			if err := right(a, 200, accessMember); err != nil {
				return err
			}
			if newRefreshToken(a.body) == nil {
				return errors.New("the answer has no refresh token")
			}
			return nil
		}})
}

// revokePlayer ends each approval, by its refresh token.
func revokePlayer(s *stock, connection, connections int) player {
	of := func(h token.Handle) string { return s.ring.Refresh(h, 1) }
	return spend(s, connection, connections, of, spends{once: true, path: "/oauth/revoke", form: "&token=",
		right: func(_ *spends, a answer) error { return right(a, 200, []byte("{}")) }})
}

// registers registers a client that nobody registered before.
type registers struct {
	number, step int
	spread       spread
	body         []byte
	uri          []byte
}

// registrants is how many addresses register in turn, each the only one of its
// /24: with many clients that nobody has approved a network counts as a whole
// (decision L1). They are of 10.0.0.0/8.
const (
	registrants     = 10_000
	firstRegistrant = 10<<24 | 1
)

func registerPlayer(_ *stock, connection, connections int) player {
	return &registers{number: connection, step: connections, spread: spread{registrants, limit.Register.N}}
}

func (p *registers) next(b []byte) []byte {
	address, ok := p.spread.of(p.number%registrants, p.number/registrants)
	if address = firstRegistrant + (address-firstAddress)<<8; !ok || address>>24 != 10 || p.number >= store.MaxUnapproved {
		return nil
	}
	p.uri = strconv.AppendInt(append(p.uri[:0], `"https://client.example/callback/`...), int64(p.number), 10)
	p.uri = append(p.uri, '"')
	p.body = append(p.body[:0], `{"client_name":"Measured client","redirect_uris":[`...)
	p.body = append(p.body, p.uri...)
	p.body = append(p.body, `],"grant_types":["authorization_code","refresh_token"],"token_endpoint_auth_method":"none"}`...)
	p.number += p.step
	return appendPost(b, "/oauth/register", address, "application/json", p.body)
}

var clientMember = []byte(`"client_id":"`)

func (p *registers) check(a answer) error {
	if err := right(a, 201, clientMember); err != nil {
		return err
	}
	return right(a, 201, p.uri)
}
