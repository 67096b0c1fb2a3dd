package activity

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
)

func TestOutcomeOf(t *testing.T) {
	for status, want := range map[int]Outcome{
		200: Done, 201: Done, 204: Done, 303: Done, 399: Done, 400: Failed, 404: Failed, 409: Failed, 422: Failed, 429: Failed, 499: Failed,
		403: Refused, 500: Unanswered, 503: Unanswered, 0: Unanswered, 101: Unanswered, 199: Unanswered, 999: Unanswered,
	} {
		if got := OutcomeOf(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestDays(t *testing.T) {
	at := time.Date(2026, 11, 23, 10, 41, 7, 0, time.UTC)
	if got, want := Hour(at.Unix()), time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC).Unix(); got != want {
		t.Errorf("hour %d, want %d", got, want)
	}
	if got, want := Day(at.Unix())*24*3600, time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).Unix(); got != want {
		t.Errorf("day begins at %d, want %d", got, want)
	}
	first := FirstDay(at, Keep)
	if Day(at.Add(-Keep).Unix()) < first {
		t.Error("less is told than is kept")
	}
	if Day(at.Add(-Keep-24*time.Hour).Unix()) >= first {
		t.Error("a day more is told than is kept")
	}
}

func TestPath(t *testing.T) {
	long := strings.Repeat("a", 300)
	for target, want := range map[string]string{
		"/api/v5/actions/17":            "/api/v5/actions/17",
		"/api/v5/actions/17?key=secret": "/api/v5/actions/17",
		"/api/v5/actions#secret":        "/api/v5/actions",
		"/api/v5/actions/?a?b":          "/api/v5/actions/",
		"":                              "",
		"?secret":                       "",
		"/a\x7f":                        "/a%7F",
		"/" + strings.Repeat("a-", 50):  "/" + strings.Repeat("a-", 50),
		strings.Repeat("/abcdefghi-", 23) + "/abcd": strings.Repeat("/abcdefghi-", 22) + "/…",
		strings.Repeat("/abcdefg", 32):              strings.Repeat("/abcdefg", 32),
		"*":                                         "*",
		"/a%2Fb/%3Fc":                               "/a%2Fb/%3Fc",
		"/caf\u00e9/\x00\x1b \xff":                  "/caf%C3%A9/%00%1B%20%FF",
		"/a/svo_" + long[:43]:                       "/a/…",
		"/a/" + long[:40]:                           "/a/…",
		"/a/" + long[:39]:                           "/a/" + long[:39],
		"/a/" + strings.ReplaceAll(long[:40], "a", "%61"): "/a/…",
		"/a/" + long[:20] + "%61" + long[:19]:             "/a/…",
		"/" + strings.Repeat("a-", 51):                    "/…",
		"/o/0123456789abcdef0123456789abcdef":             "/o/0123456789abcdef0123456789abcdef",
		"/o/123e4567-e89b-12d3-a456-426614174000/x":       "/o/123e4567-e89b-12d3-a456-426614174000/x",
		"/" + strings.Repeat("ab-cd/", 60):                "/" + strings.Repeat("ab-cd/", 42)[:251] + "/…",
	} {
		got := Path(target)
		if len(got) > maxPath {
			t.Errorf("%q: %d bytes", target, len(got))
		}
		if got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}

// What is kept is within its bounds, shows as it is, and stays as it is when it is
// cleaned again.
func FuzzClean(f *testing.F) {
	f.Add("PATCH", "/api/v5/actions/17?x=y", "move_order", "no_role", "Budget", "changed", 3)
	f.Add("\x00", "/a\u202eb//%00/…", strings.Repeat("x", 500), strings.Repeat("ä", 100), "\u202eabc", "burnt", -1)
	f.Fuzz(func(t *testing.T, method, target, tool, reason, text, did string, count int) {
		r := Clean(Record{Method: method, Path: target, Tool: tool, Reason: reason,
			Item: identity.Item{ID: text, Title: text + method, Kind: tool, Detail: text, Role: reason, Did: identity.Did(did), Count: count}})
		if again := Clean(r); again != r {
			t.Errorf("cleaned again: %+v, then %+v", r, again)
		}
		for name, one := range map[string]struct {
			text string
			most int
		}{"method": {r.Method, 16}, "path": {r.Path, maxPath}, "tool": {r.Tool, maxTool}, "reason": {r.Reason, 64},
			"id": {r.Item.ID, 400}, "title": {r.Item.Title, 400}, "kind": {r.Item.Kind, 400}, "detail": {r.Item.Detail, 400}, "role": {r.Item.Role, 64}} {
			switch {
			case len(one.text) > one.most:
				t.Errorf("%s: %d bytes", name, len(one.text))
			case !utf8.ValidString(one.text):
				t.Errorf("%s: not UTF-8", name)
			case strings.ContainsFunc(one.text, func(r rune) bool {
				return unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
			}):
				t.Errorf("%s: %q has a control", name, one.text)
			case name != "role" && name != "reason" && name != "method" && hasToken(one.text):
				t.Errorf("%s: %q may be a token", name, one.text)
			}
		}
		if strings.ContainsAny(r.Path, "?#") {
			t.Errorf("the path has a query: %q", r.Path)
		}
		if r.Item.Count < 0 || r.Item.Count > identity.MaxItemCount {
			t.Errorf("count %d", r.Item.Count)
		}
	})
}

// circles of the roles in the tests here.
var circles = map[string]string{"treasurer": "money", "secretary": "board", "buddy": "general"}

func viewer(m org.Member, own bool) Viewer {
	return Viewer{Member: m, Own: own, Person: "ada", Circle: func(role string) string { return circles[role] }}
}

func TestTell(t *testing.T) {
	ada := org.NewMember("ada", "nordlys", false, []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "money"}})
	tor := org.NewMember("tor", "nordlys", true, []org.Role{{ID: "secretary", Organization: "nordlys", Circle: "board"}})
	for _, tt := range []struct {
		name               string
		item               identity.Item
		own, admin, nobody Hidden
	}{
		{"open", identity.Item{Title: "x", Role: "secretary"}, "", "", HiddenAll},
		{"private to a circle of the person's", identity.Item{Title: "x", Role: "treasurer", Private: true}, "", HiddenPrivate, HiddenAll},
		{"private to a circle of the admin's", identity.Item{Title: "x", Role: "secretary", Private: true}, HiddenPrivate, "", HiddenAll},
		{"private to a role that is gone", identity.Item{Title: "x", Role: "gone", Private: true}, HiddenPrivate, HiddenPrivate, HiddenAll},
		{"private to nobody knows whom", identity.Item{Title: "x", Private: true}, HiddenPrivate, HiddenPrivate, HiddenAll},
		{"personal", identity.Item{Title: "x", Personal: true}, "", HiddenPersonal, HiddenAll},
		{"personal, and private", identity.Item{Title: "x", Personal: true, Private: true, Role: "secretary"}, "", HiddenPersonal, HiddenAll},
		{"deleted", identity.Item{Title: "x", Did: identity.Deleted}, "", HiddenDeleted, HiddenAll},
		{"private, deleted", identity.Item{Title: "x", Did: identity.Deleted, Role: "buddy", Private: true}, "", HiddenPrivate, HiddenAll},
		{"personal, deleted", identity.Item{Title: "x", Did: identity.Deleted, Personal: true}, "", HiddenPersonal, HiddenAll},
		{"deleted later", identity.Item{Title: "x", ID: "d"}, "", HiddenDeleted, HiddenAll},
		{"private later", identity.Item{Title: "x", ID: "p", Role: "buddy"}, HiddenPrivate, HiddenPrivate, HiddenAll},
		{"moved later to another circle", identity.Item{Title: "x", ID: "m", Role: "treasurer", Private: true}, HiddenPrivate, "", HiddenAll},
		{"personal later", identity.Item{Title: "x", ID: "o"}, "", HiddenPersonal, HiddenAll},
		{"nothing told", identity.Item{}, "", "", ""},
	} {
		r := Record{Method: "PATCH", Path: "/notes/x", Outcome: Done, Item: tt.item}
		for _, who := range []struct {
			name string
			v    Viewer
			want Hidden
		}{{"own", viewer(ada, true), tt.own}, {"admin", viewer(tor, false), tt.admin}, {"nobody", viewer(org.Member{}, false), tt.nobody}} {
			who.v.Learn([]Record{
				{Outcome: Done, Item: identity.Item{ID: "d", Did: identity.Deleted}}, {Outcome: Done, Item: identity.Item{ID: "d"}},
				{Outcome: Refused, Item: identity.Item{ID: "p"}}, {Outcome: Done, Item: identity.Item{ID: "p", Private: true}}, {Outcome: Done, Item: identity.Item{ID: "p"}},
				{Outcome: Done, Item: identity.Item{ID: "o", Personal: true}}, {Outcome: Done, Item: identity.Item{ID: "m", Role: "secretary"}},
			})
			got, why := who.v.Tell(r)
			if why != who.want {
				t.Errorf("%s to %s: hidden %q, want %q", tt.name, who.name, why, who.want)
			}
			if why == "" && got != r || why != "" && (got.Item.Title != "" || strings.Contains(got.Path, "x")) {
				t.Errorf("%s to %s: %+v", tt.name, who.name, got)
			}
		}
	}
}

