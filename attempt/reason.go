package attempt

import "time"

// Reason is why an attempt came no farther. The codes are published, and stay.
type Reason string

// Result is what has become of an attempt.
type Result string

const (
	Open    Result = "open"   // it may still go on
	Worked  Result = "worked" // a call was answered
	Broken  Result = "failed" // something was wrong
	LeftOff Result = "left"   // the person did not approve: nothing has to be mended
)

var resultWords = map[Result]string{Open: "Going on", Worked: "Worked", Broken: "Failed", LeftOff: "Left"}

// Words says it to people.
func (r Result) Words() string { return resultWords[r] }

// Who can do something about it.
type Who string

const (
	Author   Who = "client"   // whoever writes the client
	Person   Who = "person"   // whoever uses it
	Admin    Who = "admin"    // an admin of the organization
	Operator Who = "operator" // whoever runs the server
)

// A Cause is a reason with its words.
type Cause struct {
	Code   Reason
	Result Result
	Who    Who
	Says   string        // what has happened
	Do     string        // what to do about it
	Wait   time.Duration // for one that nothing tells but time: how long it may still go on
}

const (
	RedirectLoopback   Reason = "redirect_uri_loopback"
	RedirectScheme     Reason = "redirect_uri_scheme"
	RedirectInvalid    Reason = "redirect_uri_invalid"
	RegistrationBody   Reason = "registration_body"
	RegistrationGrants Reason = "registration_grant_types"
	RegistrationName   Reason = "registration_name"
	MetadataPath       Reason = "metadata_path"
	NotFollowed        Reason = "discovery_not_followed"
	NotRegistered      Reason = "not_registered"
	BrowserNotSent     Reason = "browser_not_sent"

	DocumentURL            Reason = "document_url"
	DocumentHost           Reason = "document_host"
	DocumentPrivate        Reason = "document_private_address"
	DocumentUnreachable    Reason = "document_unreachable"
	DocumentStatus         Reason = "document_status"
	DocumentType           Reason = "document_content_type"
	DocumentLarge          Reason = "document_too_large"
	DocumentJSON           Reason = "document_json"
	DocumentClientID       Reason = "document_client_id"
	DocumentAuthentication Reason = "document_authentication"
	DocumentGrants         Reason = "document_grant_types"
	DocumentRedirects      Reason = "document_redirect_uris"
	DocumentName           Reason = "document_name"

	ClientUnknown     Reason = "client_unknown"
	ClientDisabled    Reason = "client_disabled"
	RedirectMismatch  Reason = "redirect_uri_mismatch"
	ResponseType      Reason = "response_type"
	PKCEMissing       Reason = "pkce_missing"
	PKCEMethod        Reason = "pkce_method"
	PKCEChallenge     Reason = "pkce_challenge"
	ScopeUnknown      Reason = "scope_unknown"
	ResourceUnknown   Reason = "resource_unknown"
	RequestMalformed  Reason = "request_malformed"
	PromptNotPossible Reason = "prompt_none"

	LeftAtSignIn       Reason = "left_at_sign_in"
	SignInFailed       Reason = "sign_in_failed"
	LeftAtSecondFactor Reason = "left_at_second_factor"
	ActingAs           Reason = "acting_as_somebody"
	NoOrganization     Reason = "no_organization"
	OrganizationBlocks Reason = "organization_blocks"
	OrganizationAsks   Reason = "organization_asks"
	Cancelled          Reason = "cancelled"
	Left               Reason = "left"
	CodeNotExchanged   Reason = "code_not_exchanged"

	TokenMethod       Reason = "token_method"
	TokenBody         Reason = "token_body"
	TokenParameter    Reason = "token_parameter"
	ClientCredentials Reason = "client_authentication"
	GrantType         Reason = "grant_type"
	PKCEVerifier      Reason = "pkce_verifier"
	PKCEMismatch      Reason = "pkce_mismatch"
	CodeExpired       Reason = "code_expired"
	CodeReused        Reason = "code_reused"
	CodeUnknown       Reason = "code_unknown"
	CodeOtherClient   Reason = "code_other_client"
	CodeOtherIssuer   Reason = "code_other_issuer"
	RedirectAtToken   Reason = "redirect_uri_at_token"
	DPoPProof         Reason = "dpop_proof"
	DPoPNonce         Reason = "dpop_nonce"
	DPoPKey           Reason = "dpop_key"
	TokenNeverUsed    Reason = "token_never_used"
	NoAuthorization   Reason = "authorization_missing"
	TokenInQuery      Reason = "token_in_query"
	TokenInHeader     Reason = "token_in_header"
	TokenWrongKind    Reason = "token_wrong_kind"
	TokenUnknown      Reason = "token_unknown"
	TokenLegacy       Reason = "token_at_old_api"
	AccessExpired     Reason = "access_expired"
	ApprovalEnded     Reason = "approval_ended"
	MCPVersion        Reason = "mcp_version"
	CORSHeader        Reason = "cors_header"
	RefreshUnknown    Reason = "refresh_unknown"
	RefreshReused     Reason = "refresh_reused"
	RefreshRace       Reason = "refresh_race"
	RateLimited       Reason = "rate_limited"
	ServerFault       Reason = "server_fault"
	ServerUnavailable Reason = "server_unavailable"
)
