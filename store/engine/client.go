package engine

import (
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

// InsertClient adds a row. ErrConflict: the ID exists.
func (tx *Tx) InsertClient(c client.Client, network string) error {
	_, err := tx.Exec(`
		INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)`,
		c.ID, c.Name, strings.Join(c.RedirectURIs, "\n"), c.IssuedAt, Flag(c.Preregistered), Flag(c.Approved), Flag(c.Disabled), network)
	return err
}
