package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/fault"
)

// Clients says which clients are known beside those that register.
type Clients struct {
	MetadataDocuments []string `toml:"metadata_documents" env:"CLIENTS_METADATA_DOCUMENTS" doc:"hosts such as assistant.example whose clients need not register: a client ID is the https URL of a document there, which says what the client is; any, alone, is every public host; without one no document is fetched"` // decision R8
	Desktop           bool     `toml:"desktop" env:"CLIENTS_DESKTOP" doc:"whether assistants on a person's own computer can connect through grantkeeper connect"`
	Preregistered     []Client `toml:"preregistered" doc:"clients that need not register: public, PKCE only; one that is taken out is disabled. In a file without the table clients the list may be called that, as it was first"`
}

// Client is one preregistered client (decision R6).
type Client struct {
	ID           string   `toml:"id" doc:"its client ID"`
	Name         string   `toml:"name" doc:"its name on pages"`
	RedirectURIs []string `toml:"redirect_uris" doc:"1 to 5 https URIs, held to the rules of registration"`
}

// listed is Config with the list of preregistered clients under the name that it had
// first, where the table is now: TOML has no name for both, so a file has one of the
// two. go-toml takes the outer of two fields of one name.
type listed struct {
	*Config
	Clients []Client `toml:"clients"`
}

// The keys of the list in the two kinds of files.
const (
	listKey      = "clients.preregistered"
	firstListKey = "clients"
)

// listsClients reports whether a file has the list under its first name, in any case: what
// is spelt otherwise is told as that.
func listsClients(tree map[string]any) bool {
	for key, v := range tree {
		if _, list := v.([]any); list && strings.EqualFold(key, firstListKey) {
			return true
		}
	}
	return false
}

// unmarshal reads a file that checkKinds has passed.
func (l *Loaded) unmarshal(text []byte) error {
	if !l.listed {
		return toml.Unmarshal(text, &l.Config)
	}
	first := listed{Config: &l.Config}
	err := toml.Unmarshal(text, &first)
	l.Clients.Preregistered = first.Clients
	return err
}

// settingKey gives the key that a setting has for one of a file, and fileKey the
// one that such a file has for it, where the list has its first name.
func settingKey(key string, first bool) string {
	if rest, ok := strings.CutPrefix(key, firstListKey); first && ok && (rest == "" || rest[0] == '.') {
		return listKey + rest
	}
	return key
}

func fileKey(key string, first bool) string {
	if rest, ok := strings.CutPrefix(key, listKey); first && ok {
		return firstListKey + rest
	}
	return key
}

// asTable is what to do where a file has the list under its first name, and other
// settings of the table.
const asTable = "write [[" + listKey + "]] for [[" + firstListKey + "]], and the other settings of clients under [clients]"

// nearest proposes a setting for a key of a file that is none.
func nearest(key string, first bool) string {
	best := didYouMean(settingKey(key, first), fileKeys())
	if first && strings.HasSuffix(best, " "+key+"?") {
		return asTable
	}
	return strings.Replace(best, listKey+".", fileKey(listKey, first)+".", 1)
}

// checkClients holds preregistered clients to the rules of any other. A bad
// one stops the start (decision R6).
func (c *Checked) checkClients() error {
	key, seen := fileKey(listKey, c.listed), map[string]bool{}
	for i, one := range c.Clients.Preregistered {
		made, err := client.Preregistered(one.ID, one.Name, one.RedirectURIs, c.Hosts.Names())
		if err == nil && seen[one.ID] {
			err = errors.New("its id is given twice")
		}
		if err != nil {
			return fault.BadConfig("correct the entry [["+key+"]]", "%s[%d] %q: %v", key, i, one.ID, err)
		}
		seen[one.ID] = true
		c.Preregistered = append(c.Preregistered, made)
	}
	if c.Clients.Desktop {
		c.Preregistered = append(c.Preregistered, client.Desktop(c.Hosts.List()))
	}
	return nil
}

// checkDocuments reads whose metadata documents are believed. A host stands in one
// form, in which the host of a client ID is compared with it.
func (c *Checked) checkDocuments() error {
	hosts := c.Clients.MetadataDocuments
	if slices.Contains(hosts, client.AnyHost) && len(hosts) > 1 {
		return fault.BadConfig(`write metadata_documents = ["any"], or take any out`, "clients.metadata_documents: any stands alone")
	}
	for _, host := range hosts {
		if host == client.AnyHost {
			continue
		}
		if err := client.CheckDocumentHost(host, c.Hosts.Names()); err != nil {
			return fault.BadConfig(`write metadata_documents = ["assistant.example"]`, "clients.metadata_documents: %q: %v", host, err)
		}
	}
	return nil
}
