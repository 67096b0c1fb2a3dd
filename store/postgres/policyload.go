package postgres

import "github.com/grantkeeper/grantkeeper/store/engine"

// cells are the values of a row for engine.PolicyRows.
type cells struct{ *columns }

func (c cells) Text() string  { return c.text() }
func (c cells) Number() int64 { return c.number() }

func (l *factLoad) policies() error {
	of := engine.PolicyRows{}
	for _, one := range []struct {
		text string
		row  func(engine.Cells) string
	}{{engine.SelectPolicies, of.Policy}, {engine.SelectPolicyApps, of.App}, {engine.SelectPolicyNever, of.Never}} {
		err := l.rows("policy", factQuery{one.text, `organization = ANY($1)`}, func(c *columns) string { return one.row(cells{c}) }, nil)
		if err != nil {
			return err
		}
	}
	for _, c := range of.Changes(l.keys["policy"]) {
		l.put(c)
	}
	return nil
}
