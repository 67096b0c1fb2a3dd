package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/limit"
)

// Each door that reads JSON which decides something, and what it makes of a text
// that two readers could read differently: a member twice, one more in another
// case, something behind the object, bytes that are not UTF-8, nested without end,
// and without end at all. The columns are those of docs/threat-model.md; 201 and
// 200 stand where the contract asks for members that are not known to be ignored.
func TestJSONThatTwoReadersReadDifferently(t *testing.T) {
	operatorAt, gatewayAt := freePort(t), freePort(t)
	base, _, _ := startServe(t, "http", func(c *config.Config) {
		c.Operator.Listen, c.Gateway.Listen = operatorAt, gatewayAt
		c.HTTP.TrustedProxies = nil
		c.API.RateLimit = config.Rate{Limit: limit.Limit{N: 1000, Window: c.API.RateLimit.Window}}
	})
	operator := func(r *http.Request, _ string) { r.SetBasicAuth("operator", "long enough") }
	key := strings.ToUpper(gatewayKey)
	gateway := func(r *http.Request, _ string) { r.Header.Set("X-Gateway-Key", key) }
	service := func(r *http.Request, body string) {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		h := hmac.New(sha256.New, []byte(key))
		io.WriteString(h, "event\n"+now+"\n"+body)
		r.Header.Set("X-Grantkeeper-Signature", "t="+now+",v1="+hex.EncodeToString(h.Sum(nil)))
	}
	send := func(url, body string, as func(*http.Request, string)) (int, string) {
		t.Helper()
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if as != nil {
			as(r, body)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(text)
	}
	directory := `{"people":[{"id":"ada","email":"ada@nordlys.example","name":"Ada"}],"organizations":[{"id":"nordlys","name":"Nordlys"}],
		"members":[{"person":"ada","organization":"nordlys","admin":true}],"api_keys":[{"person":"ada","organization":"nordlys","name":"k","key":"an-api-key-of-ada-for-tests"}]}`
	if status, text := send("http://"+operatorAt+"/v1/directory", directory, operator); status != 200 {
		t.Fatal(status, text)
	}
	for _, reader := range []struct {
		name, url string
		as        func(*http.Request, string)
		member    string // a member that it knows, of a text
		rest      string // of a good object; there may be none
		good      int
		want      [6]int // twice, other case, behind, UTF-8, deep, huge
	}{
		{"registration", base + "/oauth/register", nil, `"client_name":"a"`, `,"redirect_uris":["https://a.example/cb"]`, 201, [6]int{400, 201, 400, 400, 400, 400}},
		{"decisions", "http://" + gatewayAt + "/v1/decisions", gateway, `"path":"/api/v5/me"`, ``, 200, [6]int{400, 400, 400, 400, 400, 400}},
		{"directory events", "http://" + gatewayAt + "/v1/directory/events", service, `"kind":"person_removed"`, `,"id":"e1","version":1,"object":{"id":"nobody"}`, 200, [6]int{400, 400, 400, 400, 400, 400}},
		{"operators' changes", "http://" + operatorAt + "/v1/people/ada/deactivate", operator, `"reason":"a"`, ``, 200, [6]int{400, 400, 400, 400, 400, 400}},
		{"a directory", "http://" + operatorAt + "/v1/directory?dry_run=true", operator, `"people":[]`, ``, 200, [6]int{400, 400, 400, 400, 400, 400}},
	} {
		name, value, _ := strings.Cut(reader.member, ":")
		folded := `"` + strings.ToUpper(name[1:2]) + name[2:]
		texts := [6]string{
			"{" + reader.member + "," + reader.member + reader.rest + "}",
			"{" + reader.member + "," + folded + ":" + value + reader.rest + "}",
			"{" + reader.member + reader.rest + "}{}",
			"{" + reader.member + ",\"x\":\"\xff\"" + reader.rest + "}",
			"{" + reader.member + `,"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + reader.rest + "}",
			"{" + reader.member + reader.rest + strings.Repeat(" ", 129<<20) + "}",
		}
		for i, text := range texts {
			if i == 5 && !strings.Contains(reader.url, "/v1/directory?") {
				text = text[:len(text)-(128<<20)]
			}
			if status, said := send(reader.url, text, reader.as); status != reader.want[i] {
				t.Errorf("%s, text %d: %d %.200s; want %d", reader.name, i, status, said, reader.want[i])
			}
		}
		if status, said := send(reader.url, "{"+reader.member+reader.rest+"}", reader.as); status != reader.good {
			t.Errorf("%s, as it should be: %d %.200s; want %d", reader.name, status, said, reader.good)
		}
	}
}
