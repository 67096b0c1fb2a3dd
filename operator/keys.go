package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// keyObject is one secret key as the database knows it (decision T11).
type keyObject struct {
	ID        string `json:"id"` // its number
	Number    int    `json:"number"`
	State     string `json:"state"`     // seals, opens or retired
	Approvals int    `json:"approvals"` // whose current refresh token it sealed
}

func (s *Server) listKeys(ctx context.Context) ([]keyObject, error) {
	keys, err := s.Store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	out := []keyObject{}
	for _, k := range keys {
		o := keyObject{ID: strconv.Itoa(k.Number), Number: k.Number, State: "opens", Approvals: k.Approvals}
		if k.Seals {
			o.State = "seals"
		} else if k.Retired {
			o.State = "retired"
		}
		out = append(out, o)
	}
	return out, nil
}

func (s *Server) keys(c Call) (any, error) {
	keys, err := s.listKeys(c.Context())
	return listPage[keyObject]{keys, ""}, err
}

func (s *Server) oneKey(ctx context.Context, number int) (keyObject, error) {
	keys, err := s.listKeys(ctx)
	if err != nil {
		return keyObject{}, err
	}
	at := slices.IndexFunc(keys, func(k keyObject) bool { return k.Number == number })
	if at < 0 {
		return keyObject{}, NotFound("key")
	}
	return keys[at], nil
}

type keysAdded struct {
	ID    string `json:"id"`    // always "keys"
	Added []int  `json:"added"` // numbers of the added keys, which open from now on
}

// reloadKeys adds the keys of the key file that this process does not have.
func (s *Server) reloadKeys(c Call, body reasonBody) (any, error) {
	var keys []*token.Key
	if s.ReadKeys != nil {
		var err error
		if keys, err = s.ReadKeys(); err != nil {
			return nil, &Error{http.StatusConflict, "key_file", err.Error()}
		}
	}
	added, err := s.Store.AddKeys(c.Context(), keys, c.Act(body.Reason))
	if errors.Is(err, store.ErrKeys) {
		return nil, &Error{http.StatusConflict, "key_file", "the key file has another key under a number that the database knows: " + err.Error()}
	}
	return keysAdded{"keys", append([]int{}, added...)}, err
}

// rotateKeys makes the newest key the one that seals.
func (s *Server) rotateKeys(c Call, body reasonBody) (any, error) {
	newest, err := s.Store.RotateKeys(c.Context(), c.Act(body.Reason), s.inFile)
	if errors.Is(err, store.ErrNotAllowed) {
		return nil, &Error{http.StatusConflict, "key_missing", err.Error() + "; copy the key file there and send SIGHUP"}
	} else if err != nil {
		return nil, err
	}
	return s.oneKey(c.Context(), newest)
}

// inFile refuses a key that is not in the key file as it is now: the next start would be
// refused without it.
func (s *Server) inFile(want *token.Key) error {
	if s.ReadKeys == nil {
		return nil
	}
	keys, err := s.ReadKeys()
	if err != nil {
		return &Error{http.StatusConflict, "key_file", err.Error()}
	}
	if len(keys) > 0 && !slices.ContainsFunc(keys, func(k *token.Key) bool { return k.Number == want.Number && k.Fingerprint() == want.Fingerprint() }) {
		return &Error{http.StatusConflict, "key_file", fmt.Sprintf("key %d is not in the key file, and the server could not start again once it seals: bring it back into the file, or add another one", want.Number)}
	}
	return nil
}

type keyRetired struct {
	keyObject
	Ended int `json:"ended"` // approvals
}

// retireKey ends the approvals whose current refresh token a key sealed. It
// has no time limit.
func (s *Server) retireKey(c Call, body reasonBody) (any, error) {
	number, err := strconv.Atoi(c.PathValue("id"))
	if err != nil {
		return nil, NotFound("key")
	}
	ended, err := s.Store.RetireKey(c.Context(), number, c.Act(body.Reason))
	if errors.Is(err, store.ErrNotAllowed) {
		return nil, &Error{http.StatusConflict, "key_seals", "this key seals: rotate to another one first"}
	} else if err != nil {
		return nil, err
	}
	k, err := s.oneKey(c.Context(), number)
	return keyRetired{k, ended}, err
}
