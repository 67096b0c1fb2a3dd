package devserver

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

// A watched client is one that somebody writes: its latest attempt to connect, or the one
// that was picked, step by step, and those before it. Others wrote all names.
type watched struct {
	Find    string // client ID, name, host or address, as sent
	One     *operator.WholeAttempt
	Began   string
	Earlier []earlierAttempt
}

type earlierAttempt struct {
	operator.Attempt
	Began, Path string
}

// earlierShown is how many attempts stand below the one that is shown.
const earlierShown = 20

func watchPath(find, id string) string {
	return server.DevPath + "?" + url.Values{"watch": {find}, "attempt": {id}}.Encode()
}

// watch is GET /dev/client?watch=...&attempt=...: what the server has seen of a client.
func (d *devClient) watch(w http.ResponseWriter, r *http.Request, q url.Values) {
	p := devPage{Watch: &watched{Find: strings.TrimSpace(q.Get("watch"))}}
	switch err := d.fillWatched(r, p.Watch, q.Get("attempt")); {
	case errors.Is(err, store.ErrNotFound):
		p.Fault = "There is no such attempt. They are kept for 7 days."
	case err != nil:
		d.log.Error("attempts", "route", server.DevPath, "err", err)
		p.Fault = "Attempts cannot be read now."
	}
	d.show(w, r, p)
}

func (d *devClient) fillWatched(r *http.Request, view *watched, id string) error {
	if len(view.Find) > store.MaxFoundLen {
		return store.ErrNotFound
	}
	all := d.pages.Store
	rows, _, err := all.Attempts(r.Context(), store.AttemptFilter{Find: view.Find, Limit: earlierShown + 1})
	if err != nil {
		return err
	}
	began := func(a operator.Attempt) string { return time.Unix(a.Began, 0).UTC().Format("2 Jan 15:04:05 UTC") }
	if id == "" && len(rows) > 0 {
		id = rows[0].ID
	}
	for _, row := range rows {
		if a := operator.NewAttempt(row, all.Now()); a.ID != id {
			view.Earlier = append(view.Earlier, earlierAttempt{a, began(a), watchPath(view.Find, a.ID)})
		}
	}
	if id == "" {
		return nil
	}
	one, err := all.Attempt(r.Context(), id)
	if err != nil {
		return err
	}
	whole, err := operator.ReadAttempt(r.Context(), all, one)
	view.One, view.Began = &whole, began(whole.Attempt)
	return err
}
