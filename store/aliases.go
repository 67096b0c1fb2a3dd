package store

import (
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// What the doors hand in and get back of directories, by their names here.
type (
	Directory       = directory.Directory
	DirectoryPerson = directory.Person
	DirectoryMember = directory.Member
	DirectoryAPIKey = directory.APIKey
	MembershipID    = directory.MembershipID
	Unsaid          = directory.Unsaid
	Filler          = directory.Filler
	Import          = directory.Import
	Imported        = directory.Imported
	Counts          = directory.Counts
	Change          = directory.Change
	Misplaced       = directory.Misplaced
	DirectoryEvent  = directory.Event
	Picture         = directory.Picture
	MemberRow       = directory.MemberRow
	RoleRow         = directory.RoleRow
)

// What signin and the operators' console hand in and get back of accounts, by their names
// here.
type (
	Session         = accounts.Session
	SessionInfo     = accounts.SessionInfo
	Acting          = accounts.Acting
	Entry           = accounts.Entry
	Farewell        = accounts.Farewell
	Factor          = accounts.Factor
	FactorUse       = accounts.FactorUse
	OperatorSession = accounts.OperatorSession
	PasswordChange  = accounts.PasswordChange
	SignIn          = accounts.SignIn
)

// Bounds and kinds of accounts, by their names here.
const (
	ActingLifetime      = accounts.ActingLifetime
	OperatorSessionMax  = accounts.OperatorSessionMax
	OperatorSessionIdle = accounts.OperatorSessionIdle
	ResetLifetime       = accounts.ResetLifetime
	AskedLifetime       = accounts.AskedLifetime
	MaxFactors          = accounts.MaxFactors
	MaxPasswordCosts    = accounts.MaxPasswordCosts
	FactorOneTime       = accounts.FactorOneTime
	FactorPasskey       = accounts.FactorPasskey
	FactorRecovery      = accounts.FactorRecovery
)

// What doors and commands hand in and get back of approvals, by their names here.
type (
	ApprovalFilter = approvals.ApprovalFilter
	ApprovalRow    = approvals.ApprovalRow
	Stamp          = approvals.Stamp
)

// EndedRetention is how long an ended approval stays listed.
const EndedRetention = approvals.EndedRetention

// What doors and commands hand in and get back of what organizations decide, by their names
// here.
type (
	Asking           = oversight.Asking
	Connection       = oversight.Connection
	ConnectionCounts = oversight.ConnectionCounts
	ConnectionFilter = oversight.ConnectionFilter
	Decision         = oversight.Decision
	PolicyError      = oversight.PolicyError
	Request          = oversight.Request
	RequestFilter    = oversight.RequestFilter
	RequestState     = oversight.RequestState
	Rules            = oversight.Rules
	Show             = oversight.Show
)

// Bounds and states of what organizations decide, by their names here.
const (
	AskAgainAfter        = oversight.AskAgainAfter
	MaxConnections       = oversight.MaxConnections
	MaxMessage           = oversight.MaxMessage
	RequestOpen          = oversight.RequestOpen
	RequestAllowed       = oversight.RequestAllowed
	RequestAllowedPerson = oversight.RequestAllowedPerson
	RequestDeclined      = oversight.RequestDeclined
	RequestWithdrawn     = oversight.RequestWithdrawn
	ShowUnreviewed       = oversight.ShowUnreviewed
	ShowUnused           = oversight.ShowUnused
	ShowEnding           = oversight.ShowEnding
	ShowBeyond           = oversight.ShowBeyond
)

// What doors and commands hand in and get back of records, by their names here.
type (
	ActivityFilter  = records.ActivityFilter
	AppTrouble      = records.AppTrouble
	AttemptFilter   = records.AttemptFilter
	Busy            = records.Busy
	Call            = records.Call
	EventFilter     = records.EventFilter
	ReasonCount     = records.ReasonCount
	Recorder        = records.Recorder
	RecorderFigures = records.RecorderFigures
	Recording       = records.Recording
	Sealed          = records.Sealed
)

// MaxFoundLen bounds what attempts are looked for by, in bytes.
const MaxFoundLen = records.MaxFoundLen

// ActivityAt is the time of a cursor that Activity gave, in Unix seconds; 0 of what is none.
func ActivityAt(cursor string) int64 { return records.ActivityAt(cursor) }
