package consent

import (
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page"
)

func didPath(organization string, id approval.ID) string {
	return page.AppsPath(organization) + "/" + id.String() + "/activity"
}

// didOf is what is asked for where the person wants to see what an app did.
func (s *Server) didOf(v *page.Visit) (page.Asked, error) {
	e, err := s.ownApproval(v)
	if err != nil {
		return page.Asked{}, err
	}
	names, err := s.NamesOf(v, e.org, e.member)
	if err != nil {
		return page.Asked{}, err
	}
	of := page.Asked{Row: e.row, Who: v.Person.Name, Own: true, Member: e.member, Names: names, Path: didPath(e.org.ID, e.row.ID),
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

// did is GET .../{approval}/activity: what an app did in the person's name.
func (s *Server) did(v *page.Visit) error {
	of, err := s.didOf(v)
	if err != nil {
		return err
	}
	return s.ShowDoings(v, of)
}

// didLines is GET .../{approval}/activity.jsonl: the same, all of it.
func (s *Server) didLines(v *page.Visit) error {
	of, err := s.didOf(v)
	if err != nil {
		return err
	}
	return s.SendDoings(v, of)
}
