// Package journal names what the entries of the journal are about (decision J1):
// a table of kinds, with what each means to people.
package journal

// Kind is what an entry is about, as rows and the API have it.
type Kind string

const (
	ClientRegistered     Kind = "client_registered"
	RegistrationRefused  Kind = "registration_refused"
	ClientDisabled       Kind = "client_disabled"
	ClientEnabled        Kind = "client_enabled"
	ClientExpired        Kind = "client_expired"
	ClientChanged        Kind = "client_changed"
	ApprovalGranted      Kind = "approval_granted"
	ApprovalCancelled    Kind = "approval_cancelled"
	ApprovalRefused      Kind = "approval_refused"
	ApprovalEdited       Kind = "approval_edited"
	CodeExchanged        Kind = "code_exchanged"
	CodeReused           Kind = "code_reused"
	RefreshReused        Kind = "refresh_reused"
	ApprovalEnded        Kind = "approval_ended"
	EndsSoon             Kind = "approval_ends_soon"
	RateLimited          Kind = "rate_limited"
	SignInSucceeded      Kind = "signin_succeeded"
	SignedOut            Kind = "signed_out"
	SignInFailed         Kind = "signin_failed"
	SignInThrottled      Kind = "signin_throttled"
	ImpersonationStarted Kind = "impersonation_started"
	ImpersonationStopped Kind = "impersonation_stopped"
	ImpersonationRefused Kind = "impersonation_refused"
	PolicyChanged        Kind = "policy_changed"
	RequestMade          Kind = "request_made"
	RequestWithdrawn     Kind = "request_withdrawn"
	RequestAllowed       Kind = "request_allowed"
	RequestDeclined      Kind = "request_declined"
	ConnectionsReviewed  Kind = "connections_reviewed"
	ConnectionsExported  Kind = "connections_exported"
	ReviewDue            Kind = "review_due"
	DirectoryChanged     Kind = "directory_changed"
	DirectoryRefused     Kind = "directory_refused"
	OperatorChanged      Kind = "operator_changed"
	OperatorSignedIn     Kind = "operator_signed_in"
	OperatorSignedOut    Kind = "operator_signed_out"
	KeyChanged           Kind = "key_changed"
	Restored             Kind = "restored"
)

// Tone is how loudly the console says that something happened.
type Tone string

const (
	Plain   Tone = ""
	Warning Tone = "warn"
	Bad     Tone = "bad"
)

// A Meaning is what a kind means to people.
type Meaning struct {
	Kind  Kind
	Words string // of the console
	Tone  Tone   // of the console; its overview shows those that are not plain
	Says  string // of docs/operator-api.md
}

// Meanings has every kind once, in the order of the console and of the docs.
var Meanings = []Meaning{
	{ClientRegistered, "Client registered", Plain, "a client registered itself, or came from the configuration"},
	{RegistrationRefused, "Registration refused", Plain, "what a client asked for at registration was refused"},
	{ClientDisabled, "Client disabled", Warning, "its approvals ended; `deleted` in the detail: for good"},
	{ClientEnabled, "Client enabled", Plain, "it may ask people again"},
	{ClientExpired, "Client expired", Plain, "deleted: nobody approved it in 14 days"},
	{ClientChanged, "Client changed", Plain, "its metadata document has another name, or other redirect URIs; the detail says how many approvals that ended"},
	{ApprovalGranted, "Approved", Plain, "a person approved a client"},
	{ApprovalCancelled, "Cancelled", Plain, "a person pressed Cancel"},
	{ApprovalRefused, "Approval refused", Warning, "what a consent page sent was refused; the reason says why"},
	{ApprovalEdited, "Approval changed", Plain, "a person changed what a client may do"},
	{CodeExchanged, "Connected", Plain, "a client got its first tokens"},
	{CodeReused, "Code used again", Bad, "a code came twice, and its approval ended"},
	{RefreshReused, "Refresh token used again", Bad, "a used refresh token came back, and its approval ended"},
	{ApprovalEnded, "Approval ended", Plain, "the reason says why"},
	{EndsSoon, "Access ends soon", Plain, "an approval ends in three days, and its person is told where mail is set up; the detail says when"},
	{RateLimited, "Rate limit", Warning, "once for an address and window"},
	{SignInSucceeded, "Signed in", Plain, "a person signed in"},
	{SignedOut, "Signed out", Plain, "a provider ended the sessions of a person"},
	{SignInFailed, "Sign-in failed", Plain, "a password, a second factor or a provider's answer was wrong, an operator's too"},
	{SignInThrottled, "Sign-in held back", Warning, "too many attempts"},
	{ImpersonationStarted, "Impersonation started", Plain, "support staff act as a person"},
	{ImpersonationStopped, "Impersonation stopped", Plain, "they stopped, or their hour was over"},
	{ImpersonationRefused, "Impersonation refused", Warning, "they tried what only that person may do, or to act as somebody whom they may not"},
	{PolicyChanged, "Rules changed", Plain, "an organization's rules for apps were changed; the detail says how many approvals that ended"},
	{RequestMade, "Request made", Plain, "a person asked the admins of an organization to allow an app, whose host is the detail"},
	{RequestWithdrawn, "Request withdrawn", Plain, "the person took that back"},
	{RequestAllowed, "Request allowed", Plain, "an admin allowed the app"},
	{RequestDeclined, "Request declined", Plain, "an admin did not allow the app; the reason says why"},
	{ConnectionsReviewed, "Connections reviewed", Plain, "an admin looked at approvals in an organization; the detail says how many"},
	{ConnectionsExported, "Connections exported", Plain, "an admin took a list of the approvals in an organization"},
	{ReviewDue, "Review due", Plain, "approvals in an organization are to be reviewed by its rules, and its admins are told where mail is set up; the detail says how many"},
	{DirectoryChanged, "Directory changed", Plain, "people, organizations, memberships, circles, roles or API keys"},
	{DirectoryRefused, "Directory event refused", Plain, "an event of a service's directory was refused or ignored"},
	{OperatorChanged, "Changed by an operator", Plain, "approvals ended, clients deleted or a backup made"},
	{OperatorSignedIn, "Operator signed in", Plain, "an operator signed in at the console by name; the detail says how"},
	{OperatorSignedOut, "Operator signed out", Plain, "an operator signed out there"},
	{KeyChanged, "Secret key changed", Warning, "a key was added, seals, or retired"},
	{Restored, "Restored from a backup", Warning, "a backup was put back"},
}

// Of gives what a kind means; a kind that is unknown means nothing.
func Of(k Kind) Meaning {
	for _, m := range Meanings {
		if m.Kind == k {
			return m
		}
	}
	return Meaning{Kind: k}
}

// Notable gives the kinds that are not plain.
func Notable() (kinds []Kind) {
	for _, m := range Meanings {
		if m.Tone != Plain {
			kinds = append(kinds, m.Kind)
		}
	}
	return kinds
}

// Names gives all kinds as texts.
func Names() []string {
	names := make([]string, len(Meanings))
	for i, m := range Meanings {
		names[i] = string(m.Kind)
	}
	return names
}

// Reasons of entries that others compare. An approval's end has those of
// package approval; most others are an operator's words.
const (
	OldVersion           = "old_version"            // of a DirectoryRefused: a later event is known
	SecondFactor         = "second_factor"          // of a SignInFailed
	SecondFactorRepeated = "second_factor_repeated" // of a SignInFailed: the person is told of it
)
