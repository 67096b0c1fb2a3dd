package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// stored are the values of a row, one after the other.
type stored struct {
	*sqlite3.Stmt
	at int
}

func (s *stored) Text() string {
	s.at++
	return s.ColumnText(s.at - 1)
}

func (s *stored) Number() int64 {
	s.at++
	return s.ColumnInt64(s.at - 1)
}

func (l loader) policies() error {
	of := engine.PolicyRows{}
	each := func(row func(engine.Cells) string) func(*sqlite3.Stmt) error {
		return func(st *sqlite3.Stmt) error {
			row(&stored{st, 0})
			return nil
		}
	}
	if err := l.each(engine.SelectPolicies, each(of.Policy)); err != nil {
		return err
	}
	if err := l.each(engine.SelectPolicyApps, each(of.App)); err != nil {
		return err
	}
	if err := l.each(engine.SelectPolicyNever, each(of.Never)); err != nil {
		return err
	}
	for _, c := range of.Changes(nil) {
		c.Apply(&l.m.Facts)
	}
	return nil
}
