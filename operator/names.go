package operator

// names finds what IDs are called, once for each page.
type names struct {
	s                              *console
	v                              *visit
	people, organizations, clients map[string]string
}

func (s *console) names(v *visit) *names {
	return &names{s, v, map[string]string{}, map[string]string{}, map[string]string{}}
}

// find gives the name that goes with an ID, and the ID of what has none or has
// gone.
func find(known map[string]string, id string, ask func() (string, error)) string {
	if id == "" {
		return ""
	}
	name, ok := known[id]
	if !ok {
		if n, err := ask(); err == nil {
			name = n
		}
		if name == "" {
			name = id
		}
		known[id] = name
	}
	return name
}

func (n *names) person(id string) string {
	return find(n.people, id, func() (string, error) {
		p, err := n.s.Store.Person(n.v.Context(), id)
		return p.Name, err
	})
}

func (n *names) organization(id string) string {
	return find(n.organizations, id, func() (string, error) {
		o, err := n.s.Store.Organization(n.v.Context(), id)
		return o.Name, err
	})
}

func (n *names) client(id string) string {
	return find(n.clients, id, func() (string, error) {
		c, err := n.s.Store.Client(n.v.Context(), id)
		if err == nil && c.Name == "" {
			return "(no name)", nil
		}
		return c.Name, err
	})
}
