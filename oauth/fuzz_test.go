package oauth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/token"
)

// 200 at the token endpoint implies that every parameter is right, and any
// other answer that nothing was used up or revoked, unless what was presented
// was right but for being used (F-05).
//
// In a body, {client}, {other}, {code}, {refresh}, {access}, {verifier} and
// {redirect} stand for right values of this run.
func FuzzToken(f *testing.F) {
	d := open(f)
	id, other := d.registered(), d.registered()
	var h token.Handle
	var live token.Handle
	var code, refresh, access string
	renewCode := func() { h, code = d.approved(id) }
	renewTokens := func() {
		var c string
		live, c = d.approved(id)
		a := readTokens(d.t, d.post("/oauth/token", exchangeForm(id, c)))
		access, refresh = a.Access, a.Refresh
	}
	renewCode()
	renewTokens()

	const exchange = "grant_type=authorization_code&client_id={client}&code={code}&redirect_uri={redirect}&code_verifier={verifier}"
	const refreshing = "grant_type=refresh_token&client_id={client}&refresh_token={refresh}"
	for _, s := range []string{
		exchange, refreshing, exchange + "&resource=https%3A%2F%2Fauth.example%2Fapi%2Fv5&scope=api",
		refreshing + "&resource=x&scope=api&client_secret=", exchange + "&client_secret=x", refreshing + "&client_id={client}",
		exchange + "&code={code}", exchange + "&scope=", exchange + "&resource=https://evil.example",
		strings.Replace(exchange, "{client}", "{other}", 1), strings.Replace(refreshing, "{client}", "{other}", 1),
		strings.Replace(exchange, "{code}", "{access}", 1), strings.Replace(refreshing, "{refresh}", "{access}", 1),
		strings.Replace(refreshing, "refresh_token=", "refresh%5Ftoken=", 1), "%", "", "grant_type=refresh_token",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		d.t = t
		body = strings.NewReplacer("{client}", id, "{other}", other, "{code}", code, "{refresh}", refresh,
			"{access}", access, "{verifier}", rightProof, "{redirect}", url.QueryEscape(redirect)).Replace(body)
		w := d.send(request("POST", "/oauth/token", body, "Content-Type", "application/x-www-form-urlencoded"))
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%d %s to %q", w.Code, w.Body, body)
		}
		if w.Code != http.StatusOK {
			readRefusal(t, w)
			d.wantState(h, approval.CodeIssued, 0, "")
			if d.state(live).Phase != approval.Live {
				t.Fatalf("%q ended an approval", body)
			}
			return
		}
		sent, err := url.ParseQuery(body)
		if err != nil {
			t.Fatalf("200 to %q: %v", body, err)
		}
		for name, right := range map[string][]string{
			"client_id": {id}, "client_secret": {"", none}, "scope": {"", "api", none},
		} {
			wantOne(t, sent, name, right...)
		}
		switch sent.Get("grant_type") {
		case "authorization_code":
			wantOne(t, sent, "grant_type", "authorization_code")
			wantOne(t, sent, "code", code)
			wantOne(t, sent, "redirect_uri", redirect)
			wantOne(t, sent, "code_verifier", rightProof)
			for _, r := range sent["resource"] {
				if r != "" && !strings.HasPrefix(strings.ToLower(r), base) {
					t.Fatalf("200 to resource %q", r)
				}
			}
			renewCode()
		case "refresh_token":
			wantOne(t, sent, "grant_type", "refresh_token")
			wantOne(t, sent, "refresh_token", refresh)
			refresh = readTokens(t, w).Refresh
		default:
			t.Fatalf("200 to %q", body)
		}
	})
}

// none stands for a parameter that was not sent.
const none = "\x00"

func wantOne(t *testing.T, sent url.Values, name string, right ...string) {
	t.Helper()
	values := sent[name]
	if len(values) == 0 {
		values = []string{none}
	}
	if len(values) != 1 || !slices.Contains(right, values[0]) {
		t.Fatalf("200 to %s = %q", name, values)
	}
}

// A registration is either refused, and nothing is stored, or stored as it was
// answered.
func FuzzRegister(f *testing.F) {
	d := open(f)
	for _, s := range []string{
		`{"redirect_uris":["https://client.example/cb"]}`,
		`{"redirect_uris":["https://client.example/cb?a=%2F"],"client_name":"Q&A <","grant_types":["implicit"]}`,
		`{"redirect_uris":["https://client.example/cb"],"client_name":"\ud83d\ude00"}`,
		`{"redirect_uris":["https://auth.example/"]}`, `{}`, `[]`, `{"a":{"a":1,"a":2}}`, "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := d.send(request("POST", "/oauth/register", body, "Content-Type", "application/json"))
		if w.Code == http.StatusBadRequest {
			readRefusal(t, w)
			return
		}
		if w.Code != http.StatusCreated {
			t.Fatalf("%d %s to %q", w.Code, w.Body, body)
		}
		var got struct {
			ID   string   `json:"client_id"`
			Name string   `json:"client_name"`
			URIs []string `json:"redirect_uris"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		kept, err := d.Store.Client(context.Background(), got.ID)
		if err != nil || kept.Name != got.Name || !slices.Equal(kept.RedirectURIs, got.URIs) || len(got.URIs) == 0 {
			t.Fatalf("%+v, %v; answered %s", kept, err, w.Body)
		}
	})
}
