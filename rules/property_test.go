package rules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// Rules of a small world, so that they meet the calls of it often.
func drawRule(t *rapid.T) rules.Rule {
	var r rules.Rule
	var sources []string
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0, 1:
		r.Tool = rapid.SampledFrom([]string{"a", "b", "a*", "*"}).Draw(t, "tool")
		sources = []string{"argument:/x", "argument:/y/z"}
	case 2, 3:
		r.Call = rapid.SampledFrom([]string{"*", "GET", "POST"}).Draw(t, "method") + " " +
			rapid.SampledFrom([]string{"/o", "/o/{x}", "/{x}/p", "/**", "/o/**", "/o/p/{x}/**"}).Draw(t, "path")
		sources = []string{"query:x", "body:/x"}
		if strings.Contains(r.Call, "{x}") {
			sources = append(sources, "path:x")
		}
	default:
		r.Resource = rapid.SampledFrom([]string{"a:b", "a:*"}).Draw(t, "resource")
	}
	r.Touches = rapid.SampledFrom([]string{"role", "role", "role", "open", "personal", "admin", "nothing", "service"}).Draw(t, "touches")
	if r.Touches == "role" {
		r.Private = rapid.Bool().Draw(t, "private")
		switch rapid.IntRange(0, 2).Draw(t, "role by") {
		case 0:
			r.Role = drawRole(t)
		case 1:
			r.RoleName = rapid.SampledFrom([]string{"Orders", "Board", "Driver", "Nobody"}).Draw(t, "name")
		default:
			if r.Resource != "" {
				r.Role = drawRole(t)
				break
			}
			r.RoleFrom = rapid.SliceOfNDistinct(rapid.SampledFrom(sources), 1, 2, rapid.ID).Draw(t, "from")
		}
	}
	if r.Touches == "role" || r.Touches == "personal" {
		r.Access = rapid.SampledFrom([]string{"", "read", "change"}).Draw(t, "access")
	}
	return r
}

func drawRole(t *rapid.T) string {
	return rapid.SampledFrom([]string{"r-orders", "r-stock", "r-wages", "r-board", "r-east", "r-none"}).Draw(t, "role")
}

func drawCall(t *rapid.T) rules.Call {
	x, y := drawRole(t), drawRole(t)
	body := fmt.Sprintf(`{"x":%q,"y":{"z":%q}}`, x, y)
	switch rapid.IntRange(0, 2).Draw(t, "call") {
	case 0:
		return rules.Call{Tool: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tool"), Arguments: json.RawMessage(body), Reads: drawReads(t)}
	case 1:
		return rules.Call{Resource: rapid.SampledFrom([]string{"a:b", "a:c", "d:"}).Draw(t, "uri")}
	}
	path := rapid.SampledFrom([]string{"/o", "/o/%s", "/%s/p", "/o/p/%s/q", "/o/p"}).Draw(t, "path")
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, x)
	}
	return rules.Call{Method: rapid.SampledFrom([]string{"GET", "HEAD", "POST", "DELETE"}).Draw(t, "method"), Path: path, Query: "x=" + y, Body: []byte(body)}
}

func drawReads(t *rapid.T) rules.Known {
	return rapid.SampledFrom([]rules.Known{rules.Unknown, rules.Yes, rules.No}).Draw(t, "reads")
}

func drawRules(t *rapid.T, unlisted string) ([]rules.Rule, *rules.Rules) {
	all := rapid.SliceOfN(rapid.Custom(drawRule), 0, 5).Draw(t, "rules")
	r, err := rules.Compile(all, unlisted)
	if err != nil {
		t.Fatal(err)
	}
	return all, r
}

// drawSet is a grant set of selected roles.
func drawSet(t *rapid.T) grantset.Set {
	s := grantset.Set{Kind: grantset.Roles, Personal: rapid.Bool().Draw(t, "personal")}
	for _, id := range []string{"r-orders", "r-stock", "r-wages"} {
		switch rapid.IntRange(0, 2).Draw(t, id) {
		case 1:
			s.Picks = append(s.Picks, grantset.Pick{Role: id})
		case 2:
			s.Picks = append(s.Picks, grantset.Pick{Role: id, Change: true})
		}
	}
	return s
}

// What is allowed because of an item is what package grantset allows of it, and
// what is denied because of one it denies.
func TestGrantSetDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := drawRules(t, "deny")
		a := drawSet(t).Narrow(ada(rapid.Bool().Draw(t, "admin")), nil)
		d := r.Decide(a, roles, drawCall(t))
		if d.Item == (org.Item{}) {
			if d.Allowed && d.Touches != "nothing" && d.Touches != "service" {
				t.Fatalf("allowed without an item: %+v", d)
			}
			return
		}
		may := a.MayChange(d.Item)
		if d.Needs == "read" {
			may = a.MayRead(d.Item)
		}
		if d.Allowed != may {
			t.Fatalf("%+v, and of the item %v", d, may)
		}
	})
}

