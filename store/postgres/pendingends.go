package postgres

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// pendingEndRows finds approvals that stand on facts which have ended since the rows
// were last written, by the facts' names and so by index, and codes that nobody
// can ask for any more.
const pendingEndRows = `
	SELECT a.id FROM fact_change f JOIN approval a ON a.person = f.key JOIN person p ON p.id = f.key
	 WHERE f.what = 'person' AND f.version > $1 AND a.phase < ` + engine.SQLEnded + ` AND a.person_epoch <> p.epoch
	UNION
	SELECT a.id FROM fact_change f
	  JOIN membership m ON m.person = split_part(f.key, ' ', 1) AND m.organization = split_part(f.key, ' ', 2)
	  JOIN approval a ON a.person = m.person AND a.organization = m.organization
	 WHERE f.what = 'membership' AND f.version > $1 AND a.phase < ` + engine.SQLEnded + ` AND a.membership_epoch <> m.epoch
	UNION
	SELECT a.id FROM fact_change f JOIN approval a ON a.organization = f.key JOIN organization o ON o.id = f.key
	 WHERE f.what = 'organization' AND f.version > $1 AND a.phase < ` + engine.SQLEnded + ` AND a.organization_epoch <> o.epoch
	UNION
	SELECT a.id FROM fact_change f JOIN approval a ON a.client = f.key JOIN client c ON c.id = f.key
	 WHERE f.what = 'client' AND f.version > $1 AND a.phase < ` + engine.SQLEnded + ` AND a.client_epoch <> c.epoch
	UNION
	SELECT id FROM approval WHERE phase = ` + engine.SQLCodeIssued + ` AND created_at > $2 AND created_at <= $3 AND issued_at <= $3
	UNION
	SELECT id FROM approval WHERE ends_at > 0 AND ended_at = 0 AND ends_at <= $5 AND phase = ` + engine.SQLLive + `
	UNION
	SELECT a.id FROM approval a
	  JOIN person p ON p.id = a.person JOIN organization o ON o.id = a.organization JOIN client c ON c.id = a.client
	  JOIN membership m ON m.person = a.person AND m.organization = a.organization
	 WHERE $4 AND a.phase < ` + engine.SQLEnded + ` AND (a.person_epoch <> p.epoch OR a.organization_epoch <> o.epoch
	       OR a.client_epoch <> c.epoch OR a.membership_epoch <> m.epoch)`

// PendingEnds asks the rows.
func (p *Engine) PendingEnds(ctx context.Context, issued time.Time) (out []approval.ID, done func() error, err error) {
	ctx = context.WithoutCancel(ctx)
	var version, written, at int64
	if err := p.DB.QueryRowContext(ctx, `
		SELECT f.version, l.version, l.at FROM facts f CROSS JOIN lease l WHERE f.one = 1 AND l.name = 'sweep'`).
		Scan(&version, &written, &at); err != nil {
		return nil, nil, engine.Unavailable("pending ends", err)
	}
	var all bool
	if err := p.DB.QueryRowContext(ctx, `
		SELECT COUNT(*) > 0 FROM fact_change WHERE what = '*' AND version > $1`, written).Scan(&all); err != nil {
		return nil, nil, engine.Unavailable("pending ends", err)
	}
	expired := issued.Unix()
	ids, err := engine.Column[[]byte](p.DB.QueryContext(ctx, pendingEndRows, written, at-2*int64(engine.PageLife/time.Second), expired, all, p.Now().Unix()))
	if err != nil {
		return nil, nil, engine.Unavailable("pending ends", err)
	}
	for _, id := range ids {
		out = append(out, approval.ID(id))
	}
	return out, func() error {
		_, err := p.DB.ExecContext(ctx, `
			UPDATE lease SET version = GREATEST(version, $1), at = GREATEST(at, $2)
			 WHERE name = 'sweep' AND (version < $1 OR at < $2)`, version, expired)
		if err != nil {
			return engine.Unavailable("pending ends", err)
		}
		return nil
	}, nil
}
