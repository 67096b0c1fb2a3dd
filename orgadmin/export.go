package orgadmin

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// exportStep is how many connections are read at once for a download.
const exportStep = 500

// exportColumns are those of the download. A program may read it: they are in English,
// and stay.
var exportColumns = []string{"connection", "app", "host", "known", "person", "email", "access", "roles",
	"connected_at", "last_used_at", "ends_at", "reviewed_by", "reviewed_at"}

// export is GET .../ai-integration/connections.csv: all that the filter shows, written
// as it is read. Where that fails the connection breaks off: a list that ends too soon
// is not to be taken for the whole.
func (s *Server) export(v *page.Visit, o org.Organization) error {
	f := filterOf(o, v.R.URL.Query())
	f.After, f.Limit = "", exportStep
	rows, next, err := s.Store.Connections(v.R.Context(), f)
	if err != nil {
		return cursorFault(err)
	}
	s.Record(v, store.Event{Kind: journal.ConnectionsExported, Organization: o.ID, Person: v.Person.ID, Actor: v.By()})
	h := v.W.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="connections.csv"`)
	w := csv.NewWriter(v.W)
	w.UseCRLF = true // RFC 4180 section 2
	w.Write(exportColumns)
	for {
		err := s.writeRows(v, o, w, rows)
		if err == nil && next == "" {
			return nil
		}
		if err == nil {
			if _, err = s.administered(v); err == nil { // somebody may lose the right while a list is long
				f.After = next
				rows, next, err = s.Store.Connections(v.R.Context(), f)
			}
		}
		if err != nil {
			s.Log.Error("a download broke off", "err", err, "request_id", v.Reference())
			panic(http.ErrAbortHandler)
		}
	}
}

// writeRows writes some connections.
func (s *Server) writeRows(v *page.Visit, o org.Organization, w *csv.Writer, rows []store.Connection) error {
	names, err := s.NamesIn(v, o)
	if err != nil {
		return err
	}
	for _, r := range rows {
		names.Member, err = s.Store.Member(v.R.Context(), r.Person, o.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // else gone since
			return page.Wrap("member", err)
		}
		reviewer, err := s.nameOfActor(v, r.ReviewedBy)
		if err != nil {
			return err
		}
		line := []string{r.ID.String(), r.ClientName, r.Hosts.App, fmt.Sprint(r.Preregistered), r.PersonName, r.PersonEmail, string(r.Grant.Kind),
			lineOf(names.Gives(r.Grant)), stamp(r.CreatedAt), stamp(r.LastUsed), stamp(r.EndsAt), reviewer, stamp(r.ReviewedAt)}
		for i := range line {
			line[i] = org.Cell(line[i])
		}
		if err := w.Write(line); err != nil {
			return fmt.Errorf("download: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

// lineOf names roles with what they are picked for, in the words of the API.
func lineOf(a page.Access) string {
	var all []string
	for _, r := range a.Roles {
		if r.Access != "" {
			all = append(all, r.Role+" ("+r.Access+")")
		}
	}
	return strings.Join(all, "; ")
}

// stamp is a time in UTC; empty for never.
func stamp(unix int64) string {
	if unix == 0 {
		return ""
	}
	return time.Unix(unix, 0).UTC().Format(time.RFC3339)
}
