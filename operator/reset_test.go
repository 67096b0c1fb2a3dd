package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store"
)

func TestResetLink(t *testing.T) {
	o := newOffice(t)
	make := func(path, body string, status int) (link ResetLink, text string) {
		t.Helper()
		w := o.do("POST", path, body)
		if w.Code != status {
			t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &link); err != nil && status == 200 {
			t.Fatal(err)
		}
		return link, w.Body.String()
	}
	make("/v1/people/ada/reset-link", `{}`, 404) // where nothing takes links
	o.ResetLink = func(secret string) string { return "https://app.svalinn.example/reset/" + secret }
	first, _ := make("/v1/people/ada@nordlys.example/reset-link", `{"reason":"forgot it"}`, 200)
	if first.ID != "ada" || first.Mailed || !strings.HasPrefix(first.URL, "https://app.svalinn.example/reset/") || first.ExpiresAt <= o.Store.Now().Unix() {
		t.Errorf("got %+v", first)
	}
	secret := strings.TrimPrefix(first.URL, "https://app.svalinn.example/reset/")
	if p, err := o.Store.ResetOf(t.Context(), secret); err != nil || p.ID != "ada" {
		t.Errorf("the link is of %+v, %v", p, err)
	}
	events, _, err := o.Store.Events(t.Context(), store.EventFilter{Kind: "directory_changed", Person: "ada", Limit: 1})
	if err != nil || len(events) != 1 {
		t.Fatal(events, err)
	}
	if e := events[0]; e.Person != "ada" || e.Actor != "operator" || e.Reason != "forgot it" || strings.Contains(e.Detail+e.Reason, secret) {
		t.Errorf("event %+v", e)
	}
	make("/v1/people/ada/reset-link", `{"mail":true}`, 409)
	var mailed []string
	room := true
	o.MailReset = func(name, address, link string) bool {
		mailed = append(mailed, name+" "+address+" "+link)
		return room
	}
	second, text := make("/v1/people/ada/reset-link", `{}`, 200)
	if !second.Mailed || strings.Contains(text, "/reset/") || len(mailed) != 1 || !strings.HasPrefix(mailed[0], "Ada ada@nordlys.example https://") {
		t.Errorf("got %s, mailed %v", text, mailed)
	}
	if _, err := o.Store.ResetOf(t.Context(), secret); err == nil {
		t.Error("the earlier link goes on")
	}
	if third, _ := make("/v1/people/ada/reset-link", `{"mail":false}`, 200); third.URL == "" || third.Mailed || len(mailed) != 1 {
		t.Errorf("got %+v", third)
	}
	room = false
	make("/v1/people/ada/reset-link", `{}`, 503)
	make("/v1/people/nobody/reset-link", `{}`, 404)
	make("/v1/people/ada/reset-link", `{"mail":"yes"}`, 400)
	o.do("POST", "/v1/people/ada/deactivate", `{}`)
	make("/v1/people/ada/reset-link", `{}`, 409)
}
