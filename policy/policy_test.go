package policy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// A block is for a host and all below it, whatever the name and whoever asks; the other
// rules for one host and name, first for the person, then for everybody; else the
// default. Without rules everything is allowed (decision P18).
func TestDecide(t *testing.T) {
	p := &Policy{Unknown: Ask, Known: Block, Apps: []App{
		{Host: "bad.example", Rule: Block},
		{Host: "notes.example", Name: "Notes", Rule: Ask},
		{Host: "notes.example", Name: "Notes", Person: "ann", Rule: Allow},
		{Host: "notes.example", Name: "Tasks", Rule: Allow},
		{Host: "ann.example", Name: "Ann's", Person: "ann", Rule: Allow},
		{Host: "tasks.example", Name: "Tasks", Person: "ann", Rule: Allow},
		{Host: "tasks.example", Name: "Tasks", Rule: Ask},
	}}
	for _, tt := range []struct {
		host, name, person string
		known              bool
		want               Rule
		by                 int // of the rules for apps, -1 is the default
	}{
		{"bad.example", "Notes", "ann", false, Block, 0},
		{"bad.example", "", "bob", true, Block, 0},
		{"a.b.bad.example", "Anything", "ann", false, Block, 0},
		{"notbad.example", "Bad", "ann", false, Ask, -1},
		{"example", "Bad", "ann", false, Ask, -1},
		{"notes.example", "Notes", "bob", false, Ask, 1},
		{"notes.example", "NOTES!", "bob", true, Ask, 1},
		{"notes.example", "Notes", "ann", false, Allow, 2},
		{"notes.example", "Tasks", "bob", false, Allow, 3},
		{"notes.example", "Other", "bob", false, Ask, -1},
		{"notes.example", "Other", "bob", true, Block, -1},
		{"a.notes.example", "Notes", "bob", false, Ask, -1},
		{"ann.example", "Ann's", "bob", false, Ask, -1},
		{"ann.example", "Ann's", "ann", false, Allow, 4},
		{"ann.example", "Ann's", "", false, Ask, -1},
		{"tasks.example", "Tasks", "ann", false, Allow, 5}, // in whatever order
		{"tasks.example", "Tasks", "bob", false, Ask, 6},
	} {
		got, by := p.Decide(client.Hosts{App: tt.host}, tt.name, tt.person, tt.known)
		var want *App
		if tt.by >= 0 {
			want = &p.Apps[tt.by]
		}
		if got != tt.want || by != want {
			t.Errorf("%s %q for %s: %s by %+v", tt.host, tt.name, tt.person, got, by)
		}
	}
	for _, none := range []*Policy{nil, {}} {
		if got, by := none.Decide(client.Hosts{App: "bad.example"}, "Notes", "ann", true); got != Allow || by != nil || none.Limit() != nil || none.Latest(5) != 0 {
			t.Errorf("no rules: %s %+v", got, by)
		}
	}
	if c := (&Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}).Limit(); c == nil || !c.ReadOnly {
		t.Errorf("%+v", c)
	}
	if got := (&Policy{MaxDays: 2}).Latest(5); got != 5+2*86400 {
		t.Errorf("%d", got)
	}
}

