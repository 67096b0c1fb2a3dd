package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keyed is a client that holds a key (RFC 9449) and signs with another implementation
// than the server's.
type keyed struct {
	*flow
	signer jose.Signer
	mu     sync.Mutex
	nonce  string // the last that it was given
}

func (f *flow) keyed() *keyed {
	f.h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.h.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		f.h.t.Fatal(err)
	}
	return &keyed{flow: f, signer: signer}
}

// proof gives a new proof with the last nonce.
func (k *keyed) proof() string {
	k.h.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	claims, err := json.Marshal(map[string]any{"jti": random(), "htm": "POST", "htu": k.h.base + "/oauth/token", "iat": time.Now().Unix(), "nonce": k.nonce})
	if err != nil {
		k.h.t.Fatal(err)
	}
	signed, err := k.signer.Sign(claims)
	if err != nil {
		k.h.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		k.h.t.Fatal(err)
	}
	return text
}

// send sends a form to a node with a proof, once.
func (k *keyed) sendProof(node *house, proof string, fields ...string) answer {
	k.h.t.Helper()
	a := k.send("POST", node.base+"/oauth/token", form(fields...), header{"Content-Type", "application/x-www-form-urlencoded",
		"Host", strings.TrimPrefix(k.h.base, "http://"), "DPoP", proof})
	if nonce := a.header.Get("DPoP-Nonce"); nonce != "" {
		k.mu.Lock()
		k.nonce = nonce
		k.mu.Unlock()
	}
	return a
}

// ask sends a form with a new proof, and again when it is told to.
func (k *keyed) ask(node *house, fields ...string) answer {
	k.h.t.Helper()
	a := k.sendProof(node, k.proof(), fields...)
	if a.errorCode() == "use_dpop_nonce" {
		a = k.sendProof(node, k.proof(), fields...)
	}
	return a
}

func (k *keyed) exchanging(code string) []string {
	return []string{"grant_type", "authorization_code", "code", code, "redirect_uri", k.redirect, "client_id", k.client, "code_verifier", k.verifier}
}

func (k *keyed) refreshing(refresh string) []string {
	return []string{"grant_type", "refresh_token", "refresh_token", refresh, "client_id", k.client}
}

// Decisions T15 and T16 over two processes on one PostgreSQL database: a nonce and a proof
// of one node are those of the other, a proof counts once, and a stolen refresh token ends
// nothing.
func TestRefreshTokensOfAKeyOnTwoNodes(t *testing.T) {
	t.Parallel()
	_, all := nodes(t, 2)
	a, b := all[0], all[1]
	f, code := a.issued("")
	k, thief := f.keyed(), f.keyed()
	if r := k.sendProof(a, k.proof(), k.exchanging(code)...); r.status != 400 || r.errorCode() != "use_dpop_nonce" || k.nonce == "" {
		t.Fatalf("a proof without a nonce: %s", r)
	}
	first := tokensOf(t, k.sendProof(b, k.proof(), k.exchanging(code)...))
	if status := f.accepted(a, first.access); status != 200 {
		t.Errorf("the access token as a Bearer token: %d", status)
	}
	used := k.proof()
	second := tokensOf(t, k.sendProof(a, used, k.refreshing(first.refresh)...))
	for _, node := range all {
		if r := k.sendProof(node, used, k.refreshing(second.refresh)...); r.status != 400 || r.errorCode() != "invalid_dpop_proof" {
			t.Errorf("a proof that was used before: %s", r)
		}
		for _, stolen := range []string{first.refresh, second.refresh} {
			if r := f.refreshAt(node, stolen); r.status != 400 || r.errorCode() != "invalid_grant" {
				t.Errorf("a stolen token: %s", r)
			}
			if r := thief.ask(node, thief.refreshing(stolen)...); r.status != 400 || r.errorCode() != "invalid_grant" {
				t.Errorf("a stolen token with a thief's key: %s", r)
			}
		}
		if status := f.accepted(node, second.access); status != 200 {
			t.Errorf("after the thief: %d", status)
		}
	}
	// One request many times, spread over both: one is answered, and nothing ends.
	atOnce := func(send func(node *house) answer) (ok int64, last tokens) {
		var n atomic.Int64
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 40 {
			wg.Go(func() {
				if r := send(all[i%2]); r.status == 200 {
					n.Add(1)
					mu.Lock()
					last = tokensOf(t, r)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return n.Load(), last
	}
	proof := k.proof()
	n, third := atOnce(func(node *house) answer { return k.sendProof(node, proof, k.refreshing(second.refresh)...) })
	if n != 1 {
		t.Fatalf("one request 40 times: %d were answered", n)
	}
	fourth := tokensOf(t, k.ask(b, k.refreshing(third.refresh)...))
	if r := a.approvalsOf(f.client)[0]; r["key_bound"] != true || r["state"] != "live" {
		t.Errorf("%v", r)
	}
	// With its key a used token is what it always was.
	if n, _ := atOnce(func(node *house) answer { return k.ask(node, k.refreshing(fourth.refresh)...) }); n > 1 {
		t.Errorf("one token with 40 proofs: %d were answered", n)
	}
	for _, node := range all {
		if status := f.accepted(node, fourth.access); status != 401 {
			t.Errorf("after the reuse: %d", status)
		}
	}
}

// What is bound and what was used is so after the server was killed.
func TestRefreshTokensOfAKeyAfterAKill(t *testing.T) {
	t.Parallel()
	h := serve(t, served{})
	f, code := h.issued("")
	k := f.keyed()
	first := tokensOf(t, k.ask(h, k.exchanging(code)...))
	used := k.proof()
	second := tokensOf(t, k.sendProof(h, used, k.refreshing(first.refresh)...))
	h.kill()
	h.serve(0)
	for what, r := range map[string]answer{
		"invalid_dpop_proof": k.sendProof(h, used, k.refreshing(second.refresh)...),
		"invalid_grant":      f.refresh(first.refresh),
	} {
		if r.status != 400 || r.errorCode() != what {
			t.Errorf("want %s: %s", what, r)
		}
	}
	tokensOf(t, k.ask(h, k.refreshing(second.refresh)...))
}
