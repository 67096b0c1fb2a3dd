package consent

import (
	"encoding/json"
	"time"
)

// Purposes of what pages and addresses carry sealed, and of what is stored so:
// one cannot stand in for another.
const (
	sealedPage    = "consent page"
	sealedReturn  = "return after sign-in"
	sealedChoices = "choices kept through sign-in"
	sealedEdit    = "edit page"
	sealedEdited  = "approval was edited"
	sealedDone    = "account was changed"
	sealedAttempt = "sign-in elsewhere"
	sealedForgot  = "return after a new password"
	sealedSecond  = "second step of a sign-in"
	sealedPasskey = "passkey"
	sealedOneTime = "secret of one-time codes"
)

// seal gives a value to travel through the browser, which can neither read nor
// change it.
func (s *Server) seal(purpose string, v any) string {
	plain, err := json.Marshal(v)
	if err != nil {
		panic(err) // of types that are written here
	}
	return s.Ring.SealPage(purpose, plain)
}

// open reads what seal gave, and nothing else.
func (s *Server) open(purpose, sealed string, v any) bool {
	plain, _, ok := s.Ring.OpenPage(purpose, sealed)
	return ok && json.Unmarshal(plain, v) == nil
}

// sealPath seals an address of this server, to lead back to: only what this
// server sealed is ever followed.
func (s *Server) sealPath(path string) string {
	if path == "" {
		return ""
	}
	return s.Ring.SealPage(sealedReturn, []byte(path))
}

// returnPath is where a person goes who has signed in: a path of this server
// that it sealed itself, so no link can lead elsewhere.
func (s *Server) returnPath(sealed string) string {
	if path, _, ok := s.Ring.OpenPage(sealedReturn, sealed); ok {
		return string(path)
	}
	return "/"
}

// doneFor is how long a page says what was just done, to whoever loads it
// again.
const doneFor = 5 * time.Minute

type doneNote struct {
	What, Person string
	At           int64 // Unix seconds
}

// sealDone notes in an address what the person has just done: the address of
// somebody else cannot claim it.
func (s *Server) sealDone(v *visit, purpose, what string) string {
	return s.seal(purpose, doneNote{what, v.person.ID, v.now.Unix()})
}

func (s *Server) justDone(v *visit, purpose, sealed string) string {
	var note doneNote
	if !s.open(purpose, sealed, &note) || note.Person != v.person.ID || v.now.Sub(time.Unix(note.At, 0)) >= doneFor {
		return ""
	}
	return note.What
}
