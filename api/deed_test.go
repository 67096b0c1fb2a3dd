package api_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// did lists what is recorded of an approval, the oldest first, and what is counted.
func (h *house) did(of approval.ID) (all []string) {
	h.t.Helper()
	if err := h.server.Activity.Flush(); err != nil {
		h.t.Fatal(err)
	}
	err := h.store.EachActivity(h.t.Context(), store.ActivityFilter{Approval: of, OldestFirst: true}, func(r activity.Record) error {
		all = append(all, fmt.Sprintf("%s %d %s %s %s %s", r.Outcome, r.Status, r.Reason, r.Item.Did, r.Item.Title, r.Item.Role))
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	tallies, err := h.store.ActivityTallies(h.t.Context(), of, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tallies {
		all = append(all, fmt.Sprintf("%s %d %s %d", one.What, one.Calls, one.Kind, one.Items))
	}
	return all
}

// What becomes of a call is kept once, with the items that the service names: what was
// read is counted, and the role is the item's own or the one that the rules went by.
func TestDeeds(t *testing.T) {
	h := newHouse(t)
	recorder, err := h.store.RecordActivity()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { recorder.Close() })
	by := rules.Decision{Role: "host"}
	note, own := identity.Item{Title: "A"}, identity.Item{Title: "B", Did: identity.Closed, Role: "guide"}
	seen := identity.Item{Kind: "note", Did: identity.Viewed, Count: 3}
	for _, tt := range []struct {
		name  string
		reads bool
		do    func(d *api.Deed)
		want  []string
	}{
		{"a change", false, func(d *api.Deed) { d.Answered(activity.Done, 200, nil) }, []string{"done 200    host"}},
		{"a change that failed", false, func(d *api.Deed) { d.Answered(activity.Failed, 409, nil) }, []string{"failed 409    host"}},
		{"a change of items", false, func(d *api.Deed) { d.Answered(activity.Done, 200, []identity.Item{note, own}) }, []string{"done 200  changed A host", "done 200  closed B guide"}},
		{"a change beside what was read", false, func(d *api.Deed) { d.Answered(activity.Done, 200, []identity.Item{note, seen}) }, []string{"done 200  changed A host", "reads 1 note 3"}},
		{"a change with what was read alone", false, func(d *api.Deed) { d.Answered(activity.Done, 200, []identity.Item{seen}) }, []string{"done 200    host", "reads 1 note 3"}},
		{"a failure beside what was read", false, func(d *api.Deed) { d.Answered(activity.Failed, 409, []identity.Item{seen}) }, []string{"failed 409    host"}},
		{"an answer twice", false, func(d *api.Deed) { d.Answered(activity.Done, 200, nil); d.Answered(activity.Failed, 500, nil) }, []string{"done 200    host"}},
		{"no answer", false, func(d *api.Deed) { d.Unanswered() }, []string{"unanswered 0    host"}},
		{"an answer, and none", false, func(d *api.Deed) { d.Answered(activity.Done, 200, nil); d.Unanswered() }, []string{"done 200    host"}},
		{"an end", false, func(d *api.Deed) { d.End(); d.Answered(activity.Done, 200, nil) }, nil},
		{"an end after an answer", false, func(d *api.Deed) { d.Answered(activity.Done, 200, nil); d.End() }, []string{"done 200    host"}},
		{"a read", true, func(d *api.Deed) { d.Answered(activity.Done, 200, nil) }, []string{"reads 1  0"}},
		{"a read of items", true, func(d *api.Deed) {
			d.Answered(activity.Done, 200, []identity.Item{{Kind: "note", Count: 2}, {Kind: "note"}})
		}, []string{"reads 1 note 3"}},
		{"a read that failed", true, func(d *api.Deed) { d.Answered(activity.Failed, 404, nil) }, nil},
		{"a read without an answer", true, func(d *api.Deed) { d.Unanswered() }, nil},
		{"a read that changed something", true, func(d *api.Deed) { d.Answered(activity.Done, 200, []identity.Item{own}) }, []string{"done 200  closed B guide", "reads 1  0"}},
		{"a read that ends", true, func(d *api.Deed) { d.End() }, nil},
	} {
		h.server.Activity = recorder
		x := h.live("tor", "nordlys", everything)
		now, err := h.server.Now(t.Context(), h.actor("Authorization", "Bearer "+x.access))
		if err != nil {
			t.Fatal(err)
		}
		d := h.server.Deed(now, activity.Record{Method: "PATCH", Path: "/api/v5/x"}, by, tt.reads)
		if d.Reads() != tt.reads {
			t.Errorf("%s: reads %v", tt.name, d.Reads())
		}
		tt.do(d)
		if got := h.did(x.id); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	x := h.live("tor", "nordlys", everything)
	now, err := h.server.Now(t.Context(), h.actor("Authorization", "Bearer "+x.access))
	if err != nil {
		t.Fatal(err)
	}
	key, err := h.server.Now(t.Context(), h.actor("X-Auth-Token", "key-of-tor-for-tests"))
	if err != nil {
		t.Fatal(err)
	}
	named := activity.Record{Method: "PATCH", Item: identity.Item{Role: "treasurer"}}
	h.server.Deed(now, named, by, false).Answered(activity.Done, 200, nil)
	for _, r := range []api.Rights{now, key} {
		h.server.Refused(r, activity.Record{Method: "PUT"}, "role_not_given", "guide")
		h.server.Passed(r, activity.Record{Method: "PUT"}, by, false, false)
		h.server.Passed(r, activity.Record{Method: "GET"}, by, true, false)
		h.server.Passed(r, activity.Record{Method: "PUT"}, by, false, true)
		h.server.Passed(r, activity.Record{Method: "GET"}, by, true, true)
	}
	want := []string{"done 200    treasurer", "refused 0 role_not_given   guide", "allowed 0    host", "reads 1  0", "unseen 2  0"}
	if got := h.did(x.id); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := h.did(key.Approval); len(got) > 0 || h.server.Deed(key, named, by, false) != nil {
		t.Errorf("of an API key: %q", got)
	}
	h.server.Activity = nil
	d := h.server.Deed(now, named, by, false)
	d.Answered(activity.Done, 200, nil)
	d.Unanswered()
	d.End()
	h.server.Refused(now, named, "", "")
	h.server.Passed(now, named, by, false, false)
	if d != nil || d.Reads() {
		t.Error("a deed where nothing is kept")
	}
}

// What a service says of items is taken if it says it once and can be read; that it cannot
// is logged, and not at each call.
func TestItems(t *testing.T) {
	h := newHouse(t)
	recorder, err := h.store.RecordActivity()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { recorder.Close() })
	var log strings.Builder
	h.server.Log = slog.New(slog.NewTextHandler(&log, nil))
	const one = `[{"title":"A"}]`
	if got := h.server.Items(one); got != nil {
		t.Errorf("nothing is kept, and %+v", got)
	}
	h.server.Activity = recorder
	if got := h.server.Items(one); len(got) != 1 || got[0].Title != "A" {
		t.Errorf("%+v", got)
	}
	if got := h.server.Items(); got != nil || log.Len() > 0 {
		t.Errorf("of nothing %+v, %s", got, log.String())
	}
	for range 2 {
		if got := h.server.Items(one, one); got != nil {
			t.Errorf("of two %+v", got)
		}
		if got := h.server.Items(`{`); got != nil {
			t.Errorf("of no list %+v", got)
		}
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "more than once") || !strings.Contains(said, identity.HeaderItems) {
		t.Errorf("logged %s", said)
	}
}
