package console

import (
	"github.com/grantkeeper/grantkeeper/activity"
)

// An activityPage is what the client of an approval did, without titles of items: those
// are not the operators' to read (decision V72). The service and the client wrote the words.
type activityPage struct {
	frame
	ID       string
	Approval approvalRow
	Outcome  string // of the filter, as sent
	Off      bool   // nothing is recorded here
	Rows     []recordRow
	Tallies  []tallyRow
	Gaps     []gapRow
	More     bool
	Next     string
}

type recordRow struct {
	activity.RecordLine
	At   moment
	Role string // name
}

type tallyRow struct {
	activity.TallyLine
	From moment
}

type gapRow struct {
	From, To moment
	Why      string
}

// gapWords say why something may be missing.
var gapWords = map[activity.Why]string{
	activity.Stopped: "a server stopped without notice", activity.Full: "more came at once than could be kept", activity.Off: "activity.keep was off",
	activity.SetBack: "the database was restored", activity.Before: "nothing was recorded yet",
}

// talliesShown bounds the hours that stand beside the first page.
const talliesShown = 100

func (s *Server) activityPage(v *visit) error {
	row, err := s.approvalOf(v)
	if err != nil {
		return err
	}
	c := v.Call
	c.Request = v.Clone(v.Context())
	c.URL.RawQuery = v.query().Encode() // a form sends what is empty, too
	of, err := s.API.Activity(c)
	if err != nil {
		return orNotFound(err, "approval")
	}
	p := activityPage{frame: s.frame(v, "approvals", "What it did"), ID: row.ID.String(), Approval: s.newNameCache(v).approval(row),
		Outcome: v.URL.Query().Get("outcome"), Off: s.API.Store.KeepsActivity() == 0, More: v.URL.Query().Get("after") != ""}
	p.Next = v.link("/approvals/"+p.ID+"/activity", of.Next)
	names := s.API.RoleNames(v.Context(), row.Organization)
	for _, r := range of.Items {
		p.Rows = append(p.Rows, recordRow{r, atSecond(r.At, v.now), names(r.Role)})
	}
	for i, t := range of.Tallies {
		if i == talliesShown {
			break
		}
		p.Tallies = append(p.Tallies, tallyRow{t, onDay(t.Hour, v.now)})
	}
	for _, g := range of.Gaps {
		one := gapRow{atSecond(g.From, v.now), moment{Text: "now"}, gapWords[activity.Why(g.Why)]}
		if g.To > 0 {
			one.To = atSecond(g.To, v.now)
		}
		p.Gaps = append(p.Gaps, one)
	}
	return s.render(v.w, 200, activityTemplate, &p)
}
