package console

// A nameCache finds the names of IDs, each once for a page.
type nameCache struct {
	s                              *Server
	v                              *visit
	people, organizations, clients map[string]string
}

func (s *Server) newNameCache(v *visit) *nameCache {
	return &nameCache{s, v, map[string]string{}, map[string]string{}, map[string]string{}}
}

// cachedName returns the name of an ID, and the ID itself where the object has no
// name or is deleted.
func cachedName(known map[string]string, id string, ask func() (string, error)) string {
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

func (n *nameCache) person(id string) string {
	return cachedName(n.people, id, func() (string, error) {
		p, err := n.s.API.Store.Person(n.v.Context(), id)
		return p.Name, err
	})
}

func (n *nameCache) organization(id string) string {
	return cachedName(n.organizations, id, func() (string, error) {
		o, err := n.s.API.Store.Organization(n.v.Context(), id)
		return o.Name, err
	})
}

func (n *nameCache) client(id string) string {
	return cachedName(n.clients, id, func() (string, error) {
		c, err := n.s.API.Store.Client(n.v.Context(), id)
		if err == nil && c.Name == "" {
			return "(no name)", nil
		}
		return c.Name, err
	})
}
