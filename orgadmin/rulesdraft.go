package orgadmin

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
)

// A draft is rules as an admin is writing them. The page carries it sealed, so what is
// not saved is nowhere else. Base is what the admin was shown.
type draft struct {
	Base, Mine policy.Policy
}

// maxDraft bounds a draft that was unpacked: bytes. 1000 rules with the longest names,
// twice, are less.
const maxDraft = 8 << 20

// sealDraft packs it: rules of many apps are much alike, and the page carries them twice.
func (s *Server) sealDraft(organization string, d draft) (string, error) {
	plain, err := json.Marshal(d)
	if err != nil {
		return "", page.Wrap("draft", err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(plain) // a bytes.Buffer takes everything
	z.Close()
	return s.Ring.SealPage(sealedRules+organization, b.Bytes()), nil
}

// openDraft reads what sealDraft gave for the same organization.
func (s *Server) openDraft(organization, sealed string) (d draft, ok bool) {
	packed, _, ok := s.Ring.OpenPage(sealedRules+organization, sealed)
	if !ok {
		return d, false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return d, false
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxDraft))
	return d, err == nil && json.Unmarshal(plain, &d) == nil
}

// The days that the form offers.
var mostDays = []int{1, 7, 14, 30, 90}

// read takes what the form says of everything but the lists. Who sends anything else
// than the form leaves it as it was.
func (d *draft) read(form url.Values, impersonal bool) {
	p := &d.Mine
	one := func(name string, into *policy.Rule) {
		if r := policy.Rule(page.One(form, name)); slices.Contains(policy.Rules, r) && r != into.OrAllow() {
			*into = r
		}
	}
	one("default", &p.Unknown)
	one("known", &p.Known)
	for i := range p.Apps {
		one("rule:"+strconv.Itoa(i), &p.Apps[i].Rule)
	}
	if kind := grantset.Kind(page.One(form, "widest")); slices.Contains(grantset.Kinds, kind) && kind != widestOf(*p) {
		p.Ceiling.Widest = kind
	}
	p.Ceiling.ReadOnly = page.One(form, "readonly") == "1"
	if !impersonal {
		p.Ceiling.NoPersonal = page.One(form, "nopersonal") == "1"
	}
	if days := page.One(form, "days"); days == "" {
		p.MaxDays = 0
	} else if n, err := strconv.Atoi(days); err == nil && slices.Contains(mostDays, n) {
		p.MaxDays = n
	}
	switch page.One(form, "reviewed") {
	case "":
		p.ReviewDays = 0
	case "90":
		p.ReviewDays = 90
	case "365":
		p.ReviewDays = 365
	}
}

func widestOf(p policy.Policy) grantset.Kind { return cmp.Or(p.Ceiling.Widest, grantset.Organization) }

// forget takes rules out.
func (d *draft) forget(number string) {
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(d.Mine.Apps) {
		d.Mine.Apps = slices.Delete(slices.Clone(d.Mine.Apps), n, n+1)
	}
}

// never adds a role to those that are never given, or takes it out.
func (d *draft) never(role string, is bool) {
	all := slices.Clone(d.Mine.Ceiling.Never)
	switch at, there := slices.BinarySearch(all, role); {
	case is && !there:
		all = slices.Insert(all, at, role)
	case !is && there:
		all = slices.Delete(all, at, at+1)
	}
	d.Mine.Ceiling.Never = all
}

// onto takes what the draft changes to rules that others have changed meanwhile. Where
// both changed the same, the draft's stands.
func (d draft) onto(now policy.Policy) draft {
	was, mine, out := d.Base, d.Mine, now
	out.Unknown = theirs(was.Unknown.OrAllow() == mine.Unknown.OrAllow(), now.Unknown, mine.Unknown)
	out.Known = theirs(was.Known.OrAllow() == mine.Known.OrAllow(), now.Known, mine.Known)
	out.Ceiling.Widest = theirs(widestOf(was) == widestOf(mine), now.Ceiling.Widest, mine.Ceiling.Widest)
	out.Ceiling.ReadOnly = theirs(was.Ceiling.ReadOnly == mine.Ceiling.ReadOnly, now.Ceiling.ReadOnly, mine.Ceiling.ReadOnly)
	out.Ceiling.NoPersonal = theirs(was.Ceiling.NoPersonal == mine.Ceiling.NoPersonal, now.Ceiling.NoPersonal, mine.Ceiling.NoPersonal)
	out.MaxDays = theirs(was.MaxDays == mine.MaxDays, now.MaxDays, mine.MaxDays)
	out.ReviewDays = theirs(was.ReviewDays == mine.ReviewDays, now.ReviewDays, mine.ReviewDays)
	next := draft{now, out}
	for _, role := range was.Ceiling.Never {
		if !slices.Contains(mine.Ceiling.Never, role) {
			next.never(role, false)
		}
	}
	for _, role := range mine.Ceiling.Never {
		if !slices.Contains(was.Ceiling.Never, role) {
			next.never(role, true)
		}
	}
	next.Mine.Apps = appsOnto(was.Apps, mine.Apps, now.Apps)
	return next
}

// theirs chooses what stands: what the others made of it, unless the draft changes it.
func theirs[T any](same bool, now, mine T) T {
	if same {
		return now
	}
	return mine
}

func appsOnto(was, mine, now []policy.App) (out []policy.App) {
	before, own := byKey(was), byKey(mine)
	for _, a := range now {
		b, there := before[a.Key()]
		m, kept := own[a.Key()]
		switch {
		case there && !kept: // taken out of the draft
		case kept && (!there || b.Rule != m.Rule):
			out = append(out, m)
		default:
			out = append(out, a)
		}
	}
	present := byKey(now)
	for _, m := range mine {
		_, there := present[m.Key()]
		b, before := before[m.Key()]
		if !there && (!before || b.Rule != m.Rule) {
			out = append(out, m)
		}
	}
	return out
}

func byKey(apps []policy.App) map[policy.Key]policy.App {
	out := make(map[policy.Key]policy.App, len(apps))
	for _, a := range apps {
		out[a.Key()] = a
	}
	return out
}

// A changed is one difference between two rules.
type changed struct {
	What string // unknown, known, app, removed, widest, readonly, nopersonal, never, again, days or review
	App  policy.App
}

// differences are those of b from a, the rules of apps first.
func differences(a, b policy.Policy) (out []changed) {
	before, after := byKey(a.Apps), byKey(b.Apps)
	for _, app := range b.Apps {
		if was, there := before[app.Key()]; !there || was.Rule != app.Rule {
			out = append(out, changed{"app", app})
		}
	}
	for _, app := range a.Apps {
		if _, there := after[app.Key()]; !there {
			out = append(out, changed{"removed", app})
		}
	}
	for _, d := range []struct {
		what string
		is   bool
	}{
		{"unknown", a.Unknown.OrAllow() != b.Unknown.OrAllow()},
		{"known", a.Known.OrAllow() != b.Known.OrAllow()},
		{"widest", widestOf(a) != widestOf(b)},
		{"readonly", a.Ceiling.ReadOnly != b.Ceiling.ReadOnly},
		{"nopersonal", a.Ceiling.NoPersonal != b.Ceiling.NoPersonal},
		{"never", len(added(a.Ceiling.Never, b.Ceiling.Never)) > 0},
		{"again", len(added(b.Ceiling.Never, a.Ceiling.Never)) > 0},
		{"days", a.MaxDays != b.MaxDays},
		{"review", a.ReviewDays != b.ReviewDays},
	} {
		if d.is {
			out = append(out, changed{What: d.what})
		}
	}
	return out
}

// added are those of b that a has not.
func added(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(b), func(s string) bool { return slices.Contains(a, s) })
}

// blocks gives the apps that a draft blocks and that were not blocked before.
func (d draft) blocks() map[policy.Key]bool {
	out, before := map[policy.Key]bool{}, byKey(d.Base.Apps)
	for _, a := range d.Mine.Apps {
		if a.Rule == policy.Block && before[a.Key()].Rule != policy.Block {
			out[a.Key()] = true
		}
	}
	return out
}

// faulty gives the numbers of rules in their order.
func faulty(of map[int]string) []int { return slices.Sorted(maps.Keys(of)) }