// A stricter grant never allows more.
func TestStricterGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := drawRules(t, rapid.SampledFrom([]string{"", "deny", "read", "service"}).Draw(t, "unlisted"))
		wide, c := drawSet(t), drawCall(t)
		strict := grantset.Set{Kind: grantset.Roles, Personal: wide.Personal && rapid.Bool().Draw(t, "less")}
		for _, p := range wide.Picks {
			if n := rapid.IntRange(0, 2).Draw(t, "left"); n > 0 {
				strict.Picks = append(strict.Picks, grantset.Pick{Role: p.Role, Change: p.Change && n == 2})
			}
		}
		m := ada(rapid.Bool().Draw(t, "admin"))
		if d := r.Decide(strict.Narrow(m, nil), roles, c); d.Allowed && !r.Decide(wide.Narrow(m, nil), roles, c).Allowed {
			t.Fatalf("%+v allows more than %+v: %+v", strict, wide, d)
		}
		if r.Decide(wide.Narrow(m, nil), roles, c).Allowed && !r.Decide(grantset.Set{Kind: grantset.Everything}.Narrow(m, nil), roles, c).Allowed {
			t.Fatal("everything allows less")
		}
	})
}

// What no rule names is denied, whatever the grant gives.
func TestUnnamedIsDenied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := drawRules(t, "deny")
		d := r.Decide(drawSet(t).Narrow(ada(true), nil), roles, drawCall(t))
		if d.Rule < 0 && (d.Allowed || d.Reason != rules.Unlisted) {
			t.Fatalf("%+v", d)
		}
	})
}

// The first rule that matches decides, whatever stands behind it.
func TestFirstRuleDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, r := drawRules(t, "deny")
		a, c := drawSet(t).Narrow(ada(true), nil), drawCall(t)
		d := r.Decide(a, roles, c)
		if d.Rule < 0 {
			return
		}
		short, err := rules.Compile(all[:d.Rule+1], "deny")
		if err != nil {
			t.Fatal(err)
		}
		if got := short.Decide(a, roles, c); got != d {
			t.Fatalf("%+v, without what is behind %+v", d, got)
		}
		before, err := rules.Compile(all[:d.Rule], "deny")
		if err != nil {
			t.Fatal(err)
		}
		if got := before.Decide(a, roles, c); got.Rule >= 0 {
			t.Fatalf("%+v, though before it %+v", d, got)
		}
	})
}

// A rule that is said to be never reached never decides.
func TestUnreachableNeverDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := drawRules(t, "deny")
		d := r.Decide(drawSet(t).Narrow(ada(true), nil), roles, drawCall(t))
		for _, f := range r.Unreachable() {
			if f.Rule == d.Rule {
				t.Fatalf("%v decides: %+v", f, d)
			}
		}
	})
}

// A tool is listed whenever some call of it could be allowed.
func TestListsWhatCouldPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, r := drawRules(t, rapid.SampledFrom([]string{"deny", "read", "service"}).Draw(t, "unlisted"))
		set := drawSet(t)
		if kind := rapid.SampledFrom(grantset.Kinds).Draw(t, "kind"); kind != grantset.Roles {
			set = grantset.Set{Kind: kind}
		}
		a, c := set.Narrow(ada(rapid.Bool().Draw(t, "admin")), nil), drawCall(t)
		if c.Tool != "" && r.Decide(a, roles, c).Allowed && !r.Lists(a, roles, c) {
			t.Fatalf("%+v is allowed and not listed", c)
		}
	})
}

// What could pass under no call is not listed.
func TestListsNoMore(t *testing.T) {
	r := compiled(t, "", rules.Rule{Tool: "move", RoleFrom: []string{"argument:/x"}}, rules.Rule{Tool: "see", RoleFrom: []string{"argument:/x"}, Access: "read", Private: true},
		rules.Rule{Tool: "look", RoleFrom: []string{"argument:/x"}, Access: "read"}, rules.Rule{Tool: "make", Role: "r-orders"})
	for _, tt := range []struct{ picks, want string }{
		{"personal", "look"}, {"r-stock=read", "see look"}, {"r-stock=change", "move see look"}, {"r-orders=change", "move see look make"}, {"r-orders=read", "see look"},
	} {
		var got []string
		for _, tool := range []string{"move", "see", "look", "make", "other"} {
			if r.Lists(selected(t, tt.picks), roles, rules.Call{Tool: tool}) {
				got = append(got, tool)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.picks, got, tt.want)
		}
	}
}

