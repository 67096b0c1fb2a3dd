package sample

// What tests from outside read.
type (
	ItemView = item
	ItemHead = itemHead
	Me       = me
	Named    = named
	Person   = person
	Circle   = circle
	Role     = roleOfAll
	Items    = page[itemHead]
	Roles    = page[roleOfAll]
	People   = page[person]
	Circles  = page[circle]
)

// Stored is an item as it is kept.
func Stored(s *Server, organization, kind, id string) (Item, error) {
	return s.items.get(organization, kind, id)
}

// Document is the document of the API, for tests from outside.
func Document() []byte { return document }

// Operations are the methods and paths of the code.
func Operations() (all []string) {
	for _, r := range routes {
		for _, o := range r.methods {
			all = append(all, o.method+" "+r.path)
		}
	}
	return all
}

// View gives an item as a caller sees it.
func View(h ItemHead, body string) ItemView { return item{h, body} }

// Decisions are what the service decides of a call, by what it is told alone.
type Decisions struct{ now rights }

// Decide reads a directory as GET /v1/directory gives it.
func Decide(c caller, directory []byte) (Decisions, error) {
	d, err := readDirectory(directory, "")
	return Decisions{rights{c, d}}, err
}

func (d Decisions) MayRead(i Item) bool   { return d.now.mayReadItem(i.place()) }
func (d Decisions) MayChange(i Item) bool { return d.now.mayChangeItem(i.place()) }
func (d Decisions) MayChangeSome() bool   { return d.now.mayChangeSome() }
func (d Decisions) MayReadAnything() bool { return d.now.mayRead() == nil }
func (d Decisions) Acts(role string) string {
	return d.now.acts(role)
}

// Why is why an item may not be put so; "" when it may.
func (d Decisions) Why(i Item) string { return words(d.now.mayPut(i.place())) }

// WhyNotAdminister is why the organization may not be changed; "" when it may.
func (d Decisions) WhyNotAdminister() string { return words(d.now.mayAdminister()) }

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Remove deletes an item by nobody's right.
func Remove(s *Server, organization, kind, id string) error {
	return s.items.remove(organization, kind, id, func(Item) error { return nil })
}
