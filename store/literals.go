package store

import "github.com/grantkeeper/grantkeeper/journal"

// The values that statements name in their own text, since an index over a part
// of the rows is used for constants, and never for parameters.
const (
	sqlCodeIssued = "1" // approval.CodeIssued
	sqlLive       = "2" // approval.Live
	sqlEnded      = "3" // approval.Ended

	sqlEnabled       = "0" // of a client's column disabled
	sqlNotConfigured = "2"
	sqlDeleted       = "3"

	sqlFalse = "0"
	sqlTrue  = "1"

	sqlRateLimited   = "'" + string(journal.RateLimited) + "'"
	sqlSignInFailed  = "'" + string(journal.SignInFailed) + "'"
	sqlSecondFactors = "('" + journal.SecondFactor + "', '" + journal.SecondFactorRepeated + "')"
)
