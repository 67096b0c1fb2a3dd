package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/mail"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

var formToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// From outside: whoever forgot a password asks at the sign-in page, gets a mail,
// sets another and signs in with it; who has no account here, or none any more,
// gets none; and who signs in elsewhere is told so. Neither log nor journal has
// a link, and no Host steers where it leads.
func TestForgottenPasswordIsMailed(t *testing.T) {
	t.Parallel()
	o := servertest.NewPostOffice(t)
	operator := freePort(t)
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.Mail = config.Mail{URL: "smtp://127.0.0.1:" + o.Server.Port, From: "Svalinn <no-reply@svalinn.example>", PasswordFile: "", Language: ""}
		c.SignIn.HandOff = config.HandOff{URL: "https://svalinn.example/handoff", KeyFiles: []string{write(t, "handoff.key", "7Jq2vX9tLw4RbN8sYc1ZpF6hKd3MgT5u", 0o600)}}
		c.Operator.Listen = operator
	})
	p := &process{T: t, public: base, operator: "http://" + operator, password: "long enough"}
	p.post("/v1/directory", `{"people":[{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"},
		{"id":"ida","email":"ida@verksted.example","name":"Ida"},
		{"id":"uma","email":"uma@verksted.example","name":"Uma","password":"the password of Uma","active":false}]}`)
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	get := func(address string) string {
		t.Helper()
		a, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		page, _ := io.ReadAll(a.Body)
		return string(page)
	}
	post := func(address, page string, form url.Values) (int, string) {
		t.Helper()
		token := formToken.FindStringSubmatch(page)
		if token == nil {
			t.Fatalf("no form: %s", page)
		}
		form.Set("csrf", token[1])
		r, _ := http.NewRequestWithContext(t.Context(), "POST", address, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-Host", "evil.example")
		r.Header.Set("Forwarded", "host=evil.example")
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		answer, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(answer)
	}
	page := get(base + "/signin")
	if !strings.Contains(page, `href="/signin/forgot"`) {
		t.Fatalf("no link: %s", page)
	}
	page = get(base + "/signin/forgot")
	var answers []string
	for _, email := range []string{"nobody@verksted.example", "uma@verksted.example", "ida@verksted.example", "eva@verksted.example"} {
		status, answer := post(base+"/signin/forgot", page, url.Values{"email": {email}})
		if status != 200 {
			t.Fatalf("%s: %d %s", email, status, answer)
		}
		answers = append(answers, strings.ReplaceAll(strings.ReplaceAll(answer, email, ""), "\u2066", ""))
	}
	unsealed := regexp.MustCompile(`value="[^"]{40,}"`)
	for _, a := range answers {
		if unsealed.ReplaceAllString(a, "") != unsealed.ReplaceAllString(answers[0], "") {
			t.Error("the answers differ")
		}
	}
	// Letters come in the order in which they were asked for.
	if got := <-o.Took; got.To != "ida@verksted.example" || !strings.Contains(got.Text, base+"/signin\n") || strings.Contains(got.Text, "/reset/") {
		t.Fatalf("mailed to %s: %s", got.To, got.Text)
	}
	got := <-o.Took
	link := regexp.MustCompile(regexp.QuoteMeta(base) + `/reset/([A-Za-z0-9_-]{43})\n`).FindStringSubmatch(got.Text)
	if got.To != "eva@verksted.example" || link == nil || servertest.Subject(t, got) != "Svalinn: set a new password" || !strings.Contains(strings.ReplaceAll(got.Text, "\n", " "), "for 1 hour") {
		t.Fatalf("mailed to %s: %v %s", got.To, got.Header, got.Text)
	}
	at := strings.TrimSpace(link[0])
	words := url.Values{"new": {"another password of Eva"}, "again": {"another password of Eva"}}
	if status, answer := post(at, get(at), words); status != 200 || !strings.Contains(answer, "Your new password is set.") {
		t.Fatalf("%d %s", status, answer)
	}
	if status, _ := post(at, get(base+"/signin"), words); status != 404 {
		t.Errorf("the link works twice: %d", status)
	}
	for _, c := range [][2]string{{"the password of Eva", "not right"}, {"another password of Eva", "Signed in as"}} {
		if _, answer := post(base+"/signin", get(base+"/signin"), url.Values{"email": {"eva@verksted.example"}, "password": {c[0]}}); !strings.Contains(answer, c[1]) {
			t.Errorf("%s: %s", c[0], answer)
		}
	}
	var events json.RawMessage
	c := remote.Server{Base: p.operator, Password: p.password, HTTP: http.DefaultClient}
	if err := c.Do(t.Context(), "GET", "/v1/events", nil, nil, &events); err != nil || !bytes.Contains(events, []byte("asked for at the sign-in page")) {
		t.Errorf("%v %s", err, events)
	}
	stop()
	for name, text := range map[string]string{"log": stderr.String(), "journal": string(events)} {
		if strings.Contains(text, link[1]) || name == "log" && strings.Contains(text, "@verksted") {
			t.Errorf("the %s has the link's secret, or an address", name)
		}
	}
	if n := len(o.Took); n != 0 {
		t.Errorf("%d mails more: %s", n, mail.Address{Address: (<-o.Took).To})
	}
}

