package oversight

import (
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// putPolicy writes rules in place of those that an organization had.
func putPolicy(tx *engine.Tx, organization string, p *policy.Policy) error {
	if _, err := tx.Exec(`
		INSERT INTO policy (organization, unknown_apps, known_apps, widest, read_only, no_personal, max_days, review_days, changed_by, changed_at, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (organization) DO UPDATE
		   SET unknown_apps = excluded.unknown_apps, known_apps = excluded.known_apps, widest = excluded.widest,
		       read_only = excluded.read_only, no_personal = excluded.no_personal, max_days = excluded.max_days,
		       review_days = excluded.review_days, changed_by = excluded.changed_by, changed_at = excluded.changed_at, version = excluded.version`,
		organization, string(p.Unknown), string(p.Known), string(p.Ceiling.Widest), engine.Flag(p.Ceiling.ReadOnly), engine.Flag(p.Ceiling.NoPersonal),
		int64(p.MaxDays), int64(p.ReviewDays), p.ChangedBy, p.ChangedAt, p.Version); err != nil {
		return err
	}
	for _, text := range []string{`DELETE FROM policy_app WHERE organization = $1`, `DELETE FROM policy_never WHERE organization = $1`} {
		if _, err := tx.Exec(text, organization); err != nil {
			return err
		}
	}
	for _, a := range p.Apps {
		if _, err := tx.Exec(`
			INSERT INTO policy_app (organization, host, name_key, person, name, rule, actor, decided_at, reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			organization, a.Host, client.NameKey(a.Name), a.Person, a.Name, string(a.Rule), a.By, a.At, a.Reason); err != nil {
			return err
		}
	}
	for _, role := range p.Ceiling.Never {
		if _, err := tx.Exec(`INSERT INTO policy_never (organization, role) VALUES ($1, $2)`, organization, role); err != nil {
			return err
		}
	}
	tx.Put(facts.PolicyChange{Organization: organization, Policy: p})
	return nil
}