// Nobody is told the title of an item that they may not read now (decision V72), but the person of one
// that is deleted; and what is told otherwise is what is kept.
func TestTellProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	roles := []string{"treasurer", "secretary", "buddy", "gone", ""}
	pick := func(of []string) string { return of[random.IntN(len(of))] }
	for range 20_000 {
		var fills []org.Role
		for r, c := range circles {
			if random.IntN(2) == 0 {
				fills = append(fills, org.Role{ID: r, Organization: "nordlys", Circle: c})
			}
		}
		person := pick([]string{"ada", "tor"})
		m := org.NewMember(person, "nordlys", random.IntN(2) == 0, fills)
		if random.IntN(8) == 0 {
			m = org.Member{}
		}
		own := person == "ada" && m.Exists() && random.IntN(3) > 0
		item := identity.Item{ID: pick([]string{"", "1", "2"}), Title: "title", Kind: "note", Detail: "detail", Role: pick(roles), Private: random.IntN(2) == 0,
			Personal: random.IntN(3) == 0, Did: identity.Did(pick([]string{"", "changed", "deleted"}))}
		v := viewer(m, own)
		r := Record{Path: "/notes/title", Method: "PUT", Outcome: Done, Item: item}
		got, why := v.Tell(r)
		as := org.Item{Organization: "nordlys", Role: item.Role, Circle: circles[item.Role], Private: item.Private}
		if item.Personal {
			as = org.Item{Organization: "nordlys", Person: "ada"}
		}
		plain := m
		plain.Admin = false
		gone := item.Did == identity.Deleted
		may := plain.MayRead(as) && !gone && (own || !item.Personal) || gone && own
		if may != (why == "") || may != (got.Item.Title == "title") {
			t.Fatalf("%+v to %s (own %t, admin %t, fills %v): hidden %q, want it told: %t", item, person, own, m.Admin, fills, why, may)
		}
		if why != "" && strings.Contains(got.Path+got.Item.Detail+got.Item.Title+got.Item.ID, "t") {
			t.Fatalf("hidden, and says %+v", got)
		}
		if got.Item.Kind != item.Kind || got.Item.Role != item.Role || got.Method != r.Method || got.Outcome != r.Outcome {
			t.Fatalf("%+v says less than who did what: %+v", r, got)
		}
	}
}

