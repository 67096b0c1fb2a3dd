package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// SignatureHeader has the time and the signature of an event, as
// t=TIME,v1=SIGNATURE.
const SignatureHeader = "X-Grantkeeper-Signature"

// eventWindow is how far the time of a signature may be from ours: a recorded
// request is of no use after it.
const eventWindow = 5 * time.Minute

// eventAnswer says what an event came to.
type eventAnswer struct {
	ID     string `json:"id"`     // of the event
	Result string `json:"result"` // applied, unchanged or ignored
	Reason string `json:"reason,omitempty"`
}

// refusedEvent is an event that is not taken, and the word for it in the
// journal.
type refusedEvent struct {
	status      int
	reason      string
	description string
}

func (e *refusedEvent) Error() string { return e.reason + ": " + e.description }

// directoryEvent answers POST /v1/directory/events. 200 is for an event that
// need not be sent again.
func (s *Server) directoryEvent(w http.ResponseWriter, r *http.Request) {
	told, err := s.takeEvent(w, r)
	var refused *refusedEvent
	switch {
	case errors.As(err, &refused):
		s.API.Answer(w, &api.Fault{Status: refused.status, Code: refused.reason, Description: refused.description})
	case errors.Is(err, store.ErrUnavailable):
		w.Header().Set("Retry-After", "5")
		s.API.Answer(w, &api.Fault{Status: 503, Code: "temporarily_unavailable", Description: "The database cannot answer now. Send the event again."})
	case err != nil:
		fail(w, r, s.API, s.Log, err)
	default:
		answerJSON(w, told)
	}
}

// takeEvent checks the signature before anything of the event is read.
func (s *Server) takeEvent(w http.ResponseWriter, r *http.Request) (eventAnswer, error) {
	reference := w.Header().Get("X-Request-Id")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return eventAnswer{}, &refusedEvent{400, "invalid_event", fmt.Sprintf("The body is broken off, or has more than %d bytes.", maxBody)}
	}
	act := store.Act{Actor: "gateway", Address: s.Address(r).String(), Reference: reference}
	key, err := s.signedBy(r, body)
	if err != nil {
		s.journalUnsigned(r, act, err)
		return eventAnswer{}, err
	}
	act.Actor = "gateway:" + key.Name
	t, reason, err := readEvent(r, body)
	if err != nil {
		s.journalRefused(act, "invalid_event", t.ID)
		return eventAnswer{}, &refusedEvent{400, "invalid_event", "The event cannot be read: " + err.Error() + "."}
	}
	act.Reason = "event " + t.ID
	if reason != "" {
		act.Reason += ": " + reason
	}
	result, err := s.API.Store.TellDirectory(r.Context(), t, act)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.journalRefused(act, "unknown_object", err.Error())
		return eventAnswer{}, &refusedEvent{409, "unknown_object", "It refers to what is not there: " + err.Error() + ". Send that first, and this event again."}
	case errors.Is(err, store.ErrChanged):
		return eventAnswer{}, &refusedEvent{412, "directory_changed", "The directory is not as if_match wants it. Read it, decide again, and send another event."}
	case errors.Is(err, store.ErrConflict):
		s.journalRefused(act, "conflict", err.Error())
		return eventAnswer{}, &refusedEvent{409, "conflict", "It contradicts what is there: " + err.Error() + "."}
	case err != nil:
		return eventAnswer{}, err
	case result == store.ToldOld:
		return eventAnswer{t.ID, "ignored", "old_version"}, nil
	}
	return eventAnswer{ID: t.ID, Result: result}, nil
}

