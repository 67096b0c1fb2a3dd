// Package accounts keeps who is signed in, and by what they prove who they are: sessions
// of people and of operators, passwords, second factors, subjects of providers, links to
// set a password, and support staff who act as somebody.
package accounts

import "github.com/grantkeeper/grantkeeper/store/engine"

// Accounts is safe for concurrent use.
type Accounts struct{ db engine.Handle }

// On gives those of an open database.
func On(db engine.Handle) *Accounts { return &Accounts{db} }