// What contradicts itself, is out of bounds or cannot be meant is refused, and says why.
func TestCheck(t *testing.T) {
	block := App{Host: "bad.example", Rule: Block}
	named := func(host, name string, r Rule) App { return App{Host: host, Name: name, Rule: r} }
	many := slices.Repeat([]App{block}, MaxApps+1)
	for want, p := range map[string]Policy{
		"":                           {Unknown: Ask, Known: Allow, Apps: []App{block, named("good.example", "X", Ask), {Host: "good.example", Name: "X", Person: "ann", Rule: Allow}}, MaxDays: MaxDays, ReviewDays: 365, Ceiling: grantset.Ceiling{Never: []string{"r1", "r2"}}},
		"allow, ask or block":        {Unknown: "deny"},
		"a rule is allow":            {Known: "Allow"},
		"1 to 3650 days":             {MaxDays: MaxDays + 1},
		"at most 1":                  {MaxDays: -1},
		"90 or 365":                  {ReviewDays: 91},
		"more than 1000":             {Apps: many},
		"widest access":              {Ceiling: grantset.Ceiling{Widest: "all"}},
		"in order":                   {Ceiling: grantset.Ceiling{Never: []string{"r2", "r1"}}},
		"each once":                  {Ceiling: grantset.Ceiling{Never: []string{"r1", "r1"}}},
		"no role \"r9\"":             {Ceiling: grantset.Ceiling{Never: []string{"r9"}}},
		"never given to apps: an ID": {Ceiling: grantset.Ceiling{Never: []string{""}}},
		"More than 500":              {Ceiling: grantset.Ceiling{Never: slices.Repeat([]string{"r1"}, MaxNever+1)}},
		"write it as bad.example":    {Apps: []App{{Host: "Bad.example", Rule: Block}}},
		"a-labels":                   {Apps: []App{{Host: "b\u00fccher.example", Rule: Block}}},
		"end with a dot":             {Apps: []App{{Host: "bad.example.", Rule: Block}}},
		"cannot be an app's":         {Apps: []App{{Host: "localhost", Rule: Block}}},
		"nor a port":                 {Apps: []App{{Host: "bad.example:8443", Rule: Block}}},
		"neither allow":              {Apps: []App{{Host: "bad.example"}}},
		"markup":                     {Apps: []App{named("good.example", "<b>", Ask)}},
		"blocked for one person":     {Apps: []App{{Host: "bad.example", Person: "ann", Rule: Block}}},
		"at most 200":                {Apps: []App{{Host: "bad.example", Rule: Block, Reason: strings.Repeat("x", 201)}}},
		"control characters":         {Apps: []App{{Host: "bad.example", Rule: Block, Reason: "a\nb"}}},
		"no control":                 {Apps: []App{{Host: "bad.example", Rule: Block, Reason: "a\xff"}}},
		"two rules":                  {Apps: []App{named("good.example", "X", Ask), named("good.example", " x", Allow)}},
		"never holds":                {Apps: []App{named("bad.example", "X", Allow), block}},
		"bad.example is blocked":     {Apps: []App{block, named("a.bad.example", "X", Ask)}},
		"X\" at bad.example never":   {Apps: []App{block, named("bad.example", "X", Ask)}},
	} {
		err := p.Check(func(id string) bool { return id == "r1" || id == "r2" })
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want))):
			t.Errorf("%s: %v", want, err)
		}
	}
	none := func(string) bool { return false }
	for kind, p := range map[error]Policy{
		ErrFull: {Apps: many}, ErrNever: {Ceiling: grantset.Ceiling{Never: slices.Repeat([]string{"r1"}, MaxNever+1)}}, ErrNoRole: {Ceiling: grantset.Ceiling{Never: []string{"r9"}}},
	} {
		if err := p.Check(none); !errors.Is(err, kind) || err.Error() == kind.Error() {
			t.Errorf("%v: %v", kind, err)
		}
	}
	if err := (&Policy{Apps: []App{{Host: "bad.example", Rule: Block, Reason: strings.Repeat("ø", MaxReason)}}}).Check(nil); err != nil {
		t.Errorf("a reason as long as it may be: %v", err)
	}
	for _, p := range []Policy{{Apps: slices.Repeat([]App{block}, MaxApps)}, {Ceiling: grantset.Ceiling{Never: slices.Repeat([]string{"r1"}, MaxNever)}}} {
		if err := p.Check(nil); errors.Is(err, ErrFull) || errors.Is(err, ErrNever) {
			t.Errorf("as many as there can be: %v", err)
		}
	}
	if err := (&Policy{Ceiling: grantset.Ceiling{Never: []string{"r9"}}}).Check(nil); err != nil {
		t.Errorf("roles are not asked for: %v", err)
	}
	for _, kind := range grantset.Kinds {
		if err := (&Policy{Unknown: Block, Known: Block, Ceiling: grantset.Ceiling{Widest: kind}, ReviewDays: 90}).Check(nil); err != nil {
			t.Errorf("at most %s: %v", kind, err)
		}
	}
}

