// Package refresh keeps a client's tokens for all of its goroutines: one refresh at a
// time, kept before anybody uses what it gave.
package refresh

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Source is an oauth2.TokenSource, for oauth2.NewClient.
type Source struct {
	Config *oauth2.Config
	Save   func(*oauth2.Token) error // durable when it returns

	mu    sync.Mutex
	token *oauth2.Token
}

// NewSource begins with the tokens that Config.Exchange gave, or that were saved last.
func NewSource(c *oauth2.Config, t *oauth2.Token, save func(*oauth2.Token) error) *Source {
	return &Source{Config: c, Save: save, token: t}
}

// Token gives an access token that is good. An oauth2.RetrieveError with the code
// invalid_grant says that the person has to approve again.
func (s *Source) Token() (*oauth2.Token, error) {
	s.mu.Lock() // whoever waits here gets what this one was given
	defer s.mu.Unlock()
	if s.token.Valid() {
		return s.token, nil
	}
	for {
		next, err := s.Config.TokenSource(context.Background(), &oauth2.Token{RefreshToken: s.token.RefreshToken}).Token()
		if wait, busy := busy(err); busy {
			time.Sleep(wait)
			continue
		}
		if err != nil {
			return nil, err
		}
		s.token = next
		return next, s.Save(next)
	}
}

// busy says for how long a server that is busy wants to be left alone. It has not looked
// at the refresh token, which can be sent again. Of an answer that was lost nobody knows.
func busy(err error) (time.Duration, bool) {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return 0, false
	}
	code := refused.Response.StatusCode
	if code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		return 0, false
	}
	seconds, err := strconv.Atoi(refused.Response.Header.Get("Retry-After"))
	if err != nil {
		seconds = 5
	}
	return time.Duration(seconds) * time.Second, true
}
