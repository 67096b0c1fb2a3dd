package devserver

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/sample"
)

// The items of dev's organizations, one in a line: the kind, whose it is, and
// the title, perhaps with a text after a bar. Whose it is is a role, as the
// end of its ID, or a person after an @. An exclamation mark keeps an item of
// a role to its circle; a word after a colon is a status other than open. The
// ID is that of the organization with the title, so it is the same at every
// start.
var demoItems = map[string]string{
	"nordlys": `
tension  facilitator            Governance meetings run over time | Six of the last eight took longer than planned.
action   facilitator            Send the agenda two days ahead
project  facilitator            A shorter governance meeting
note     facilitator            How we run an integration round
action:done  facilitator        Book the room for the spring retreat
tension  circle-rep-product     The anchor circle hears of releases too late
action   circle-rep-product     Tell the anchor circle about the spring roadmap
note     circle-rep-product!    What Product asks of the anchor circle
project  treasurer              Budget for next year | One page for each circle; the sum comes last.
action   treasurer              Renew the domain
action:done  treasurer          Pay the hosting invoice
tension  treasurer              Invoices arrive in three different mailboxes
note     treasurer!             Salary bands under discussion | For the anchor circle, until they are agreed upon.
note     treasurer!             Account numbers of our suppliers
project  treasurer!             A second bank account
note:archived  treasurer        Rules for travel expenses until last year
note     secretary              Where the minutes are kept
action   secretary              Publish the minutes of Monday
tension  secretary!             Two votes were recorded differently
project:done  secretary         All minutes in one place
action   secretary!             Ask for the missing signatures
note     lead-link              What this circle is for
project  lead-link              Find somebody for the open roles
tension  lead-link!             Nobody decides between two urgent things
project  product-roadmap-steward      Roadmap for spring
tension  product-roadmap-steward      Two teams plan the same feature
action   product-roadmap-steward      Ask support for the ten most frequent wishes
note     product-roadmap-steward!     Ideas that are not ready to be shown
project  product-customer-interviews  Twelve conversations with new customers
action   product-customer-interviews  Write to the customers who left in March
note     product-customer-interviews  Questions that open a conversation
note     product-customer-interviews! Names of the customers we spoke to
tension  product-customer-interviews  Recordings are kept longer than we promised
project  platform-api-documentation   Examples for every endpoint
action   platform-api-documentation   Explain the refresh of tokens
tension  platform-api-documentation   Two pages contradict each other about limits
note     platform-api-documentation   Words that we use, and words that we avoid
action:done  platform-api-documentation  Draw the picture of the consent page
note     platform-on-call-coordinator!   Telephone numbers of the standby
action   platform-on-call-coordinator    Plan the standby for the holidays
tension  platform-on-call-coordinator    The same two people stand by every weekend
project  platform-on-call-coordinator    Fewer alarms at night
project  releases-release-captain     Release of the first of the month
action   releases-release-captain     Rehearse the rollback
tension  releases-release-captain!    The last release was hard to undo
note     releases-release-captain     Checklist before a release
action   releases-changelog-editor    Write the changelog of this month
note     releases-changelog-editor    What belongs into a changelog entry
tension  releases-changelog-editor!   Entries are written after the release
note     people-buddy                 The first week of a new colleague
action   people-buddy!                Plan the first day of our new colleague
project  people-workspace-host        Quieter corners in the workshop
tension  people-workspace-host        The meeting room is booked and stays empty
action   people-workspace-host        Order new whiteboard pens
action   @ada  Prepare my talk about roles
note     @ada  Things I want to learn this year | Sailing knots. Statistics. Less email.
tension  @ada  I say yes to too many meetings
action   @tor  Return the borrowed ladder
project  @tor  Read one book about facilitation
note     @tor  Questions for my next review`,
	"fjell": `
project  grants-reviewer         Review of the autumn applications
action   grants-reviewer         Read the applications from A to F
action   grants-reviewer         Read the applications from G to M
action:done  grants-reviewer     Agree on the questions for applicants
tension  grants-reviewer         Two reviewers know the same applicant
note     grants-reviewer         How we weigh need and reach
note     grants-reviewer!        First impressions of the applications
tension  grants-reviewer!        One budget does not add up
note:archived  grants-reviewer   Criteria of the year before
project  grants-archive-keeper   Ten years of reports in one archive
action   grants-archive-keeper   Label the boxes in the cellar
action   grants-archive-keeper   Scan the reports of the first year
tension  grants-archive-keeper   Old reports name people who wish to be forgotten
note     grants-archive-keeper   What is kept, and for how long
note     grants-archive-keeper!  Where the key of the cellar hangs
action:done  grants-archive-keeper!  Hand over the old keys
project  lead-link               A second round of grants
tension  lead-link               The next round has no date
action   lead-link               Invite the new members of the board
note     lead-link               What Fjell gives grants for
note     lead-link!              Talks with a second donor
action   @ada  Train to the meeting in Fjell
project  @ada  Write down what a good report looks like
note     @ada  My notes from the last round
tension  @ada  I read applications late in the evening`,
	"storhavn": `
action   @mei  Bring the new safety shoes
action   @mei  Call the pilot station about Thursday
action   @mei  Sort the drawer with the old plans
action:done  @mei  Hand in the travel expenses
action   @mei  Learn the names of the night shift
note     @mei  What I noticed on the crane tour
note     @mei  Books about tides
note     @mei  Who helped me in the first month
note     @mei  Ideas for the summer festival
project  @mei  Boat licence by autumn
project  @mei  Fewer roles, more time for each
project:archived  @mei  A garden on the roof of the terminal
tension  @mei  Twelve meetings on one Tuesday
tension  @mei  I am asked for things that others decide
tension  @mei  My phone rings during handover`,
	"havn": `
project  harbour-master    A new berth for visiting boats
action   harbour-master    Check the lights of the pier
tension  harbour-master    Visitors tie up where the ferry lands
note     harbour-master!   Code of the gate until it is changed
action   bookkeeper        Send the invoices for the berths
note     bookkeeper!       Who pays in instalments
note     @ola  Weather that keeps me awake
action   @ola  Paint my own boat`,
}

