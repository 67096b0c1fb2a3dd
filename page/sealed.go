package page

import (
	"encoding/json"
	"time"
)

// sealedReturn is the purpose of an address to come back to. What pages and
// addresses carry sealed, and what is stored so, has a purpose each: one cannot
// stand in for another.
const sealedReturn = "return after sign-in"

// Seal gives a value to travel through the browser, which can neither read nor
// change it.
func (s *Site) Seal(purpose string, v any) string {
	plain, err := json.Marshal(v)
	if err != nil {
		panic(err) // of types that are written here
	}
	return s.Ring.SealPage(purpose, plain)
}

// Open reads what seal gave, and nothing else.
func (s *Site) Open(purpose, sealed string, v any) bool {
	plain, _, ok := s.Ring.OpenPage(purpose, sealed)
	return ok && json.Unmarshal(plain, v) == nil
}

// MaxPath is how long a path may be that travels through sign-in in an address: bytes.
// Sealed it is a third longer, and all headers of a request have 32 KiB (decision
// L5). Without choices every path is shorter.
const MaxPath = 20 << 10

// SealPath seals an address of this server, to lead back to: only what this
// server sealed is ever followed.
func (s *Site) SealPath(path string) string {
	if path == "" {
		return ""
	}
	return s.Ring.SealPage(sealedReturn, []byte(path))
}

// ReturnPath is where a person goes who has signed in: a path of this server
// that it sealed itself, so no link can lead elsewhere.
func (s *Site) ReturnPath(sealed string) string {
	if path, _, ok := s.Ring.OpenPage(sealedReturn, sealed); ok {
		return string(path)
	}
	return "/"
}

// IsReturn reports whether SealPath gave this.
func (s *Site) IsReturn(sealed string) bool {
	_, _, ok := s.Ring.OpenPage(sealedReturn, sealed)
	return ok
}

// Returned gives what SealPath gave, and "" for whatever else a request brings in its
// place: no page repeats that.
func (s *Site) Returned(sealed string) string {
	if !s.IsReturn(sealed) {
		return ""
	}
	return sealed
}

// doneFor is how long a page says what was just done, to whoever loads it
// again.
const doneFor = 5 * time.Minute

type doneNote struct {
	What, Person string
	At           int64 // Unix seconds
}

// SealDone notes in an address what the person has just done: the address of
// somebody else cannot claim it.
func (s *Site) SealDone(v *Visit, purpose, what string) string {
	return s.Seal(purpose, doneNote{what, v.Person.ID, v.Now.Unix()})
}

// JustDone gives what SealDone noted, if that was just now and by this person.
func (s *Site) JustDone(v *Visit, purpose, sealed string) string {
	var note doneNote
	if !s.Open(purpose, sealed, &note) || note.Person != v.Person.ID || v.Now.Sub(time.Unix(note.At, 0)) >= doneFor {
		return ""
	}
	return note.What
}
