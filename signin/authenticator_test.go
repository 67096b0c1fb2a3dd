package signin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/webauthn"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// An authenticator is a passkey device in a few lines, where no browser is
// needed: the answers of real ones are in the tests with Chromium.
type authenticator struct {
	key   *ecdsa.PrivateKey
	count byte
}

// withPasskey gives a person a passkey for the site's host.
func withPasskey(t *testing.T, s *site, person string) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	cose := append([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, point[1:33]...) // RFC 9053 section 7.1.1
	cose = append(append(cose, 0x22, 0x58, 32), point[33:]...)
	text, err := json.Marshal(webauthn.Credential{ID: []byte("a passkey"), PublicKey: cose, Flags: webauthn.CredentialFlags{UserPresent: true}})
	if err != nil {
		t.Fatal(err)
	}
	s.Do(s.Store.AddFactors(t.Context(), person, "", []store.Factor{{ID: "passkey-1", Kind: store.FactorPasskey, Name: "app.svalinn.example", Secret: string(text)}}, store.Act{}))
	return &authenticator{key: key}
}

// answer is what the device says to a page that asks for it.
func (a *authenticator) answer(p *pagetest.Shown) string {
	p.T.Helper()
	var asked struct{ Challenge string }
	for _, f := range p.All(atom.Form) {
		if pagetest.Attr(f, "data-passkey") == "get" {
			p.B.Site.Do(json.Unmarshal([]byte(pagetest.Attr(f, "data-options")), &asked))
		}
	}
	said, err := json.Marshal(map[string]string{"type": "webauthn.get", "challenge": asked.Challenge, "origin": p.B.Site.At})
	p.B.Site.Do(err)
	host := sha256.Sum256([]byte("app.svalinn.example"))
	a.count++
	data := append(host[:], 0x05, 0, 0, 0, a.count) // present and verified
	saidSum := sha256.Sum256(said)
	signed := sha256.Sum256(append(data[:len(data):len(data)], saidSum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	p.B.Site.Do(err)
	b64 := base64.RawURLEncoding.EncodeToString
	id := b64([]byte("a passkey"))
	text, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key", "response": map[string]string{
		"clientDataJSON": b64(said), "authenticatorData": b64(data), "signature": b64(signature)}})
	p.B.Site.Do(err)
	return string(text)
}

// What a browser says of a passkey is read once by us and once by the library:
// members that one of them could take otherwise are refused.
func TestPasskeysReadTwoWays(t *testing.T) {
	s := newSite(t)
	device := withPasskey(t, s, "ada")
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	for _, add := range []string{`{"id":"YSBwYXNza2V5",`, `{"Id":"YSBwYXNza2V5",`, `{"x":{"a":1,"a":2},`} {
		p.Press("/signin/second", "passkey", strings.Replace(device.answer(p), "{", add, 1)).Want(422)
	}
	p.Press("/signin/second", "passkey", device.answer(p)+"{}").Want(422)
	p.Press("/signin/second", "passkey", strings.Replace(device.answer(p), "{", `{"x":{"a":1},`, 1)).Want(303)
}