func TestGaps(t *testing.T) {
	g := Session{ID: "s", Opened: 10, Written: 100, Seen: 102}.Ended(140)
	if g != (Gap{"s", 100, 140, Stopped}) {
		t.Errorf("%+v", g)
	}
	if g := (Session{ID: "s", Written: 150}).Ended(140); g.From > g.To {
		t.Errorf("ends before it begins: %+v", g)
	}
	if Under(50, 0) != 50 || Under(50, 30) != 30 || Under(50, 60) != 50 {
		t.Error("under way")
	}
	for _, tt := range []struct {
		name           string
		created, ended int64
		touches        bool
		from, to       int64
	}{
		{"lives before and after", 1, 0, true, 100, 140},
		{"made within", 120, 0, true, 120, 140},
		{"made at its end", 140, 0, true, 140, 140},
		{"made after", 141, 0, false, 0, 0},
		{"ended at its beginning", 1, 100, true, 100, 100},
		{"ended before", 1, 99, false, 0, 0},
		{"ended within", 1, 130, true, 100, 130},
		{"made and ended within", 110, 130, true, 110, 130},
	} {
		if got := g.Touches(tt.created, tt.ended); got != tt.touches {
			t.Errorf("%s: touches %t", tt.name, got)
		}
		if w := g.Within(tt.created, tt.ended); tt.touches && (w.From != tt.from || w.To != tt.to) {
			t.Errorf("%s: %+v", tt.name, w)
		}
	}
	open := Gap{From: 100, Why: Off}
	if !open.Touches(500, 0) || open.Within(1, 0).To != 0 || open.Within(1, 300).To != 300 || open.Touches(1, 99) {
		t.Error("one that goes on")
	}
}

