package api

import (
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Deed is one call of a client on its way to a service, for the record of what the
// client did (package activity). The nil Deed, of a call that is not recorded, does
// nothing.
type Deed struct {
	server *Server
	call   *store.Call // nil of one that reads
	of     approval.ID
	reads  bool
	over   bool
	record activity.Record
}

// Deed begins one, before it is passed on. An API key's is none.
func (s *Server) Deed(a Rights, record activity.Record, d rules.Decision, reads bool) *Deed {
	if s.Activity == nil || a.Client == "" {
		return nil
	}
	if record.Item.Role == "" {
		record.Item.Role = d.Role
	}
	to := &Deed{server: s, of: a.Approval, reads: reads, record: record}
	if !reads {
		to.call = s.Activity.Begin()
	}
	return to
}

// Refused keeps that a call was denied.
func (s *Server) Refused(a Rights, record activity.Record, reason, role string) {
	if s.Activity == nil || a.Client == "" {
		return
	}
	record.Reason, record.Item.Role = reason, role
	s.Activity.Refuse(a.Approval, record)
}

// Passed keeps that another proxy was told that a call may pass. unknown says that it did
// not say which call it is.
func (s *Server) Passed(a Rights, record activity.Record, d rules.Decision, reads, unknown bool) {
	switch {
	case s.Activity == nil || a.Client == "":
	case unknown:
		s.Activity.Unseen(a.Approval)
	case reads:
		s.Activity.Read(a.Approval)
	default:
		record.Outcome, record.Item.Role = activity.Allowed, d.Role
		s.Activity.Begin().Done(a.Approval, record)
	}
}

// Reads reports whether the call was taken to read: it is counted, if it does.
func (d *Deed) Reads() bool { return d != nil && d.reads }

// Answered keeps what became of it, before the client is answered, with the items that the
// service says were touched. Once it is kept, nothing changes that.
func (d *Deed) Answered(outcome activity.Outcome, status int, items []identity.Item) {
	if d == nil || d.over {
		return
	}
	d.over = true
	var seen []identity.Item
	var did []activity.Record
	for _, one := range items {
		if one.Did == identity.Viewed || one.Did == "" && d.reads {
			seen = append(seen, one)
			continue
		}
		r := d.record
		r.Outcome, r.Status = outcome, status
		if one.Role == "" {
			one.Role = d.record.Item.Role
		}
		if one.Did == "" {
			one.Did = identity.Changed
		}
		r.Item = one
		did = append(did, r)
	}
	if len(did) == 0 && !d.reads {
		r := d.record
		r.Outcome, r.Status = outcome, status
		did = append(did, r)
	}
	if outcome == activity.Done && (d.reads || len(seen) > 0) {
		d.server.Activity.Read(d.of, seen...)
	}
	if d.call == nil && len(did) > 0 { // a call that was taken to read
		d.call = d.server.Activity.Begin()
	}
	d.call.Done(d.of, did...)
}

// Unanswered keeps that nobody knows what became of it: the service was asked, and did not
// answer.
func (d *Deed) Unanswered() {
	if d != nil && !d.reads {
		d.Answered(activity.Unanswered, 0, nil)
	}
}

// End forgets one of which nothing was said: the service was not asked.
func (d *Deed) End() {
	if d != nil && !d.over {
		d.over = true
		d.call.Done(d.of)
	}
}

var errManyItems = errors.New("it stands more than once")

// Items reads what a service says that a call has touched. What cannot be read is as if
// nothing was said, and why is logged once a minute.
func (s *Server) Items(texts ...string) []identity.Item {
	if len(texts) == 0 || s.Activity == nil {
		return nil
	}
	items, err := []identity.Item(nil), errManyItems
	if len(texts) == 1 {
		items, err = identity.ReadItems([]byte(texts[0]))
	}
	if err == nil {
		return items
	}
	now := time.Now().Unix()
	if last := s.itemsSaid.Load(); s.Log != nil && now-last >= 60 && s.itemsSaid.CompareAndSwap(last, now) {
		s.Log.Warn("what the service says of items cannot be read: calls are recorded without", "header", identity.HeaderItems, "err", err)
	}
	return nil
}
