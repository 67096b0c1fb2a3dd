package consent

import (
	"context"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// S-13: the person is told under Ended that a used refresh token came back, and
// in plain words what that looks like.
func TestS13ReuseIsTold(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		from, says, class string
	}{
		{"192.0.2.77", "so it looks like two copies of one installation, or an answer that was lost on its way. To be safe,", "note warn small"},
		{"198.51.100.7", "It looks as if someone copied a key of this connection. It came from another network than the app's own", "note bad small"},
		{"", "Why is not known: the app may have sent it twice, or someone may have copied it.", "note warn small"},
	} {
		s := newSite(t)
		ada := s.SignedIn("ada")
		id := ada.Connect()
		row, err := s.Store.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		refresh := func(generation int64, from string) approval.Verdict {
			t.Helper()
			_, v, err := s.Store.ApplyLive(ctx, id, approval.Refresh(row.Client, generation, 1, s.Store.Now()),
				store.Act{Actor: "client:" + row.Client, Address: from, Generation: generation})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if v := refresh(row.Generation, "192.0.2.1"); v != approval.OK {
			t.Fatal(v)
		}
		if v := refresh(row.Generation, tt.from); v != approval.Reused {
			t.Fatal(v)
		}
		p := ada.Get(pagetest.NordlysApps).Says("Ended today at 10:00: an old key was used again", tt.says)
		if n := strings.Count(p.Body, "note bad") + strings.Count(p.Body, "note warn"); n != 1 || !strings.Contains(p.Body, tt.class) {
			t.Errorf("from %q it is not said as %q, or %d times", tt.from, tt.class, n)
		}
	}
}
