package engine

import "github.com/grantkeeper/grantkeeper/journal"

// The values that statements name in their own text, since an index over a part
// of the rows is used for constants, and never for parameters.
const (
	SQLCodeIssued = "1" // approval.CodeIssued
	SQLLive       = "2" // approval.Live
	SQLEnded      = "3" // approval.Ended

	SQLEnabled       = "0" // of a client's column disabled
	SQLNotConfigured = "2"
	SQLDeleted       = "3"

	SQLFalse = "0"
	SQLTrue  = "1"

	SQLRateLimited   = "'" + string(journal.RateLimited) + "'"
	SQLSignInFailed  = "'" + string(journal.SignInFailed) + "'"
	SQLSecondFactors = "('" + journal.SecondFactor + "', '" + journal.SecondFactorRepeated + "')"
)

// How a client's row says that it is disabled.
const (
	Enabled            = 0
	DisabledByOperator = 1
	NotConfigured      = 2 // was preregistered, and was taken out (decision R6)
	Deleted            = 3 // a tombstone, because an epoch never starts again (decision P12)
)
