// Command handoff is a service with accounts of its own, as far as the
// hand-off needs one: it tells Grantkeeper who is signed in here.
//
//	openssl genpkey -algorithm ed25519 -out handoff.pem
//	openssl pkey -in handoff.pem -pubout -out handoff.pub
//	go run ./docs/examples/handoff handoff.pem http://127.0.0.1:8080 127.0.0.1:9000
package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// A service says who is signed in.
type service struct {
	grantkeeper string // {base}
	key         ed25519.PrivateKey
}

// handOff is where Grantkeeper sends the browser, with a challenge.
func (s service) handOff(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	person, since, ok := signedIn(r)
	if !ok || asked.Has("switch") { // nobody is signed in, or another account is wanted
		asked.Del("switch") // and back here afterwards, with the challenge
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.Path+"?"+asked.Encode()), http.StatusSeeOther)
		return
	}
	assertion, err := identity.Assertion{
		Audience:  s.grantkeeper,
		Challenge: asked.Get("challenge"), // as it came
		Person:    person,
		AuthTime:  since,
	}.SignEd25519(s.key, time.Now())
	if err != nil {
		http.Error(w, "cannot sign", http.StatusInternalServerError)
		return
	}
	// To a place that is configured, never to one that the request names.
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, s.grantkeeper+"/signin/callback/handoff?assertion="+assertion, http.StatusSeeOther)
}

// signedIn stands for the session of a real service: its own cookie, held
// against its own database.
func signedIn(r *http.Request) (person string, since time.Time, ok bool) {
	c, err := r.Cookie("service")
	return "ada@nordlys.example", time.Now(), err == nil && c.Value == "session-of-ada"
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: handoff KEY.pem BASE LISTEN")
	}
	key, err := readKey(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /grantkeeper", service{os.Args[2], key}.handOff)
	log.Fatal(http.ListenAndServe(os.Args[3], nil))
}

func readKey(file string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if private, ok := key.(ed25519.PrivateKey); err == nil && ok {
		return private, nil
	}
	return nil, errors.New("not an Ed25519 key")
}
