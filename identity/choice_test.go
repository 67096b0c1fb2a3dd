package identity

import "testing"

// Decision V44: a choice is read by the function that reads headers, and is of
// the same person.
func TestChoose(t *testing.T) {
	who := Identity{Person: "ada", Organization: "nordlys", Approval: "1", Client: "c", Grant: "everything", Admin: true, Personal: true}
	got, err := who.Choose("roles", "personal,treasurer=change,host=read")
	if err != nil || got.Person != "ada" || got.Organization != "nordlys" || got.Approval+got.Client != "" || got.Admin || !got.Personal ||
		got.Acts("treasurer") != "change" || got.Acts("host") != "read" || got.Acts("secretary") != "none" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range [][2]string{{"all", ""}, {"", ""}, {"roles", "owner"}, {"roles", "treasurer=write"}, {"roles", ","}} {
		if got, err := who.Choose(wrong[0], wrong[1]); err == nil || got.Grant != "" {
			t.Errorf("%q was read as %+v", wrong, got)
		}
	}
}
