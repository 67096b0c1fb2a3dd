package devserver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
)

// The demo items show everything that can be shown: in every organization
// every kind, of roles and of people, open to all and private, and some of
// roles that nobody fills.
func TestDemoItems(t *testing.T) {
	d := demoDirectory("hash")
	filled, roles := map[string]bool{}, map[string]string{}
	for _, f := range d.Fillers {
		filled[f.Role] = true
	}
	for _, r := range d.Roles {
		roles[r.ID] = r.Organization
	}
	total, kinds, people, has, statuses := map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	items := sampleItems()
	var ids []string
	for _, i := range items {
		ids = append(ids, i.ID)
		total[i.Organization]++
		kinds[i.Organization+" "+i.Kind] = true
		statuses[i.Status] = true
		has[fmt.Sprintf("%s personal:%t private:%t", i.Organization, i.Person != "", i.Private)] = true
		if i.Person != "" {
			people[i.Person+" "+i.Organization] = true
		} else if roles[i.Role] != i.Organization {
			t.Errorf("%s: role %q of %s", i.ID, i.Role, roles[i.Role])
		} else if !filled[i.Role] {
			has[i.Organization+" unfilled"] = true
		}
		if err := org.CheckID(i.ID); err != nil || !slices.Contains([]string{"open", "done", "archived"}, i.Status) || len(i.Title) < 10 || len(i.Title) > 60 {
			t.Errorf("%+v: %v", i, err)
		}
	}
	for organization, want := range map[string]int{"nordlys": 60, "fjell": 25, "storhavn": 240, "havn": 8} {
		if total[organization] != want {
			t.Errorf("%s has %d items, want %d", organization, total[organization], want)
		}
		for _, kind := range sample.Kinds {
			if !kinds[organization+" "+kind] {
				t.Errorf("%s has no %s", organization, kind)
			}
		}
		for _, what := range []string{"personal:true private:false", "personal:false private:false", "personal:false private:true"} {
			if !has[organization+" "+what] {
				t.Errorf("%s has none that is %s", organization, what)
			}
		}
	}
	for _, want := range []string{"ada nordlys", "ada fjell", "tor nordlys", "mei storhavn", "ola havn"} {
		if !people[want] {
			t.Errorf("no personal item of %s", want)
		}
	}
	if !has["nordlys unfilled"] || !has["fjell unfilled"] || len(statuses) != 3 {
		t.Errorf("items of roles that nobody fills: %t, %t; statuses %v", has["nordlys unfilled"], has["fjell unfilled"], statuses)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(items) {
		t.Error("an ID comes twice")
	}
	if again := sampleItems(); !slices.Equal(again, items) {
		t.Error("the items differ from one start to the next")
	}
	for _, id := range []string{"nordlys-renew-the-domain", "nordlys-salary-bands-under-discussion", "fjell-talks-with-a-second-donor", "storhavn-near-misses-in-cranes-this-quarter"} {
		if !slices.Contains(ids, id) {
			t.Errorf("no item %s", id)
		}
	}
}
