package consent

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
)

// For how many days a person can give access, beside until they end it and the
// most that is allowed.
var endDays = []int{1, 7, 30}

// oneDay is what days are counted in.
const oneDay = 24 * time.Hour

// Faults of an end date.
const (
	endBeyond  grantset.Fault = "end_beyond"  // later than what is allowed
	endUnknown grantset.Fault = "end_unknown" // none that is offered
	noMore     grantset.Fault = "app_rule"    // the organization does not let the app be connected
)

// A bound is how long access lasts at most in an organization.
type bound struct {
	days int    // 0 is no bound
	by   string // whose it is: the organization's or the service's name
}

// boundOf gives the tighter one of the organization's and the operator's.
func (s *Server) boundOf(o grantset.Offer, p *policy.Policy) bound {
	own := 0
	if p != nil {
		own = p.MaxDays
	}
	switch most := s.MaxDays; {
	case most > 0 && (own == 0 || most < own):
		return bound{most, s.Service}
	case own > 0:
		return bound{own, o.Organization.Name}
	}
	return bound{}
}

// boundsOf are those of the organizations of a page where the app can be approved.
func (s *Server) boundsOf(all []ruling) (bounds []boundAt) {
	for i, at := range all {
		if at.rule == policy.Allow {
			bounds = append(bounds, boundAt{s.boundOf(at.Offer, at.policy), i})
		}
	}
	return bounds
}

// A boundAt is that of one organization of a page, by its place there.
type boundAt struct {
	bound
	place int
}

// readEnd gives for how many days the form gives access: 0 is until the person
// ends it.
func (b bound) readEnd(values []string) (days int, fault grantset.Fault) {
	switch {
	case len(values) > 1:
		return 0, endUnknown
	case len(values) == 0 || values[0] == "":
	case values[0] == "max" && b.days > 0:
		return b.days, ""
	default:
		days, _ = strconv.Atoi(values[0])
		if !slices.Contains(endDays, days) || values[0] != strconv.Itoa(days) {
			return 0, endUnknown
		}
	}
	if b.days > 0 && (days == 0 || days > b.days) {
		return 0, endBeyond
	}
	return days, ""
}

// endsAt is so many days from now in Unix seconds; 0 for no days.
func endsAt(days int, now time.Time) int64 {
	if days == 0 {
		return 0
	}
	return now.Add(time.Duration(days) * oneDay).Unix()
}

// shortened gives the end date that an editing form asks for, of an approval that
// ends at a time, 0 for none: sooner, or as it is. A page that was open for a while
// counts from now, and so a little later than it said.
func shortened(values []string, ends int64, now time.Time) (int64, grantset.Fault) {
	days, fault := bound{}.readEnd(values)
	switch at := endsAt(days, now); {
	case fault != "":
		return 0, fault
	case at == 0:
		return ends, ""
	case ends == 0 || at < ends:
		return at, ""
	case at-ends <= int64(pageLifetime/time.Second):
		return ends, ""
	}
	return 0, endUnknown
}

// endField is where a form says how long access lasts.
type endField struct {
	Options []endOption
	Limits  []classed // what the organizations allow
	Shorter bool      // it can only be made shorter
	most    bound     // in the chosen organization
}

// An endOption is one choice of it: Text is what it says, Until what the bar then
// says, for each organization where that differs.
type endOption struct {
	Value, Text string
	Chosen, Off bool
	Until       []classed
}

// Name is the option's value as part of a class.
func (o endOption) Name() string { return cmp.Or(o.Value, "0") }

// An classed shows while its organization is chosen: Class is empty where all are alike.
type classed struct {
	Class string
	Text  page.Said
}

// An ender puts days into words.
type ender struct {
	w   *page.Words
	now time.Time
}

func (e ender) on(days int) page.Moment { return page.On(endsAt(days, e.now), e.now) }

// option is a choice of so many days, which the message says.
func (e ender) option(value, message string, days int) endOption {
	return endOption{Value: value, Text: e.w.Say(message, "n", days, "date", e.on(days)).String(), Until: []classed{{Text: e.until(days)}}}
}

func (e ender) until(days int) page.Said { return e.w.Say("ends.until", "date", e.on(days)) }

// options are what can be chosen within one bound, and what cannot.
func (e ender) options(b bound) (out []endOption) {
	never := endOption{Text: e.w.Say("ends.never").String(), Until: []classed{{Text: e.w.Say("bar.until")}}}
	if b.days > 0 {
		never.Off, never.Text = true, e.w.Say("ends.never_not", "by", isolated(b.by)).String()
	}
	out = append(out, never)
	most := b.days > 0
	for _, days := range endDays {
		if most && days >= b.days {
			out, most = append(out, e.option("max", "ends.most", b.days)), false
		}
		one := e.option(strconv.Itoa(days), "ends.days", days)
		if b.days > 0 && days > b.days {
			one.Off, one.Text = true, e.w.Say("ends.beyond", "n", days, "by", isolated(b.by), "most", b.days).String()
		}
		if days != b.days {
			out = append(out, one)
		}
	}
	if most {
		out = append(out, e.option("max", "ends.most", b.days))
	}
	return out
}

// offerEnds shows how long access may last. bounds are those of the organizations
// on the page. Where they differ nothing is shut: which one is meant only the answer
// says, and the script before.
func (view *chooser) offerEnds(e ender, bounds []boundAt, value string) {
	f := &endField{}
	var most bound // of the chosen organization
	if len(bounds) > 0 {
		most = bounds[0].bound
	}
	alike := !slices.ContainsFunc(bounds, func(b boundAt) bool { return b.days != most.days })
	if f.Options = e.options(bound{}); alike {
		f.Options = e.options(most)
	}
	longest, chosen := endOption{Value: "max", Text: e.w.Say("ends.longest").String()}, alike
	for _, b := range bounds {
		o := &view.Organizations[b.place]
		o.Most = b.days
		if o.Chosen {
			most, chosen = b.bound, true
		}
		until := e.w.Say("bar.until")
		if b.days > 0 {
			until = e.until(b.days)
			f.Limits = append(f.Limits, classed{o.Class, e.w.Say("ends.limit", "n", b.days, "by", b.by)})
		}
		longest.Until = append(longest.Until, classed{o.Class, until})
	}
	if !alike {
		f.Options = append(f.Options, longest)
	}
	if _, fault := most.readEnd([]string{value}); fault != "" && chosen {
		value = ""
		if most.days > 0 {
			value = "max"
		}
	}
	f.most = most
	f.choose(value)
	view.Ends = f
}

// shorten shows how much sooner an approval may end that ends at a time, 0 for none.
func (view *chooser) shorten(e ender, ends int64, value string) {
	f := &endField{Shorter: true, Options: e.options(bound{})}
	if ends > 0 {
		keep := &f.Options[0]
		when := page.On(ends, e.now)
		keep.Text, keep.Until = e.w.Say("ends.keep", "date", when).String(), []classed{{Text: e.w.Say("ends.until", "date", when)}}
		f.Options = slices.DeleteFunc(f.Options, func(o endOption) bool {
			days, _ := strconv.Atoi(o.Value)
			return days > 0 && endsAt(days, e.now) >= ends
		})
	}
	f.choose(value)
	view.Ends = f
}

func (f *endField) choose(value string) {
	for i := range f.Options {
		f.Options[i].Chosen = f.Options[i].Value == value
	}
}

// isolated keeps a name from turning what stands beside it, where no element can.
func isolated(name string) string { return "\u2068" + name + "\u2069" }