// An app that says in a document what it is has two hosts, where it likes: a block of
// either is for it, and an admin is asked by what names either. What allows it names the
// document's.
func TestDecideOfTwoHosts(t *testing.T) {
	blocked := App{Host: "bad.example", Rule: Block}
	doc, back := client.Hosts{App: "doc.example", Back: "back.example"}, client.Hosts{App: "back.example", Back: "doc.example"}
	for name, tt := range map[string]struct {
		at   client.Hosts
		apps []App
		want Rule
	}{
		"the document's host is blocked":           {client.Hosts{App: "bad.example", Back: "back.example"}, []App{blocked}, Block},
		"the address is":                           {client.Hosts{App: "doc.example", Back: "bad.example"}, []App{blocked}, Block},
		"one below it":                             {client.Hosts{App: "doc.example", Back: "x.bad.example"}, []App{blocked}, Block},
		"an allowed document, a blocked address":   {client.Hosts{App: "doc.example", Back: "bad.example"}, []App{{Host: "doc.example", Name: "N", Rule: Allow}, blocked}, Block},
		"an allowed address, a blocked document":   {client.Hosts{App: "bad.example", Back: "back.example"}, []App{{Host: "back.example", Name: "N", Rule: Allow}, blocked}, Block},
		"the document's host is allowed":           {doc, []App{{Host: "doc.example", Name: "n", Rule: Allow}}, Allow},
		"the address alone is":                     {back, []App{{Host: "doc.example", Name: "n", Rule: Allow}}, Ask},
		"the address asks":                         {doc, []App{{Host: "back.example", Name: "n", Rule: Ask}}, Ask},
		"the address asks of somebody else":        {doc, []App{{Host: "back.example", Name: "n", Person: "bob", Rule: Ask}}, Ask},
		"an admin has allowed what the other asks": {doc, []App{{Host: "doc.example", Name: "n", Rule: Allow}, {Host: "back.example", Name: "n", Rule: Ask}}, Allow},
	} {
		if got, _ := (&Policy{Unknown: Ask, Apps: tt.apps}).Decide(tt.at, "N", "ann", false); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	open := &Policy{Apps: []App{{Host: "back.example", Name: "n", Rule: Ask}, {Host: "back.example", Name: "m", Person: "bob", Rule: Ask}}}
	for name, want := range map[string]Rule{"N": Ask, "M": Allow} {
		if got, _ := open.Decide(doc, name, "ann", false); got != want {
			t.Errorf("%s, where others are allowed: %s", name, got)
		}
	}
	hosts := []Connection{{App: client.Hosts{App: "doc.example", Back: "bad.example"}}, {App: client.Hosts{App: "a.bad.example", Back: "x.example"}}, {App: doc}}
	if got := Effects(nil, &Policy{Apps: []App{blocked}}, 1, slices.Values(hosts)); !reflect.DeepEqual(got, []Effect{{Host: "bad.example", Connections: 2}}) {
		t.Errorf("effects: %+v", got)
	}
}

func TestEffects(t *testing.T) {
	role := org.Role{ID: "r1", Organization: "o", Circle: "c"}
	admin, member := org.NewMember("ann", "o", true, []org.Role{role}), org.NewMember("bob", "o", false, []org.Role{role})
	everything, whole := grantset.Set{Kind: grantset.Everything}, grantset.Set{Kind: grantset.Organization}
	picked := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "r1"}}}
	all := []Connection{
		{client.Hosts{App: "a.bad.example"}, member, everything, 0}, {client.Hosts{App: "x.example"}, member, everything, 0}, {client.Hosts{App: "x.example"}, admin, whole, 500},
		{client.Hosts{App: "y.example"}, member, picked, 90_000}, {client.Hosts{App: "y.example"}, org.Member{}, everything, 86_600},
	}
	added := slices.Clone(all) // personal items to roles, which changes no number that an admin sees
	for i := range added {
		added[i].Grant.Personal = added[i].Grant.Kind == grantset.Roles
	}
	for name, tt := range map[string]struct {
		before, after *Policy
		want          []Effect
	}{
		"nothing":            {nil, nil, nil},
		"the same":           {&Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, &Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, nil},
		"more than before":   {&Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, &Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything}}, nil},
		"all of them again":  {&Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, &Policy{Ceiling: grantset.Ceiling{NoPersonal: true}}, nil},
		"lifted":             {&Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, nil, nil},
		"a block":            {nil, &Policy{Apps: []App{{Host: "bad.example", Rule: Block}}}, []Effect{{Host: "bad.example", Connections: 1}}},
		"a rule that asks":   {nil, &Policy{Apps: []App{{Host: "x.example", Name: "X", Rule: Ask}, {Host: "x.example", Name: "Y", Person: "ann", Rule: Allow}}}, nil},
		"a block by default": {nil, &Policy{Unknown: Block, Known: Block}, nil},
		"no admin":           {nil, &Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything}}, []Effect{{Ceiling: grantset.NoAdmin, Connections: 1}}},
		"roles only":         {nil, &Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, []Effect{{Ceiling: grantset.RolesOnly, Connections: 3}}},
		"one more": {&Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, &Policy{Ceiling: grantset.Ceiling{ReadOnly: true, NoPersonal: true, Never: []string{"r1"}}},
			[]Effect{{Ceiling: grantset.KeepPersonal, Connections: 2}, {Ceiling: grantset.NeverGiven, Connections: 4}}},
		"to read":                          {nil, &Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, []Effect{{Ceiling: grantset.ReadsOnly, Connections: 3}}},
		"to read, what was picked to read": {&Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, &Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles, ReadOnly: true}}, nil},
		"days":                             {nil, &Policy{MaxDays: 1}, []Effect{{EndsAt: 86_600, Connections: 3}}},
		"a block, and days": {nil, &Policy{MaxDays: 1, Apps: []App{{Host: "x.example", Rule: Block}, {Host: "bad.example", Rule: Block}}},
			[]Effect{{Host: "bad.example", Connections: 1}, {Host: "x.example", Connections: 2}, {EndsAt: 86_600, Connections: 1}}},
	} {
		if got := Effects(tt.before, tt.after, 200, slices.Values(all)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if got := Effects(tt.before, tt.after, 200, slices.Values(added)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s, with personal items: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestJSON(t *testing.T) {
	p := Policy{Unknown: Ask, Apps: []App{{Host: "b.example", Name: "B", Person: "ann", Rule: Allow, By: "admin:tor", At: 7, Reason: "why"}, {Host: "a.example", Rule: Block}},
		Ceiling: grantset.Ceiling{Widest: grantset.Everything, ReadOnly: true, NoPersonal: true, Never: []string{"r2", "r1", "r2"}}, MaxDays: 30, ReviewDays: 90, ChangedBy: "admin:tor", ChangedAt: 9, Version: 3}
	const want = `{"unknown":"ask","known":"allow","apps":[{"host":"a.example","name":"","rule":"block"},{"host":"b.example","name":"B","person":"ann","rule":"allow","by":"admin:tor","at":7,"reason":"why"}],` +
		`"widest":"everything","read_only":true,"no_personal":true,"never":["r1","r2"],"max_days":30,"review_days":90,"changed_by":"admin:tor","changed_at":9,"version":3}`
	if got := string(p.JSON()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, err := Read([]byte(want)); err != nil || !reflect.DeepEqual(got, p.Tidy()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := (Policy{Unknown: Allow, Known: Allow, Apps: []App{}, Ceiling: grantset.Ceiling{Widest: grantset.Organization, Never: []string{}}}).Tidy(); !reflect.DeepEqual(got, Policy{}) {
		t.Errorf("what is the default is said: %+v", got)
	}
	if got, err := Read(Policy{}.JSON()); err != nil || !reflect.DeepEqual(got, Policy{}) {
		t.Errorf("no rules are read as %+v, %v", got, err)
	}
	for _, text := range []string{``, `[]`, `null`, `{"Unknown":"ask"}`, `{"unknown":"ask","unknown":"ask"}`, `{"unknown":1}`, `{"unknown":null}`, `{"max_days":1.5}`, `{"max_days":"1"}`,
		`{"apps":[{"host":"a.example","client":"x"}]}`, `{"apps":[1]}`, `{"apps":{}}`, `{"never":["a",1]}`, `{"read_only":"true"}`, `{} {}`} {
		if got, err := Read([]byte(text)); err == nil || !reflect.DeepEqual(got, Policy{}) {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// What a directory says are rules is read as everybody's rules are, and checked; null is
// none. Who decided it, and when, says nothing.
func TestReadTold(t *testing.T) {
	for _, none := range []string{`null`, `{}`, `{"unknown":"allow","known":"allow","apps":[],"widest":"organization","never":[],"max_days":0}`} {
		if p, err := ReadTold([]byte(none)); err != nil || !Same(&p, nil) {
			t.Errorf("%s: %+v, %v", none, p, err)
		}
	}
	for _, text := range []string{``, `nil`, `[]`, `"null"`, ` null `, `{"unknown":"deny"}`, `{"Unknown":"ask"}`, `{"unknown":"ask","unknown":"ask"}`, `{"max_days":-1}`, `{"rules":{}}`, `{"apps":null}`,
		`{"apps":[{"host":"b\u00fccher.example","rule":"block"}]}`, `{"apps":[{"host":"A.example","rule":"block"}]}`, `{"apps":[{"host":"a.example.","rule":"block"}]}`, `{"apps":[{"host":"a.example:443","rule":"block"}]}`} {
		if p, err := ReadTold([]byte(text)); err == nil || !reflect.DeepEqual(p, Policy{}) {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	p, err := ReadTold([]byte(`{"never":["r2","r1"],"apps":[{"host":"b.example","name":"B","rule":"ask","by":"x","at":4}],"version":3,"changed_by":"y","changed_at":5}`))
	if err != nil || !p.Names("r1") || p.Names("r3") || (*Policy)(nil).Names("r1") {
		t.Errorf("%+v, %v", p, err)
	}
	same := p
	same.Version, same.ChangedBy, same.ChangedAt, same.Unknown = 9, "z", 8, Allow
	same.Apps = []App{{Host: "b.example", Name: "B", Rule: Ask, By: "q", At: 1}}
	if !Same(&p, &same) || p.Apps[0].By != "x" {
		t.Errorf("%+v is not %+v", p, same)
	}
	if u := p.Unsigned(); u.Version != 0 || u.ChangedBy != "" || u.ChangedAt != 0 || u.Apps[0].By != "" || u.Apps[0].At != 0 || u.Apps[0].Host != "b.example" || p.Apps[0].At != 4 {
		t.Errorf("%+v of %+v", u, p)
	}
	if same.Apps[0].Reason = "other"; Same(&p, &same) || Same(&p, nil) || Same(nil, &p) || !Same(nil, nil) || !Same(nil, &Policy{Version: 2}) {
		t.Error("what differs is the same")
	}
}

// What is read is written in one form, which is read as the same.
func FuzzRead(f *testing.F) {
	f.Add(Policy{}.JSON())
	f.Add([]byte(`{"apps":[{"host":"b","name":"B"},{"host":"b","name":"b"}],"never":["b","a"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(text)
		if err != nil {
			return
		}
		once := p.JSON()
		again, err := Read(once)
		if err != nil || !reflect.DeepEqual(again, p) || string(again.JSON()) != string(once) {
			t.Fatalf("%s: %s, %v", text, once, err)
		}
	})
}
