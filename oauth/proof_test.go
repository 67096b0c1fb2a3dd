package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/token"
)

// holder is a client's key.
type holder struct {
	t   testing.TB
	key *ecdsa.PrivateKey
	n   int // of proofs
}

func newHolder(t testing.TB) *holder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{t: t, key: key}
}

// claims are those of a right proof with a jti of its own.
func (h *holder) claims(at time.Time, nonce string) map[string]any {
	h.n++
	return map[string]any{"jti": fmt.Sprint("proof ", h.n), "htm": "POST", "htu": base + "/oauth/token", "iat": at.Unix(), "nonce": nonce}
}

// sign gives a proof with these claims.
func (h *holder) sign(claims map[string]any) string {
	h.t.Helper()
	public, err := h.key.PublicKey.Bytes()
	if err != nil {
		h.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	body, err := json.Marshal(claims)
	if err != nil {
		h.t.Fatal(err)
	}
	text := encode([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"`+encode(public[1:33])+`","y":"`+encode(public[33:])+`"}}`)) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, h.key, sum[:])
	if err != nil {
		h.t.Fatal(err)
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// proof gives a right proof with a nonce of now.
func (d *door) proof(h *holder) string { return h.sign(h.claims(d.Store.Now(), d.nonce())) }

func (d *door) nonce() string { return d.ring.Nonce(d.Store.Now()) }

// prove posts a token request with DPoP headers.
func (d *door) prove(form url.Values, proofs ...string) *httptest.ResponseRecorder {
	r := request("POST", "/oauth/token", form.Encode())
	r.Header["Dpop"] = proofs
	return d.send(r)
}

// bound gives a client with an approval that its exchange has bound to a key.
func (d *door) bound(by *holder) (id string, h token.Handle, refresh string) {
	d.t.Helper()
	id = d.registered()
	h, code := d.approved(id)
	w := d.prove(exchangeForm(id, code), d.proof(by))
	if w.Code != http.StatusOK {
		d.t.Fatalf("exchange: %d %s", w.Code, w.Body)
	}
	return id, h, readTokens(d.t, w).Refresh
}

// wantProofError checks status and code.
func wantProofError(t *testing.T, what string, w *httptest.ResponseRecorder, code string) {
	t.Helper()
	var e struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusBadRequest || e.Error != code {
		t.Errorf("%s: %d %s, want 400 %s", what, w.Code, w.Body, code)
	}
}

// Decisions T15 and T16, RFC 9449 sections 5 and 8: as a client goes through them.
func TestProofs(t *testing.T) {
	d, held, other := open(t), newHolder(t), newHolder(t)
	id := d.registered()
	h, code := d.approved(id)

	w := d.prove(exchangeForm(id, code), held.sign(held.claims(d.Store.Now(), "")))
	wantProofError(t, "the first proof, without a nonce", w, "use_dpop_nonce")
	d.wantState(h, approval.CodeIssued, 0, "")
	nonce := w.Header().Get("DPoP-Nonce")
	w = d.prove(exchangeForm(id, code), held.sign(held.claims(d.Store.Now(), nonce)))
	if w.Code != http.StatusOK || w.Header().Get("DPoP-Nonce") == "" || !strings.Contains(w.Body.String(), `"token_type":"Bearer"`) {
		t.Fatalf("exchange: %d %s", w.Code, w.Body)
	}
	first := readTokens(t, w).Refresh

	// Without the key a token is refused, and nothing has ended.
	stolen := func(refresh string, generation int64) {
		t.Helper()
		for name, w := range map[string]*httptest.ResponseRecorder{
			"no proof": d.post("/oauth/token", refreshForm(id, refresh)), "the proof of another key": d.prove(refreshForm(id, refresh), d.proof(other)),
		} {
			wantProofError(t, name, w, "invalid_grant")
		}
		wantProofError(t, "no proof at all in the header", d.prove(refreshForm(id, refresh), ""), "invalid_dpop_proof")
		d.wantState(h, approval.Live, generation, "")
	}
	stolen(first, 1)
	proof := d.proof(held)
	w = d.prove(refreshForm(id, first), proof)
	if w.Code != http.StatusOK {
		t.Fatalf("refresh: %d %s", w.Code, w.Body)
	}
	second := readTokens(t, w).Refresh
	stolen(first, 2)
	stolen(second, 2)
	wantProofError(t, "a proof that was used before, with the next token", d.prove(refreshForm(id, second), proof), "invalid_dpop_proof")
	wantProofError(t, "the whole request once more", d.prove(refreshForm(id, first), proof), "invalid_dpop_proof")
	d.wantState(h, approval.Live, 2, "")

	// Who has the key and a used token is its client, or has all that it had.
	wantProofError(t, "a used token with its key", d.prove(refreshForm(id, first), d.proof(held)), "invalid_grant")
	d.wantState(h, approval.Ended, 2, approval.RefreshReused)
}

// What was sent is refused for what it is, uses nothing up, and no answer repeats it.
func TestProofsThatAreNone(t *testing.T) {
	d, held := open(t), newHolder(t)
	id, h, refresh := d.bound(held)
	plainID, plainHandle, _, plain := d.live()
	changed := func(name string, value any) string {
		c := held.claims(d.Store.Now(), d.nonce())
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return held.sign(c)
	}
	good, stranger := d.proof(held), d.proof(newHolder(t))
	for name, proofs := range map[string][]string{
		"a word":                  {"proof"},
		"two headers":             {good, good},
		"two in one header":       {good + ", " + good},
		"cut":                     {good[:len(good)-8]},
		"9 KiB":                   {good + strings.Repeat("A", 9<<10)},
		"of another host here":    {changed("htu", otherBase+"/oauth/token")},
		"of another endpoint":     {changed("htu", base+"/oauth/revoke")},
		"of another method":       {changed("htm", "GET")},
		"of last week":            {changed("iat", d.Store.Now().Unix()-7*86400)},
		"without jti":             {changed("jti", nil)},
		"signed by another":       {good[:strings.LastIndex(good, ".")] + stranger[strings.LastIndex(stranger, "."):]},
		"with a nonce as a list":  {changed("nonce", []string{"a"})},
		"an access token instead": {d.ring.Access(h, 1, d.Store.Now().Unix()+60)},
	} {
		w := d.prove(refreshForm(id, refresh), proofs...)
		wantProofError(t, name, w, "invalid_dpop_proof")
		for _, p := range proofs {
			if len(p) > 12 && strings.Contains(w.Body.String()+d.log.String(), p[:12]) {
				t.Errorf("%s: it was repeated", name)
			}
		}
		wantProofError(t, name+", for an approval of no key", d.prove(refreshForm(plainID, plain), proofs...), "invalid_dpop_proof")
	}
	d.wantState(h, approval.Live, 1, "")
	d.wantState(plainHandle, approval.Live, 1, "")
	if w := d.prove(refreshForm(id, refresh), good); w.Code != http.StatusOK {
		t.Errorf("then the right one: %d %s", w.Code, w.Body)
	}

	// A proof for an approval of no key binds nothing (decision T15).
	w := d.prove(refreshForm(plainID, plain), d.proof(held))
	if w.Code != http.StatusOK {
		t.Fatalf("an approval of no key, with a proof: %d %s", w.Code, w.Body)
	}
	if w = d.post("/oauth/token", refreshForm(plainID, readTokens(t, w).Refresh)); w.Code != http.StatusOK || w.Header().Get("DPoP-Nonce") != "" {
		t.Errorf("then without one: %d %s, %v", w.Code, w.Body, w.Header())
	}
	// Revocation takes none, and looks at none.
	if w := d.send(request("POST", "/oauth/revoke", revokeForm(id, refresh).Encode(), "DPoP", "x")); w.Code != http.StatusOK || w.Header().Get("DPoP-Nonce") != "" {
		t.Errorf("revocation: %d, %v", w.Code, w.Header())
	}
	d.wantState(h, approval.Ended, 2, approval.RevokedByClient)
}

// Decision T16: an answer to a proof has a new nonce, also where it was refused before the proof
// was looked at.
func TestNonceOfEveryAnswer(t *testing.T) {
	d, held := open(t), newHolder(t)
	id := d.registered()
	_, code := d.approved(id)
	right := exchangeForm(id, code)
	for name, change := range map[string]func(url.Values){
		"unsupported grant_type": func(f url.Values) { f.Set("grant_type", "password") },
		"no grant_type":          func(f url.Values) { f.Del("grant_type") },
		"a secret":               func(f url.Values) { f.Set("client_secret", "x") },
		"a parameter twice":      func(f url.Values) { f.Add("code", "x") },
		"unknown client":         func(f url.Values) { f.Set("client_id", "nobody") },
		"another scope":          func(f url.Values) { f.Set("scope", "x") },
		"another resource":       func(f url.Values) { f.Set("resource", "https://elsewhere.example") },
		"no verifier":            func(f url.Values) { f.Del("code_verifier") },
		"no code of ours":        func(f url.Values) { f.Set("code", "x") },
	} {
		form := url.Values{}
		for k, v := range right {
			form[k] = slices.Clone(v)
		}
		change(form)
		if w := d.prove(form, d.proof(held)); w.Code < 400 || w.Header().Get("DPoP-Nonce") == "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if w := d.post("/oauth/token", form); w.Header().Get("DPoP-Nonce") != "" {
			t.Errorf("%s, without a proof: %v", name, w.Header())
		}
	}
}

// Decision T16: a nonce is good for five minutes, of whatever key it is, and no other text is one.
func TestNoncesOfProofs(t *testing.T) {
	d, held := open(t), newHolder(t)
	id, h, refresh := d.bound(held)
	nonce := d.nonce()
	try := func(what, nonce, want string) {
		t.Helper()
		w := d.prove(refreshForm(id, refresh), held.sign(held.claims(d.Store.Now(), nonce)))
		if want != "" {
			wantProofError(t, what, w, want)
			return
		}
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", what, w.Code, w.Body)
		}
		refresh = readTokens(t, w).Refresh
	}
	d.clock.sleep(nonceLifetime - time.Second)
	try("a nonce of 4 minutes 59", nonce, "")
	d.clock.sleep(time.Second)
	try("a nonce of 5 minutes", nonce, "use_dpop_nonce")
	try("no nonce", "", "use_dpop_nonce")
	try("another text", "nonce", "use_dpop_nonce")
	try("a nonce of a node that is a little ahead", d.ring.Nonce(d.Store.Now().Add(nonceSlack)), "")
	try("a nonce from the future", d.ring.Nonce(d.Store.Now().Add(nonceSlack+time.Second)), "use_dpop_nonce")
	// A client whose clock is hours off is served: the nonce says when the proof was made.
	claims := held.claims(d.Store.Now().Add(-7*time.Hour), d.nonce())
	w := d.prove(refreshForm(id, refresh), held.sign(claims))
	if w.Code != http.StatusOK {
		t.Fatalf("a clock that is hours off: %d %s", w.Code, w.Body)
	}
	refresh = readTokens(t, w).Refresh
	nonce = d.nonce() // of key 2
	if err := d.ring.Seal(1); err != nil {
		t.Fatal(err)
	}
	try("a nonce of before a rotation", nonce, "")
	nonce = d.nonce() // of key 1
	if err := d.ring.Seal(2); err != nil {
		t.Fatal(err)
	}
	try("a nonce of now", d.nonce(), "") // the refresh token is of key 2 again
	if err := d.ring.Drop(1); err != nil {
		t.Fatal(err)
	}
	try("a nonce of a retired key", nonce, "use_dpop_nonce")
	d.wantPhase(h, approval.Live)
}

func (d *door) wantPhase(h token.Handle, phase approval.Phase) {
	d.t.Helper()
	if got := d.state(h); got.Phase != phase {
		d.t.Errorf("approval in phase %d, want %d", got.Phase, phase)
	}
}

// Scripts may send a proof to the token endpoint and read the nonce of its answer; all
// else of CORS is as it was.
func TestProofsOfScripts(t *testing.T) {
	d := open(t)
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/register", "/.well-known/oauth-authorization-server", "/.well-known/x"} {
		w := d.send(request("OPTIONS", path, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "dpop"))
		at := path == "/oauth/token"
		if got := strings.HasSuffix(w.Header().Get("Access-Control-Allow-Headers"), ", DPoP"); w.Code != http.StatusNoContent || got != at {
			t.Errorf("%s allows %q", path, w.Header().Get("Access-Control-Allow-Headers"))
		}
		w = d.send(request("POST", path, "", "Origin", "https://app.example"))
		if got := strings.HasSuffix(w.Header().Get("Access-Control-Expose-Headers"), ", DPoP-Nonce"); got != at || !strings.HasPrefix(w.Header().Get("Access-Control-Expose-Headers"), exposedHeaders[0]) {
			t.Errorf("%s exposes %q", path, w.Header().Get("Access-Control-Expose-Headers"))
		}
	}
}

// What attempts say of proofs. That a refresh is asked for a nonce says nothing.
func TestAttemptsWithProofs(t *testing.T) {
	d, held := open(t), newHolder(t)
	var seen []string
	d.Server.Seen = func(_ *http.Request, o attempt.Observation) {
		seen = append(seen, fmt.Sprint(o.Step, " ", o.Reason))
	}
	d.handler = d.Handler()
	id := d.registered()
	_, code := d.approved(id)
	d.prove(exchangeForm(id, code), held.sign(held.claims(d.Store.Now(), "")))
	d.prove(exchangeForm(id, code), "x")
	refresh := readTokens(t, d.prove(exchangeForm(id, code), d.proof(held))).Refresh
	d.prove(refreshForm(id, refresh), held.sign(held.claims(d.Store.Now(), "")))
	d.post("/oauth/token", refreshForm(id, refresh))
	d.prove(refreshForm(id, refresh), "x")
	want := "Token dpop_nonce, Token dpop_proof, Token , Refresh dpop_key, Refresh dpop_proof"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}
