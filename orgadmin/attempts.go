package orgadmin

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	attemptsShown = 25  // on one page
	maxFind       = 200 // of what somebody looks for: bytes
)

// attemptResults are what the list can be cut to.
var attemptResults = []attempt.Result{attempt.Broken, attempt.LeftOff, attempt.Worked, attempt.Open}

// An attemptsPage lists how apps tried to connect to an organization, and why it did not
// work. Only attempts are on it in which a person chose this organization, or that its
// rules ended. Addresses of machines are not.
type attemptsPage struct {
	adminHead
	Find        string
	Only        attempt.Result // "" is all
	Filtered    bool
	Kept        bool // attempts are
	Attempts    []attemptRow
	First, Next string // paths
}

// An attemptRow is one of them. App and Person are not ours.
type attemptRow struct {
	App    page.App
	Person string // name, of a member; empty for everybody else
	Began  page.Moment
	Step   int
	Result attempt.Result
	Reason attempt.Reason // empty where nothing was wrong
	Why    page.Said      // what has happened, what to do about it, and who can
}

// wordsOf gives the message for a reason: one for all of which an admin does the same.
// The words of single reasons are for whoever writes the app, and in the documents.
func wordsOf(r attempt.Reason) string {
	switch r {
	case attempt.OrganizationBlocks:
		return "attempts.blocks"
	case attempt.OrganizationAsks:
		return "attempts.asks"
	case attempt.ApprovalEnded:
		return "attempts.over"
	case attempt.CodeReused, attempt.RefreshReused, attempt.RefreshRace:
		return "attempts.reused"
	case attempt.RateLimited:
		return "attempts.limited"
	}
	switch c := attempt.CauseOf(r); {
	case c.Result == attempt.LeftOff:
		return "attempts.left"
	case c.Who == attempt.Operator:
		return "attempts.operator"
	}
	return "attempts.app"
}

// attempts is GET .../ai-integration/attempts.
func (s *Server) attempts(v *page.Visit, o org.Organization) error {
	h, err := s.adminHead(v, o, "attempts", "attempts.title")
	if err != nil {
		return err
	}
	q := v.R.URL.Query()
	view := &attemptsPage{adminHead: h, Find: strings.TrimSpace(q.Get("find")), Kept: s.Store.KeepsAttempts()}
	if only := attempt.Result(q.Get("result")); slices.Contains(attemptResults, only) {
		view.Only = only
	}
	view.Filtered = view.Find != "" || view.Only != ""
	if len(view.Find) > maxFind {
		return page.ErrBadForm
	}
	f := store.AttemptFilter{Organization: o.ID, App: view.Find, Result: view.Only, After: q.Get("after"), Limit: attemptsShown}
	rows, next, err := s.Store.Attempts(v.R.Context(), f)
	if err != nil {
		return cursorFault(err)
	}
	for _, r := range rows {
		one, err := s.attemptRow(v, o, r)
		if err != nil {
			return err
		}
		view.Attempts = append(view.Attempts, one)
	}
	at := func(after string) string {
		return page.WithQuery(h.Path+"/attempts", "find", view.Find, "result", string(view.Only), "after", after)
	}
	if f.After != "" {
		view.First = at("")
	}
	if next != "" {
		view.Next = at(next)
	}
	return s.Show(v, http.StatusOK, attemptsTemplate, view)
}

// attemptRow reads one as it stands now.
func (s *Server) attemptRow(v *page.Visit, o org.Organization, r attempt.Record) (attemptRow, error) {
	t := attempt.ReadAt(r, v.Now.UnixMilli())
	one := attemptRow{App: page.AppOf("", r.Name, "https://"+r.Host+"/", false), Began: page.At(r.Began()/1000, v.Now), Step: int(t.Reached), Result: t.Result, Reason: t.Reason}
	if one.Reason != "" {
		one.Why = v.Words.Say(wordsOf(one.Reason))
	}
	if c, err := s.Store.Client(v.R.Context(), r.Client); err == nil {
		one.App.Known = c.Preregistered
	} else if !errors.Is(err, store.ErrNotFound) {
		return one, page.Wrap("client", err)
	}
	switch _, err := s.Store.Member(v.R.Context(), r.Person, o.ID); {
	case errors.Is(err, store.ErrNotFound):
		return one, nil
	case err != nil:
		return one, page.Wrap("member", err)
	}
	var err error
	one.Person, err = s.nameOfActor(v, "person:"+r.Person)
	return one, err
}
