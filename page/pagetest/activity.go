package pagetest

import (
	"context"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// Recording begins to keep what apps do, and ends it with the test.
func (s *Site) Recording() *store.Recorder {
	s.T.Helper()
	r, err := s.Store.RecordActivity()
	s.Do(err)
	s.T.Cleanup(func() { _ = r.Close() }) // the store may be closed by then
	return r
}

// Deed is the record of a call that has touched an item.
func Deed(i identity.Item, outcome activity.Outcome) activity.Record {
	return activity.Record{Way: activity.API, Outcome: outcome, Status: 200, Method: "PUT", Path: "/api/v5/items/" + i.ID, Item: i}
}

// DidAll has an app do everything that can be told, on three days, the last of which is
// the one before the clock's.
func (s *Site) DidAll(r *store.Recorder, of approval.ID) {
	s.T.Helper()
	item := func(title, kind string, did identity.Did, role string) identity.Item {
		return identity.Item{ID: strings.ReplaceAll(title, " ", "-"), Title: title, Kind: kind, Did: did, Role: role, Detail: "Text"}
	}
	do := func(all ...activity.Record) {
		r.Begin().Done(of, all...)
		s.Pass(time.Minute)
	}
	do(Deed(item("Invoices arrive in three different mailboxes", "tension", identity.Closed, "treasurer"), activity.Done))
	do(Deed(item("Rules for travel expenses", "note", identity.Deleted, "treasurer"), activity.Done))
	r.Read(of, identity.Item{Kind: "action", Count: 61})
	r.Read(of)
	s.Pass(24 * time.Hour)
	do(Deed(item("Budget for next year", "project", identity.Changed, "treasurer"), activity.Done))
	do(Deed(item("Ask three banks for an offer", "action", identity.Created, "treasurer"), activity.Done))
	private := item("Who is to leave the board", "tension", identity.Changed, "secretary")
	private.Private = true
	do(Deed(private, activity.Done))
	own := item("Call my doctor", "action", identity.Created, "")
	own.Personal = true
	do(Deed(own, activity.Done), Deed(identity.Item{Kind: "note", Did: identity.Changed}, activity.Failed))
	do(Deed(item("Pay the hosting invoice", "action", identity.Changed, "treasurer"), activity.Unanswered))
	do(activity.Record{Way: activity.Gateway, Outcome: activity.Allowed, Method: "POST", Path: "/api/v5/orders"})
	do(activity.Record{Way: activity.MCP, Outcome: activity.Done, Method: "POST", Path: "/api/v5/mcp", Tool: "move_order"})
	for _, why := range []rules.Reason{rules.ReadOnly, rules.NotGiven, rules.Personal, rules.Admin, rules.Unlisted, rules.Ambiguous, rules.NoRole,
		rules.ReadsOnly, rules.KeepRole, rules.KeepPersonal, rules.KeepAdmin, ""} {
		refused := activity.Record{Way: activity.API, Method: "DELETE", Path: "/api/v5/orders/17", Reason: string(why)}
		refused.Item.Role = "treasurer"
		r.Refuse(of, refused)
	}
	r.Read(of, identity.Item{Kind: "project", Count: 38}, identity.Item{Kind: "action", Count: 96, Private: true}, identity.Item{Kind: "note", Count: 2, Personal: true})
	r.Read(of)
	r.Unseen(of)
	s.Pass(24 * time.Hour)
	r.Read(of)
	s.Do(r.Flush())
}

// ActivityPages visits What it did, as the person and as an admin see it.
func (s *Site) ActivityPages(visit func(name string, flow bool, p *Shown)) {
	s.T.Helper()
	tor := s.SignedIn("tor")
	early := tor.Connect()
	s.Pass(time.Hour)
	r := s.Recording()
	at := NordlysApps + "/" + early.String() + "/activity"
	visit("what it did, nothing yet", false, tor.Get(at).Want(200))
	s.DidAll(r, early)
	tor = s.SignedIn("tor") // the session from before is over
	ada := s.SignedIn("ada")
	visit("what it did", false, tor.Get(at).Want(200))
	visit("what it did, nothing found", false, tor.Get(at+"?find=xyz").Want(200))
	visit("what it did for a member", false, ada.Get(NordlysSettings+"/"+early.String()+"/activity?range=90").Want(200))
	s.Do(s.Store.EndApproval(context.Background(), early, approval.RevokedByPerson, store.Act{Actor: "person:tor"}))
	visit("what it did, ended", false, tor.Get(at+"?range=30&what=changes").Want(200))
	s.Do(r.Close())
}
