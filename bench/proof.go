package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// A holder is the key that the clients of a stock hold, and what every proof of it begins
// with (RFC 9449). Its algorithm is the one that most clients have.
type holder struct {
	key        *ecdsa.PrivateKey
	header     string   // in base64url
	thumbprint [32]byte // RFC 7638
	proofs     int      // that are signed before they are sent, for all connections together
}

func newHolder(proofs int) (*holder, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes() // SEC 1: 4, x, y
	if err != nil {
		return nil, err
	}
	jwk := `{"crv":"P-256","kty":"EC","x":"` + base64.RawURLEncoding.EncodeToString(public[1:33]) + `","y":"` + base64.RawURLEncoding.EncodeToString(public[33:]) + `"}`
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":` + jwk + `}`))
	return &holder{key: key, header: header, thumbprint: sha256.Sum256([]byte(jwk)), proofs: proofs}, nil
}

// sign gives so many proofs for the token endpoint, with a nonce, each with a jti that no
// other has. They are signed beforehand: what is measured is what they cost the server.
func (h *holder) sign(n int, nonce string) ([][]byte, error) {
	var id [12]byte
	rand.Read(id[:])
	common := `","htm":"POST","htu":"` + issuer + `/oauth/token","iat":` + strconv.FormatInt(time.Now().Unix(), 10) + `,"nonce":"` + nonce + `"}`
	all := make([][]byte, n)
	for i := range all {
		payload := `{"jti":"` + base64.RawURLEncoding.EncodeToString(id[:]) + strconv.Itoa(i) + common
		text := []byte(h.header + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)))
		sum := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, h.key, sum[:])
		if err != nil {
			return nil, err
		}
		signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		all[i] = base64.RawURLEncoding.AppendEncode(append(text, '.'), signature)
	}
	return all, nil
}

// half gives a player every other approval of the stock: that of the clients without a key,
// or with one.
func half(of playing, held bool) playing {
	return func(s *stock, connection, connections int) player {
		at := 0
		if held {
			at = 1
		}
		if s.halves[at] == nil {
			part := *s
			for i := range s.approvals {
				if isHeld(i) == held {
					part.chosen = append(part.chosen, i)
				}
			}
			s.halves[at] = &part
		}
		return of(s.halves[at], connection, connections)
	}
}

// isHeld reports whether the client of an approval holds a key.
func isHeld(number int) bool { return number%2 == 1 }

// proved gives a player's requests a proof each, of its share of those that are signed.
func proved(of playing) playing {
	return half(func(s *stock, connection, connections int) player {
		p := of(s, connection, connections).(*spends)
		var err error
		if p.proofs, err = s.holder.sign(s.holder.proofs/connections, s.ring.Nonce(time.Now())); err != nil {
			panic(err) // a key of its own signs
		}
		return p
	}, true)
}