// Whatever was acknowledged while a session was open, and was not written, lies in the gap
// that the session leaves.
func TestGapProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 20_000 {
		now, written, pending := int64(1000), int64(1000), []int64(nil)
		for range random.IntN(30) {
			now += int64(random.IntN(5))
			switch random.IntN(3) {
			case 0:
				pending = append(pending, now)
			case 1:
				written, pending = Under(now, 0), nil
			}
		}
		g := Session{Written: written}.Ended(now + int64(random.IntN(100)))
		for _, at := range pending {
			if at < g.From || at > g.To {
				t.Fatalf("answered at %d, the gap is %d to %d", at, g.From, g.To)
			}
		}
	}
}

func TestLatestGapFirst(t *testing.T) {
	a, b := Gap{ID: "a", From: 1}, Gap{ID: "b", From: 2}
	if a.Compare(b) <= 0 || b.Compare(a) >= 0 || a.Compare(a) != 0 {
		t.Error("order")
	}
}

// What a service would not have been let say is not kept, whoever says it.
func TestClean(t *testing.T) {
	run := func(text string) string { return strings.Repeat(text, 40) }
	for _, tt := range []struct {
		name      string
		item, was identity.Item // the second is what is kept
	}{
		{"as it is", identity.Item{ID: "17", Title: "Büdget", Kind: "order", Detail: "Text", Role: "r:1", Did: identity.Closed, Count: 3},
			identity.Item{ID: "17", Title: "Büdget", Kind: "order", Detail: "Text", Role: "r:1", Did: identity.Closed, Count: 3}},
		{"controls", identity.Item{ID: "a\nb", Title: "\x00", Kind: "\u202e", Detail: "\x1b[1m"}, identity.Item{}},
		{"a role", identity.Item{Role: strings.Repeat("!", 63) + "~"}, identity.Item{Role: strings.Repeat("!", 63) + "~"}},
		{"a long role", identity.Item{Role: strings.Repeat("r", 65)}, identity.Item{}},
		{"a role with a space", identity.Item{Role: "a b"}, identity.Item{}},
		{"a role beyond ASCII", identity.Item{Role: "é"}, identity.Item{}},
		{"what is not known to be done", identity.Item{Did: "burnt"}, identity.Item{}},
		{"fewer than none", identity.Item{Count: -1}, identity.Item{}},
		{"too many", identity.Item{Count: identity.MaxItemCount + 1}, identity.Item{Count: identity.MaxItemCount}},
		{"tokens", identity.Item{ID: run("a"), Title: "x " + run("z"), Kind: run("A"), Detail: run("Z")}, identity.Item{ID: Cut, Title: Cut, Kind: Cut, Detail: Cut}},
		{"tokens of digits", identity.Item{ID: run("0"), Title: run("9"), Kind: run("%61")[:99] + "b"}, identity.Item{ID: Cut, Title: Cut, Kind: run("%61")[:99] + "b"}},
		{"no tokens", identity.Item{ID: run("`"), Title: run("{"), Kind: run("@"), Detail: run("[")}, identity.Item{ID: run("`"), Title: run("{"), Kind: run("@"), Detail: run("[")}},
		{"nor these", identity.Item{ID: run("/"), Title: run(":"), Kind: strings.Repeat("a", 39) + "-" + strings.Repeat("a", 39)},
			identity.Item{ID: run("/"), Title: run(":"), Kind: strings.Repeat("a", 39) + "-" + strings.Repeat("a", 39)}},
	} {
		if got := Clean(Record{Item: tt.item}).Item; got != tt.was {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.was)
		}
	}
	for _, did := range []identity.Did{identity.Created, identity.Changed, identity.Closed, identity.Deleted, identity.Viewed} {
		if got := Clean(Record{Item: identity.Item{Did: did}}).Item.Did; got != did {
			t.Errorf("%s is %q", did, got)
		}
	}
	for method, want := range map[string]string{"PROPPATCH-ABCDEF": "PROPPATCH-ABCDEF", "PROPPATCH-ABCDEFG": "PROPPATCH-ABC…", "PROPPATCH-ABéééé": "PROPPATCH-AB…", "G\x00T": "G\uFFFDT"} {
		if got := Clean(Record{Method: method}).Method; got != want {
			t.Errorf("%q is %q, want %q", method, got, want)
		}
	}
}

