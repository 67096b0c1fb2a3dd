package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// AddDirectory adds or updates all that a directory names, in one transaction,
// and removes nothing. ErrNotFound names what refers to something that is not
// there, ErrConflict a doubled email or ID, an ID of another organization, or a
// circle that would be its own ancestor.
func (s *Store) AddDirectory(ctx context.Context, d directory.Directory, act Act) error {
	_, err := s.ImportDirectory(ctx, directory.Import{Directory: d}, act)
	return err
}

// ImportDirectory takes a directory in one transaction, or not at all. What is
// there as it came is not touched, so that a repeated import is no change.
// Errors are those of AddDirectory, mostly as Misplaced.
func (s *Store) ImportDirectory(ctx context.Context, i directory.Import, act Act) (out directory.Imported, err error) {
	var p *directory.Plan
	err = s.changeMany(func(tx *Tx) error {
		if p, err = tx.plan(i); err != nil || i.Dry {
			return err
		}
		return tx.carryOut(p, act)
	})
	if err != nil {
		return directory.Imported{}, err
	}
	if out = p.Out; i.Dry {
		out.Ended, err = s.wouldEnd(ctx, p)
		return out, err
	}
	ended, err := s.ends.Write(ctx)
	if err != nil {
		s.db.Log.Warn("rows are not marked ended yet", "err", err)
	}
	out.Ended += ended
	return out, nil
}

// carryOut writes what is planned. What is removed goes first: its email may have
// come to another person. It
// stops at the first error: the engine may have rolled back by then, and what
// came after would stand alone.
func (tx *Tx) carryOut(p *directory.Plan, act Act) error {
	if err := tx.remove(p); err != nil {
		return err
	}
	for _, o := range p.Organizations {
		if err := tx.switched(o, act); err != nil {
			return err
		}
	}
	for _, put := range []func() error{
		func() error { return tx.putPeople(p.People...) },
		func() error { return tx.putOrganizations(p.Organizations...) },
		func() error { return tx.putMembers(p.Members...) },
		func() error { return tx.putCircles(p.Circles...) },
		func() error { return tx.putRoles(p.Roles...) },
		func() error { return tx.putFillers(p.Fillers...) },
		func() error { return tx.putAPIKeys(p.Keys) },
	} {
		if err := put(); err != nil {
			return err
		}
	}
	ended, err := oversight.TakeRules(tx.Tx, p.Rules, act)
	if err != nil {
		return err
	}
	p.Out.Ended = ended
	return tx.tellImport(p, act)
}

// tellImport journals what has ended, one by one, and the rest in one entry.
// An import that changes nothing is no event.
func (tx *Tx) tellImport(p *directory.Plan, act Act) error {
	var entries []Event
	for _, e := range p.Ends {
		entries = append(entries, engine.Changed(e.Person, e.Organization, e.What, act))
	}
	if err := tx.Journal(entries...); err != nil {
		return err
	}
	if p.Version > 0 {
		if err := tx.PutMeta(asOfName, strconv.FormatInt(p.Version, 10)); err != nil {
			return err
		}
	}
	text := p.Out.String()
	switch {
	case text == "":
		return nil
	case p.About == nil:
		return tx.Changed("", "", text, act)
	case len(p.Ends) > 0:
		return nil
	}
	return tx.Changed(p.About.Person, p.About.Organization, p.About.What+": "+text, act)
}

// plan plans an import on the facts as they are in the transaction.
func (tx *Tx) plan(i directory.Import) (*directory.Plan, error) {
	p, err := directory.PlanImport(i, &tx.Memory.Facts, tx)
	if err == nil {
		err = accounts.CheckCosts(tx.Tx, p.Directory.People)
	}
	return p, err
}

// asOfName is what meta calls the version of the last directory that was taken.
const asOfName = "directory.as_of"

// AsOf implements directory.Source. A version beyond the bound, which was taken before there
// was one, counts as none: nothing would ever be newer.
func (tx *Tx) AsOf() (int64, error) {
	v, err := tx.Meta(asOfName)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	last, err := strconv.ParseInt(v, 10, 64)
	if last > directory.MaxAsOf {
		last = 0
	}
	return last, err
}

// Newer implements directory.Source.
func (tx *Tx) Newer(than int64) ([]string, error) {
	return engine.Column[string](tx.Query(`SELECT object FROM directory_version WHERE version > $1`, than))
}

// Keys implements directory.Source.
func (tx *Tx) Keys() ([]directory.KeyRow, error) {
	rows, err := tx.Query(`SELECT hash, person, organization, name FROM api_key ORDER BY person, organization, name, hash`)
	return engine.ListOf(rows, err, func(r engine.Scanner, k *directory.KeyRow) error {
		var hash []byte
		err := r.Scan(&hash, &k.Of.Person, &k.Of.Organization, &k.Name)
		copy(k.Hash[:], hash)
		return err
	})
}

// Passwords implements directory.Source.
func (tx *Tx) Passwords(people []string) (map[string]string, error) {
	return accounts.PasswordsOf(tx.Tx, people)
}