// Other spellings of a path than the plain one are never allowed more, by rules
// that leave the rest open (decision V26).
func TestSpellings(t *testing.T) {
	spell := []func(string) string{
		func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		func(s string) string { return fmt.Sprintf("%%%02x%s", s[0], s[1:]) },
		func(s string) string { return fmt.Sprintf("%%25%02X%s", s[0], s[1:]) },
		func(s string) string { return s + ";v=1" }, func(s string) string { return s + "%3Bv=1" }, func(s string) string { return s + "%20" },
		func(s string) string { return "/" + s }, func(s string) string { return s + "/" }, func(s string) string { return s },
		func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "s", "ſ"), "k", "\u212a") },
	}
	rapid.Check(t, func(t *rapid.T) {
		r, err := rules.Compile([]rules.Rule{{Call: "* /api/v5/orders/stock", Touches: "admin"}, {Call: "* /**", Touches: "nothing"}}, "service")
		if err != nil {
			t.Fatal(err)
		}
		path, between := "", ""
		for _, s := range []string{"api", "v5", "orders", "stock"} {
			path += between + rapid.SampledFrom(spell).Draw(t, "spelling")(s)
			between = rapid.SampledFrom([]string{"/", "//", "%2F", "%2f", "\\", "%5C", "/%2F/", "%252F"}).Draw(t, "between")
		}
		path = "/" + path + rapid.SampledFrom([]string{"", "/", "//", ".json", ".json/", "%2Ejson"}).Draw(t, "end")
		if d := r.Decide(drawSet(t).Narrow(ada(true), nil), roles, http("GET", path)); d.Allowed {
			t.Fatalf("%s: %+v", path, d)
		}
	})
}

// Parting a path and writing it again gives the same decision, and no path brings
// the reader down.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/o/p", "/o//p/", "/o%2Fp", "/o;a/p.json", "/%", "/\\o", "/%25252525o", "/o/..", "/o/.%2e;"} {
		f.Add(seed)
	}
	r, err := rules.Compile([]rules.Rule{{Call: "* /o/p", Touches: "admin"}, {Call: "* /{x}/**", Touches: "nothing"}}, "deny")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		a := selected(t, "r-orders=change")
		d := r.Decide(a, roles, rules.Call{Method: "GET", Path: path})
		if d.Allowed && (d.Rule != 1 || !strings.HasPrefix(path, "/")) {
			t.Fatalf("%q: %+v", path, d)
		}
		if again := r.Decide(a, roles, rules.Call{Method: "GET", Path: strings.ReplaceAll(path, "/", "//")}); again != d {
			t.Fatalf("%q: %+v, with doubled slashes %+v", path, d, again)
		}
		if again := r.Decide(a, roles, rules.Call{Method: "GET", Path: strings.ToUpper(path)}); strings.Trim(strings.ToLower(path), "abcdefghijklmnopqrstuvwxyz/") == "" && again != d {
			t.Fatalf("%q: %+v, in capitals %+v", path, d, again)
		}
		if strings.HasPrefix(path, "/") && rules.Under(path, "/o") != rules.Under(path+"/", "/o") {
			t.Fatalf("%q: under differs with a slash", path)
		}
	})
}

// Whatever a pointer finds, encoding/json finds as well, and nothing else.
func FuzzPointer(f *testing.F) {
	f.Add("/a", `{"a":"r-orders"}`)
	f.Add("/a/b", `{"a":{"b":"r-orders","b":"r-stock"}}`)
	f.Add("/a~1b/~0", `{"a/b":{"~":"r-orders"}}`)
	f.Add("/", `{"":"r-orders"}`)
	f.Add("/A", `{"a":"r-orders"}`)
	f.Fuzz(func(t *testing.T, pointer, body string) {
		r, err := rules.Compile([]rules.Rule{{Tool: "t", RoleFrom: []string{"argument:" + pointer}}}, "")
		if err != nil {
			return
		}
		if d := r.Decide(selected(t, "r-orders=change"), roles, rules.Call{Tool: "t", Arguments: json.RawMessage(body)}); !d.Allowed {
			return
		}
		var at any
		if err := json.Unmarshal([]byte(body), &at); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			object, _ := at.(map[string]any)
			at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
		if at != "r-orders" {
			t.Fatalf("%s of %q is %v", pointer, body, at)
		}
	})
}
