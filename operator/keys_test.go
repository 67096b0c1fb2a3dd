package operator

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// A key opens, seals and retires, in this order (decision T11).
func TestKeys(t *testing.T) {
	o := newOffice(t)
	o.ReadKeys = func() ([]*token.Key, error) {
		return []*token.Key{token.NewKey(1, [32]byte{1}), token.NewKey(2, [32]byte{2})}, nil
	}
	states := func() string {
		var all []string
		for _, k := range o.want(200, "GET", "/v1/keys", "")["items"].([]any) {
			all = append(all, fmt.Sprint(k.(map[string]any)["number"], " ", k.(map[string]any)["state"]))
		}
		return strings.Join(all, ", ")
	}
	if got := o.want(200, "POST", "/v1/keys/reload", ""); fmt.Sprint(got["added"]) != "[2]" || states() != "1 seals, 2 opens" {
		t.Errorf("reload: %v, then %s", got, states())
	}
	if got := o.want(409, "POST", "/v1/keys/1/retire", ""); got["error"] != "key_seals" {
		t.Errorf("the key that seals: %v", got)
	}
	if got := o.want(200, "POST", "/v1/keys/rotate", ""); got["number"] != 2.0 || states() != "1 opens, 2 seals" {
		t.Errorf("rotate: %v, then %s", got, states())
	}
	if got := o.want(200, "POST", "/v1/keys/1/retire", ""); got["state"] != "retired" || got["ended"] != 0.0 || states() != "1 retired, 2 seals" {
		t.Errorf("retire: %v, then %s", got, states())
	}
	o.want(404, "POST", "/v1/keys/9/retire", "")
	o.want(404, "POST", "/v1/keys/x/retire", "")
}

// What is to seal is in the key file as it is now: else the next start would be refused.
func TestRotateNeedsTheKeyFile(t *testing.T) {
	o := newOffice(t)
	first, second := token.NewKey(1, [32]byte{1}), token.NewKey(2, [32]byte{2})
	file, broken := []*token.Key{first, second}, error(nil)
	o.ReadKeys = func() ([]*token.Key, error) { return file, broken }
	o.want(200, "POST", "/v1/keys/reload", "")
	for _, tt := range []struct {
		name string
		file []*token.Key
		err  error
	}{
		{"without it", []*token.Key{first}, nil},
		{"another under its number", []*token.Key{first, token.NewKey(2, [32]byte{3})}, nil},
		{"cannot be read", nil, errors.New("is gone")},
	} {
		file, broken = tt.file, tt.err
		if got := o.want(409, "POST", "/v1/keys/rotate", ""); got["error"] != "key_file" {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got := o.want(200, "GET", "/v1/keys", "")["items"].([]any); got[0].(map[string]any)["state"] != "seals" {
			t.Errorf("%s: then %v", tt.name, got)
		}
	}
	file, broken = []*token.Key{first, second}, nil
	if got := o.want(200, "POST", "/v1/keys/rotate", ""); got["number"] != 2.0 {
		t.Errorf("with it again: %v", got)
	}
}

// unhurried is an answer that sees whether its deadline is taken away.
type unhurried struct {
	*httptest.ResponseRecorder
	freed bool
}

func (w *unhurried) SetWriteDeadline(at time.Time) error {
	w.freed = at.IsZero()
	return nil
}

// What reads the whole database, and any change, may take longer than an answer may.
func TestPatient(t *testing.T) {
	o := newOffice(t)
	for call, want := range map[string]bool{
		"GET /v1/backup": true, "POST /v1/restored": true, "POST /v1/keys/9/retire": true, "POST /v1/directory": true,
		"POST /v1/approvals/revoke": true, "POST /v1/clients/delete": true, "POST /v1/gc": true, "GET /v1/status": false,
	} {
		method, path, _ := strings.Cut(call, " ")
		r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, nil)
		r.SetBasicAuth(User, password)
		w := &unhurried{ResponseRecorder: httptest.NewRecorder()}
		if o.handler.ServeHTTP(w, r); w.freed != want {
			t.Errorf("%s: without a deadline %t, want %t", call, w.freed, want)
		}
	}
}

// Only a cursor can be one that this list did not make.
func TestCursorFault(t *testing.T) {
	if err := (Filter{After: "x"}).CursorError(store.ErrNotFound); errors.Is(err, store.ErrNotFound) {
		t.Errorf("with a cursor: %v", err)
	}
	if err := (Filter{}).CursorError(store.ErrNotFound); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without one: %v", err)
	}
}