// storhavnItems are what every circle of Storhavn has, in the same form; the
// circle's name stands in for the percent sign.
var storhavnItems = `
tension  planner           Handover in % takes too long
action   budget-keeper     Compare the offers for %
action:done  supplier-contact  Order spare radios for %
project  improver          Fewer forms in %
note     facilitator       How meetings in % begin
note     safety-officer!   Near misses in % this quarter
tension  quality-reviewer! Work that % had to do twice
project  trainer           First-aid training for %
note:archived  archivist   Shift plans of % before the new rota`

// sampleItems are what dev's sample begins with.
func sampleItems() (all []sample.Item) {
	for _, o := range Organizations {
		all = append(all, itemsOf(o.ID, demoItems[o.ID], demoCircle{})...)
		if o.ID == "storhavn" {
			all = append(all, circleItems(o.ID, storhavnItems, o.circle)...)
		}
	}
	return all
}

// itemsOf gives an organization's items, each of which is named for its title.
func itemsOf(organization, items string, circle demoCircle) (all []sample.Item) {
	at, name := "", circle.name
	if circle.id == "anchor" {
		name = "the port"
	} else if circle.id != "" {
		at = circle.id + "-"
	}
	for line := range strings.Lines(strings.TrimSpace(items)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		owner, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		title, body, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(rest), "%", name), " | ")
		kind, status, _ := strings.Cut(kind, ":")
		if status == "" {
			status = "open"
		}
		i := sample.Item{ID: organization + "-" + slug(title), Organization: organization, Kind: kind, Title: title, Body: body, Status: status}
		if person, ok := strings.CutPrefix(owner, "@"); ok {
			i.Person = person
		} else {
			owner, i.Private = strings.CutSuffix(owner, "!")
			i.Role = fmt.Sprintf("%s-%s%s", organization, at, owner)
		}
		all = append(all, i)
	}
	return all
}

// circleItems gives items to a circle and to those in it.
func circleItems(organization, items string, circle demoCircle) []sample.Item {
	all := itemsOf(organization, items, circle)
	for _, sub := range circle.circles {
		all = append(all, circleItems(organization, items, sub)...)
	}
	return all
}