// What is written for programs is what is told.
func TestLines(t *testing.T) {
	r := Record{ID: "1", Path: "/notes/x", Outcome: Done, Item: identity.Item{ID: "x", Title: "x", Detail: "x", Kind: "note", Did: identity.Changed}}
	if got := (Viewer{}).Line(r); got.Title != "" || got.Detail != "" || got.Path != Cut || got.Kind != "note" {
		t.Errorf("to nobody: %+v", got)
	}
	ada := org.NewMember("ada", "nordlys", false, nil)
	if got := viewer(ada, true).Line(r); got.Title != "x" || got.Detail != "x" || got.Path != "/notes/x" || got.Did != "changed" {
		t.Errorf("to its person: %+v", got)
	}
}

// The bounds are what decisions V70 and V71 say, and what is at one is kept whole.
func TestBounds(t *testing.T) {
	if Keep != 2160*time.Hour || MostChanges != 20000 || MostRefusals != 1000 || MostKinds != 20 {
		t.Errorf("%v, %d, %d, %d", Keep, MostChanges, MostRefusals, MostKinds)
	}
	words := strings.Repeat("list the notes, ", 8) // 128 bytes
	if got := Clean(Record{Tool: words}).Tool; got != words {
		t.Errorf("%q", got)
	}
	if got := Clean(Record{Tool: words + "."}).Tool; len(got) != len(words) || !strings.HasSuffix(got, Cut) {
		t.Errorf("%q", got)
	}
	segment := strings.Repeat("two-", 25) // 100 bytes
	if got := Path("/" + segment); got != "/"+segment {
		t.Error(got)
	}
	if got := Path("/" + segment + "-"); got != "/"+Cut {
		t.Error(got)
	}
	if got := Clean(Record{Item: identity.Item{Title: "a\xff", Kind: "b\xfec"}}).Item; got.Title != "a\uFFFD" || got.Kind != "b\uFFFDc" {
		t.Errorf("%+v", got)
	}
}

// A second is enough for what ends or goes on in it.
func TestFirstSecond(t *testing.T) {
	if w := (Gap{From: 0}).Within(0, 1); w.To != 1 {
		t.Errorf("%+v", w)
	}
	if w := (Gap{From: 50, To: 100}).Within(1, 300); w.To != 100 {
		t.Errorf("of one that ended before: %+v", w)
	}
	if w := (Gap{To: 100}).Within(0, 1); w.To != 1 {
		t.Errorf("of an approval that ended before: %+v", w)
	}
	if Under(50, 1) != 1 {
		t.Error("what began in the first second")
	}
}

// What was said of an item without an ID says nothing of another one.
func TestTellWithoutAnID(t *testing.T) {
	v := viewer(org.NewMember("ada", "nordlys", false, nil), true)
	v.Latest = map[string]identity.Item{"": {Private: true, Role: "secretary"}}
	if got, why := v.Tell(Record{Item: identity.Item{Title: "Agenda", Did: identity.Changed}}); got.Item.Title != "Agenda" || why != "" {
		t.Errorf("%+v, %s", got, why)
	}
}
