package identity

import "fmt"

// Choose gives what an identity may do under another choice of its person, of
// which the two headers of these names would say grant and authority: a service
// that is asked what a choice would give (decision V44) decides it as it decides
// calls. Words that are not known are an error.
func (i Identity) Choose(grant, authority string) (Identity, error) {
	if grant != "roles" && grant != "everything" && grant != "organization" {
		return Identity{}, fmt.Errorf("%s: unknown word %q", HeaderGrant, grant)
	}
	chosen := Identity{Person: i.Person, Organization: i.Organization, Grant: grant}
	if err := chosen.readAuthority(authority); err != nil {
		return Identity{}, err
	}
	return chosen, nil
}
