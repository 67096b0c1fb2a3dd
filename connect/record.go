package connect

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// A record is what is kept of one endpoint, for all assistants of a person on a machine.
type record struct {
	URL     string   `json:"url"`
	Server  server   `json:"server"`
	Access  string   `json:"access_token"`
	Expires int64    `json:"expires_at"` // of the access token, Unix seconds
	Refresh string   `json:"refresh_token"`
	Sent    bool     `json:"sent"`    // the refresh token was sent, and no answer to it is here
	Owed    []string `json:"owed"`    // refresh tokens that are still to be revoked, oldest first
	Ended   string   `json:"ended"`   // why there is no access any more, in words
	Who     string   `json:"who"`     // whose access it is, in words; "" where that is not known
	Opened  int64    `json:"opened"`  // when a browser was opened last, Unix seconds
	Pending *pending `json:"pending"` // nobody has answered yet
}

// A pending approval is kept as well: assistants start several copies of a server, and
// end some while the person is in the browser. Another one goes on waiting.
type pending struct {
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	Port     int    `json:"port"`
	Path     string `json:"path"`    // where the answer comes
	Start    string `json:"start"`   // below it, where the browser begins
	Cookie   string `json:"cookie"`  // of the browser that began there
	Started  bool   `json:"started"` // one has
	Sent     bool   `json:"sent"`    // the code was sent, and no answer to it is here
	Address  string `json:"address"` // of the server, where that browser goes
	Until    int64  `json:"until"`   // Unix seconds
}

// start is the address that is opened. Its cookie goes with the answer, below the same
// path, and back to it.
func (p pending) start() string {
	return "http://127.0.0.1:" + strconv.Itoa(p.Port) + "/" + p.Path + "/" + p.Start
}

// mostOwed bounds what is still to be revoked.
const mostOwed = 8

// lose takes the access out of a record. What may live on at the server is owed to it.
func (r *record) lose(why string, livesOn bool) {
	if livesOn && r.Refresh != "" {
		r.Owed = append(r.Owed, r.Refresh)
		r.Owed = r.Owed[max(0, len(r.Owed)-mostOwed):]
	}
	r.Access, r.Refresh, r.Expires, r.Sent, r.Who, r.Ended = "", "", 0, false, "", why
}

// A store keeps one record in a file, and two locks beside it: of the record, and of
// who waits for the person.
type store struct{ file string }

// storeFor gives the store for an endpoint, and makes its folder.
func storeFor(e endpoint, file string) (store, error) {
	if file == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return store{}, fault.CannotOpen("name a file: --store FILE", "there is no folder for settings: %v", err)
		}
		file = filepath.Join(dir, "grantkeeper", e.fileName())
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return store{}, fault.CannotOpen("name another file: --store FILE", "%v", err)
	}
	return store{file}, nil
}

// read gives the record; the zero one where there is none. One that others could have
// read or written is refused: it would be used as if it were this person's alone.
func (s store) read(e endpoint) (r record, err error) {
	if err := private(s.file); errors.Is(err, fs.ErrNotExist) {
		return record{URL: e.url}, nil
	} else if err != nil {
		return record{}, err
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return record{}, fault.CannotOpen("", "%v", err)
	}
	if err := strictjson.Into(text, &r); err != nil {
		return record{}, fault.CannotOpen("delete it, and approve again", "%s: %v", s.file, err)
	}
	if r.URL != e.url {
		return record{}, fault.CannotOpen("use another file for each server", "%s is of %s", s.file, r.URL)
	}
	return r, nil
}

// write puts a record in place of the one before, whole and on disk, or leaves that one.
func (s store) write(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fault.CannotOpen("", "%v", err)
	}
	if err := durable.Replace(s.file, 0o600, append(text, '\n')); err != nil {
		return fault.CannotOpen(fault.MendWriting(err)+": --store FILE", "%v", err)
	}
	return nil
}

// lock waits until no other program works with the record.
func (s store) lock(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, ok, err := tryLock(s.file + ".lock")
		if err != nil || ok {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fault.CannotOpen("end the other copy", "another copy of grantkeeper connect holds %s.lock", s.file)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lockWaiting is for who waits for the person: one program at a time. It does not wait.
func (s store) lockWaiting() (unlock func(), ok bool, err error) { return tryLock(s.file + ".waiting") }

// tryLock locks a file that is made where there is none, and stays. The lock ends with
// the program, however that ends.
func tryLock(name string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fault.CannotOpen(fault.MendWriting(err)+": --store FILE", "%v", err)
	}
	ok, err = lockFile(f)
	if err != nil || !ok {
		_ = f.Close()
		if err != nil {
			err = fault.CannotOpen("keep it on a file system with locks: --store FILE", "%s: %v", name, err)
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, true, nil
}