// Case S-13: who loses a connection to a second use of an old key is told by
// mail, in the language of the settings; and an operator's reset link is mailed, works once, and is in no log.
func TestS13PeopleAreMailed(t *testing.T) {
	t.Parallel()
	o := servertest.NewPostOffice(t)
	operator := freePort(t)
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.Mail = config.Mail{URL: "smtp://127.0.0.1:" + o.Server.Port, From: "Svalinn <no-reply@svalinn.example>", PasswordFile: "", Language: "de"}
		c.Operator.Listen = operator
	})
	p := &process{T: t, public: base, operator: "http://" + operator, password: "long enough"}
	p.post("/v1/directory", `{"organizations":[{"id":"verksted","name":"Verksted","ai_integration":true}],
		"people":[{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"}],
		"members":[{"organization":"verksted","person":"eva"}],
		"circles":[{"id":"all","organization":"verksted","name":"All"}],
		"roles":[{"id":"keys","organization":"verksted","circle":"all","name":"Keeper of Keys","fillers":["eva"]}]}`)
	d, err := demo.New(demo.Options{BaseURL: base, Email: "eva@verksted.example", PasswordFile: write(t, "password", "the password of Eva\n", 0o600)}, len(demo.Steps))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range demo.Steps {
		if _, err := step.Run(d, t.Context()); err != nil && !errors.Is(err, demo.ErrNothingBehind) {
			t.Fatal(err)
		}
	}
	got := <-o.Took
	for _, want := range []string{"Ein alter Schlüssel dieser\nVerbindung wurde ein zweites Mal benutzt;", "\n" + base + "/organizations/verksted/profile/api\n"} {
		if !strings.Contains(got.Text, want) || got.To != "eva@verksted.example" || servertest.Subject(t, got) != "Svalinn: Der Zugriff einer App wurde beendet" || got.Header.Get("Content-Language") != "de" {
			t.Errorf("to %s: %v %s", got.To, got.Header, got.Text)
		}
	}
	if n := len(o.Took); n != 0 {
		t.Errorf("%d mails more", n)
	}

	var answer struct {
		ID, URL string
		Mailed  bool
	}
	c := remote.Server{Base: p.operator, Password: p.password, HTTP: http.DefaultClient}
	if err := c.Do(t.Context(), "POST", "/v1/people/eva/reset-link", nil, json.RawMessage(`{"reason":"forgot it"}`), &answer); err != nil || !answer.Mailed || answer.URL != "" || answer.ID != "eva" {
		t.Fatalf("%v %+v", err, answer)
	}
	got = <-o.Took
	link := regexp.MustCompile(regexp.QuoteMeta(base) + `/reset/([A-Za-z0-9_-]{43})\n`).FindStringSubmatch(got.Text)
	if link == nil || servertest.Subject(t, got) != "Svalinn: ein neues Passwort setzen" {
		t.Fatalf("mailed %v %s", got.Header, got.Text)
	}
	a, err := http.Get(strings.TrimSpace(link[0]))
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(a.Body)
	a.Body.Close()
	if a.StatusCode != 200 || !bytes.Contains(page, []byte("eva@verksted.example")) {
		t.Errorf("the link leads to %s: %s", a.Status, page)
	}
	stop()
	if strings.Contains(stderr.String(), link[1]) || strings.Contains(stderr.String(), "eva@") {
		t.Error("the log has the link's secret, or an address")
	}
}
