package oauth

import (
	"encoding/binary"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// nonceLifetime is how long a nonce is good: a proof cannot be older, so it is also how
// long the store remembers one that was used.
const nonceLifetime = 5 * time.Minute

// nonceSlack is how far the clocks of nodes may be apart (decision T12).
const nonceSlack = time.Minute

// The error codes of RFC 9449.
const (
	invalidProof = "invalid_dpop_proof" // section 5
	useNonce     = "use_dpop_nonce"     // section 8
)

// proofOf reads the proof of the client's key that came with a token request; without
// one it is that of none.
func (s *Server) proofOf(c call) (p store.Proof, err error) {
	sent, any := c.Header["Dpop"]
	if !any {
		return p, nil
	}
	now := s.Store.Now()
	u, err := s.holders.Read(sent, c.Method, s.Base(c.Request)+c.URL.Path)
	if err != nil {
		return p, refuse(http.StatusBadRequest, invalidProof, err.Error())
	}
	// Before the signature, which takes a hundred times as long to look at: what is said
	// here anybody may know.
	made, ok := s.Ring.ReadNonce(u.Nonce())
	if age := now.Sub(made); !ok || age < -nonceSlack || age >= nonceLifetime {
		return p, refuse(http.StatusBadRequest, useNonce, "send a proof with the nonce of the header DPoP-Nonce")
	}
	proof, err := u.Prove(now)
	if err != nil {
		return p, refuse(http.StatusBadRequest, invalidProof, err.Error())
	}
	p = store.Proof{Key: proof.Key, ID: proof.ID, Until: made.Add(nonceLifetime + nonceSlack).Unix()}
	// Those of one time lie together in the database: a group of moves writes one page of
	// them, and not one for each. The time is that of the nonce, which a proof has one of.
	binary.BigEndian.PutUint64(p.ID[:], uint64(p.Until))
	return p, nil
}
