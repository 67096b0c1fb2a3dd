package store

// Kinds are those of the journal's entries (decision J1).
var Kinds = []string{
	"client_registered", "registration_refused", "client_disabled", "client_enabled", "client_expired",
	"approval_granted", "approval_cancelled", "approval_refused", "approval_edited", "approval_ended",
	"code_exchanged", "code_reused", "refresh_reused",
	"rate_limited", "signin_succeeded", "signin_failed", "signin_throttled",
	"impersonation_started", "impersonation_stopped", "impersonation_refused",
	"directory_changed", "directory_refused", "operator_changed", "key_changed", "restored", "signed_out",
}
