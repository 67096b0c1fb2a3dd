package consent

import (
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page"
)

func activityPath(organization string, id approval.ID) string {
	return page.AppsPath(organization) + "/" + id.String() + "/activity"
}

// activityOf is what is asked for where the person wants to see what an app did.
func (s *Server) activityOf(v *page.Visit) (page.ActivityOf, error) {
	e, err := s.ownApproval(v)
	if err != nil {
		return page.ActivityOf{}, err
	}
	names, err := s.NamesOf(v, e.org, e.member)
	if err != nil {
		return page.ActivityOf{}, err
	}
	of := page.ActivityOf{Row: e.row, Who: v.Person.Name, Own: true, Member: e.member, Names: names, Path: activityPath(e.org.ID, e.row.ID),
		Under: []page.Crumb{{Text: v.Words.Say("apps.name").String(), Path: page.AppsPath(e.org.ID)}}}
	if ended(e.row) {
		of.Access = names.Gave(e.row.Grant).Says()
	} else {
		of.Access, of.Revoke = names.Gives(e.row.Grant).Says(), revokePath(e.org.ID, e.row.Client)
	}
	if !v.Acting() {
		of.Lines = of.Path + ".jsonl"
		if !ended(e.row) {
			of.Edit = editPath(e.org.ID, e.row.ID)
		}
	}
	return of, nil
}

// activity is GET .../{approval}/activity: what an app did in the person's name.
func (s *Server) activity(v *page.Visit) error {
	of, err := s.activityOf(v)
	if err != nil {
		return err
	}
	return s.ShowActivity(v, of)
}

// activityLines is GET .../{approval}/activity.jsonl: the same, all of it.
func (s *Server) activityLines(v *page.Visit) error {
	of, err := s.activityOf(v)
	if err != nil {
		return err
	}
	return s.SendActivity(v, of)
}
