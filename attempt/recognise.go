package attempt

// A Summary is what lists have of an attempt.
type Summary struct {
	ID string
	Keys
	Began, Last int64 // Unix milliseconds
	Reached     Step
	Outlook
}

// Summed gives the summary of a record.
func Summed(r Record) Summary {
	t := Read(r)
	return Summary{ID: r.ID, Keys: r.Keys, Began: r.Began(), Last: r.Last(), Reached: t.Reached, Outlook: t.Outlook}
}

// Pattern is what several attempts have in common.
type Pattern string

const (
	// RegistersAgain: one installation registers with each attempt, instead of
	// keeping its client ID.
	RegistersAgain Pattern = "registers_again"
	// FailsAlike: others came as far, for the same reason.
	FailsAlike Pattern = "fails_alike"
	// Mended: a later attempt of the same client worked.
	Mended Pattern = "worked_later"
)

// PatternWords say what a pattern means, and what to do about it.
var PatternWords = map[Pattern]struct{ Says, Do string }{
	RegistersAgain: {"The same app of the same person, or machine, registered anew each time.", "Register once and keep the client ID, with the tokens: an address has 20 registrations an hour, and what a person approved stays with the ID that it was given to."},
	FailsAlike:     {"Other attempts of this app ended for the same reason.", "Mend it once, in the app: it is not this person, nor this network."},
	Mended:         {"A later attempt of this app worked.", "Nothing, where the person has what they wanted."},
}

// A Sighting is a pattern, and how many other attempts show it.
type Sighting struct {
	Pattern Pattern
	Others  int
}

// minClients is how many client IDs of one installation are too many.
const minClients = 3

// Recognise finds what an attempt has in common with others, at a time in Unix
// milliseconds. The others may hold it too, and attempts of other apps, which are
// left out: an app is its name at its host, or, before it has one, its address.
func Recognise(one Summary, others []Summary, now int64) (found []Sighting) {
	ids := map[string]bool{one.Client: true}
	_, why := one.At(now)
	alike, later := 0, 0
	for _, o := range others {
		if o.ID == one.ID || !one.sameApp(o) {
			continue
		}
		result, reason := o.At(now)
		if why != "" && reason == why {
			alike++
		}
		if why != "" && result == Worked && o.Began > one.Began && (one.Person == "" || o.Person == one.Person) {
			later++
		}
		if one.Client != "" && o.Client != "" && one.sameInstallation(o) {
			ids[o.Client] = true
		}
	}
	if len(ids) >= minClients {
		found = append(found, Sighting{RegistersAgain, len(ids) - 1})
	}
	if alike > 0 {
		found = append(found, Sighting{FailsAlike, alike})
	}
	if later > 0 {
		found = append(found, Sighting{Mended, later})
	}
	return found
}

func (s Summary) sameApp(o Summary) bool {
	if s.Host != "" || o.Host != "" {
		return s.Host == o.Host && s.Name == o.Name
	}
	return s.Address != "" && s.Address == o.Address
}

func (s Summary) sameInstallation(o Summary) bool {
	return s.Person != "" && s.Person == o.Person || s.Address != "" && s.Address == o.Address
}
