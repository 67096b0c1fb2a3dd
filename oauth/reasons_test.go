package oauth

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
)

// The reason of an attempt is found in the words of package client: when these change,
// the reason stays.
func TestRegistrationReasons(t *testing.T) {
	uri := func(u string) string { return `{"redirect_uris":["` + u + `"]}` }
	fine := `"redirect_uris":["https://app.example/cb"]`
	for body, want := range map[string]attempt.Reason{
		uri("http://localhost:4000/cb"):                                   attempt.RedirectLoopback,
		uri("http://127.0.0.1/cb"):                                        attempt.RedirectLoopback,
		uri("http://[::1]:9/cb"):                                          attempt.RedirectLoopback,
		uri("https://localhost/cb"):                                       attempt.RedirectLoopback,
		uri("https://127.0.0.1/cb"):                                       attempt.RedirectLoopback,
		uri("https://10.0.0.1/cb"):                                        attempt.RedirectLoopback,
		uri("https://intranet/cb"):                                        attempt.RedirectLoopback,
		uri("http://app.example/cb"):                                      attempt.RedirectScheme,
		uri("cursor://cb"):                                                attempt.RedirectScheme,
		uri("com.app:/cb"):                                                attempt.RedirectScheme,
		uri("https://app.example/cb#x"):                                   attempt.RedirectInvalid,
		uri("https://a:b@app.example/cb"):                                 attempt.RedirectInvalid,
		`{` + fine + `,"grant_types":["client_credentials"]}`:             attempt.RegistrationGrants,
		`{` + fine + `,"response_types":["token"]}`:                       attempt.RegistrationGrants,
		`{` + fine + `,"client_name":"` + strings.Repeat("a", 999) + `"}`: attempt.RegistrationName,
		`[]`:    attempt.RegistrationBody,
		`{"a":`: attempt.RegistrationBody,
	} {
		_, refused := client.ParseMetadata([]byte(body), []string{"svalinn.example"})
		if refused == nil {
			t.Errorf("%.80s: not refused", body)
			continue
		}
		if got := attempt.RegistrationReason(refused.Code, refused.Description); got != want {
			t.Errorf("%.80s: %s, want %s (%s: %s)", body, got, want, refused.Code, refused.Description)
		}
	}
}
