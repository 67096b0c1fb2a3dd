package orgadmin

import (
	"errors"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

func activityPath(organization string, id approval.ID) string {
	return connectionPath(organization, id) + "/activity"
}

// activity is GET .../ai-integration/{approval}/activity: what an app did for a member, also
// after it has ended.
func (s *Server) activity(v *page.Visit) error {
	view, r, err := s.connection(v)
	if err != nil {
		return err
	}
	o, admin, err := s.Membership(v)
	if err != nil {
		return err
	}
	member, err := s.Store.Member(v.R.Context(), r.Person, o.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // else gone since
		return page.Wrap("member", err)
	}
	names, err := s.NamesOf(v, o, member)
	if err != nil {
		return err
	}
	of := page.ActivityOf{Row: r, Who: view.Who, Member: admin, Names: names, Path: activityPath(o.ID, r.ID),
		Under: []page.Crumb{{Text: v.Words.Say("integration.name").String(), Path: view.Back}}}
	access := names.Gave(r.Grant)
	if !ended(r) {
		access = names.Gives(r.Grant)
		of.Under = append(of.Under, page.Crumb{Text: v.Words.Say("connection.title").String(), Path: connectionPath(o.ID, r.ID)})
	}
	access.Personal = false // it is theirs alone
	of.Access = access.Says()
	if access.Kind == grantset.Everything {
		of.Access = v.Words.Say("grant.theirs")
	}
	if view.Reviewed != nil {
		of.Reviewed = v.Words.Say("connections.byon", "person", view.Reviewer, "date", view.Reviewed)
	}
	if !ended(r) && !v.Acting() {
		of.Mark = view.Path + "/connections"
	}
	return s.ShowActivity(v, of)
}