// signedBy gives the key that has signed the body, at a time that is near.
func (s *Server) signedBy(r *http.Request, body []byte) (Key, error) {
	unsigned := &refusedEvent{403, "signature_refused",
		"Sign the event in the header " + SignatureHeader + " with the key of a gateway that has the scope directory."}
	sent := r.Header.Values(SignatureHeader)
	if len(sent) != 1 {
		return Key{}, unsigned
	}
	t, signature, ok := strings.Cut(strings.TrimPrefix(sent[0], "t="), ",v1=")
	at, err := strconv.ParseInt(t, 10, 64)
	sum, hexErr := hex.DecodeString(signature)
	if !ok || err != nil || hexErr != nil || !strings.HasPrefix(sent[0], "t=") || strconv.FormatInt(at, 10) != t {
		return Key{}, unsigned
	}
	var by Key
	found := false
	for _, k := range s.Keys() {
		if hmac.Equal(sum, signEvent(k.Secret, t, body)) && slices.Contains(k.Scopes, Directory) {
			by, found = k, true
		}
	}
	if !found {
		return Key{}, unsigned
	}
	if away := s.API.Store.Now().Sub(time.Unix(at, 0)); away < -eventWindow || away > eventWindow {
		return Key{}, &refusedEvent{403, "signature_expired",
			fmt.Sprintf("The signature's time is more than %d minutes from this server's, which is %d.", int(eventWindow.Minutes()), s.API.Store.Now().Unix())}
	}
	return by, nil
}

// signEvent is the signature of an event: HMAC-SHA256 over a line with the word
// event, which nothing else begins with that this key signs, a line with the
// time, and the body.
func signEvent(secret, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("event\n" + t + "\n"))
	mac.Write(body)
	return mac.Sum(nil)
}

// journalUnsigned writes one entry for an address and minute: whoever reaches
// the listener must not fill the journal.
func (s *Server) journalUnsigned(r *http.Request, act store.Act, err error) {
	if first, _ := s.refused.Allow(s.Address(r), s.API.Store.Now()); !first {
		return
	}
	if refused, ok := errors.AsType[*refusedEvent](err); ok {
		s.journalRefused(act, refused.reason, "")
	}
}

func (s *Server) journalRefused(act store.Act, reason, detail string) {
	s.API.Store.Record(store.Event{
		Kind: journal.DirectoryRefused, Actor: act.Actor, Address: act.Address, Reference: act.Reference, Reason: reason,
		Detail: strings.TrimSpace(strings.TrimPrefix(act.Reason+" ", " ") + detail),
	})
}

// readEvent reads the body of an event.
func readEvent(r *http.Request, body []byte) (t store.DirectoryEvent, reason string, err error) {
	if !api.IsJSON(r.Header) {
		return t, "", errors.New("it needs Content-Type: application/json")
	}
	members, err := strictjson.Object(body, strictjson.Depth)
	if err != nil {
		return t, "", err
	}
	var kind string
	var object []byte
	var like *string
	for name, at := range map[string]any{"id": &t.ID, "version": &t.Version, "kind": &kind, "object": &object, "if_match": &like, "reason": &reason} {
		if err := take(members, name, at); err != nil {
			return t, "", err
		}
	}
	if err := none(members); err != nil {
		return t, "", err
	}
	if err := org.CheckID(t.ID); err != nil { // whatever it is stands in the journal
		t.ID = ""
		return t, "", fmt.Errorf("id: %w", err)
	}
	if err := org.CheckName(reason); reason != "" && err != nil { // it stands in the journal too
		return t, "", fmt.Errorf("reason: %w", err)
	}
	if like != nil {
		t.Like = func(p store.Picture) bool { _, tag := pictured(p); return tag == *like }
	}
	if next := t.Version == 0 && like != nil; !next && (t.Version < 1 || t.Version > maxVersion) {
		return t, "", fmt.Errorf("version: a whole number from 1 to %d", int64(maxVersion))
	}
	sum := sha256.Sum256(body)
	t.Digest = hex.EncodeToString(sum[:])
	if err := readTold(&t, kind, object); err != nil {
		return t, "", err
	}
	if t.Person != nil && like != nil {
		return t, "", errors.New("if_match: a person is not of one organization")
	}
	return t, reason, nil
}

// maxVersion is the greatest whole number that every reader of JSON reads
// exactly (RFC 8259 section 6).
const maxVersion = 1<<53 - 1
