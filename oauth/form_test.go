package oauth

import (
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, body string
		want       map[param]string
		resources  []string
	}{
		{"nothing", "", nil, nil},
		{"one parameter", "code=abc", map[param]string{code: "abc"}, nil},
		{"an empty value counts as not sent", "client_secret=&code=abc", map[param]string{code: "abc"}, nil},
		{"no value counts as not sent", "client_secret&code=abc", map[param]string{code: "abc"}, nil},
		{"an empty value before one", "code=&code=abc", map[param]string{code: "abc"}, nil},
		{"an empty value behind one", "code=abc&code&code=", map[param]string{code: "abc"}, nil},
		{"two empty values", "scope=&scope&code=abc", map[param]string{code: "abc"}, nil},
		{"unknown parameters are ignored", "a=1&code=abc&a=2&=3", map[param]string{code: "abc"}, nil},
		{"names are case-sensitive", "Code=x&code=abc", map[param]string{code: "abc"}, nil},
		{"empty fields are skipped", "&&code=abc&&", map[param]string{code: "abc"}, nil},
		{"an escaped name", "c%6Fde=abc", map[param]string{code: "abc"}, nil},
		{"escapes in either case and a plus", "redirect_uri=https%3A%2F%2fa%20b+c", map[param]string{redirectURI: "https://a b c"}, nil},
		{"an equals sign in the value", "code=a=b", map[param]string{code: "a=b"}, nil},
		{"a semicolon separates nothing", "code=a;scope=b", map[param]string{code: "a;scope=b"}, nil},
		{"UTF-8, escaped and not", "code=\u00e9%C3%A9", map[param]string{code: "\u00e9\u00e9"}, nil},
		{"resource may repeat", "resource=a&resource=&resource=b", nil, []string{"a", "b"}},
		{"100 parameters", strings.Repeat("a=b&", 99) + "code=abc", map[param]string{code: "abc"}, nil},
		{"every parameter",
			"client_id=1&client_secret=2&grant_type=3&code=4&redirect_uri=5&code_verifier=6&refresh_token=7&scope=8&token=9&token_type_hint=10",
			map[param]string{clientID: "1", clientSecret: "2", grantType: "3", code: "4", redirectURI: "5", codeVerifier: "6",
				refreshToken: "7", scope: "8", tokenParam: "9", tokenTypeHint: "10"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f form
			if fault := f.parse(tt.body); fault != "" {
				t.Fatal(fault)
			}
			for p := range params {
				if f.values[p] != tt.want[p] {
					t.Errorf("%s is %q, want %q", paramNames[p], f.values[p], tt.want[p])
				}
			}
			if !slices.Equal(f.resources, tt.resources) {
				t.Errorf("resources %q, want %q", f.resources, tt.resources)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const twice = "a parameter was sent twice: "
	tests := []struct{ name, body, want string }{
		{"a parameter twice", "code=a&code=b", twice + "code"},
		{"a parameter twice, alike", "code=a&scope=api&code=a", twice + "code"},
		{"a parameter twice, with an empty one between", "code=a&code=&code=b", twice + "code"},
		{"a parameter twice, once escaped", "code=a&%63ode=b", twice + "code"},
		{"a broken escape", "code=%zz", badText},
		{"an escape with one digit", "code=%4z", badText},
		{"an escape whose second digit alone is one", "code=%z4", badText},
		{"an escape with a sign", "code=%+1", badText},
		{"half an escape at the end", "code=%4", badText},
		{"a percent sign at the end", "code=100%", badText},
		{"a broken escape in a name", "%=a", badText},
		{"a broken escape in an unknown parameter", "a=%g0", badText},
		{"NUL", "code=a\x00", badText},
		{"NUL, escaped", "code=a%00", badText},
		{"NUL in a name", "a%00=b", badText},
		{"invalid UTF-8", "code=\xff", badText},
		{"invalid UTF-8, the least byte of it", "code=\x80", badText},
		{"invalid UTF-8, escaped", "code=%ff%fe", badText},
		{"invalid UTF-8, cut in half", "code=%C3", badText},
		{"a surrogate in UTF-8", "code=%ED%A0%80", badText},
		{"101 parameters", strings.Repeat("a=b&", 100) + "code=abc", "the body has too many parameters"},
		{"a thousand parameters", strings.Repeat("&a", 1000), "the body has too many parameters"},
	}
	for _, name := range paramNames {
		if name != "" && name != "resource" {
			tests = append(tests, struct{ name, body, want string }{name + " twice", name + "=a&" + name + "=b", twice + name})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if fault := new(form).parse(tt.body); fault != tt.want {
				t.Errorf("%q, want %q", fault, tt.want)
			}
		})
	}
}

// What is accepted is read as the standard library reads it, and none of it is
// read twice, holds NUL or is not UTF-8.
func FuzzForm(f *testing.F) {
	for _, s := range []string{
		"", "grant_type=refresh_token&client_id=abc&refresh_token=svr_x", "code=%63%6F&c%6fde=x", "code=&code=x&code", "scope=a+b&resource=x&resource=y",
		"code=%", "token=%00", "&&==&", "client_id=\xff", "redirect_uri=https%3A%2F%2Fclient.example%2Fcb%3Fa%3Db", "a;b=c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var got form
		if got.parse(body) != "" {
			return
		}
		want, err := url.ParseQuery(strings.ReplaceAll(body, ";", "%3B"))
		if err != nil {
			t.Fatalf("accepted %q, but %v", body, err)
		}
		for name, values := range want {
			for _, s := range append(slices.Clone(values), name) {
				if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
					t.Fatalf("accepted %q", s)
				}
			}
			p, known := paramByName[name]
			sent := slices.DeleteFunc(values, func(s string) bool { return s == "" })
			switch {
			case name == "resource":
				if !slices.Equal(got.resources, sent) {
					t.Fatalf("resources %q, want %q", got.resources, sent)
				}
			case known && (len(sent) > 1 || got.values[p] != strings.Join(sent, "")):
				t.Fatalf("%s is %q, want %q", name, got.values[p], sent)
			}
		}
		for p := range params {
			if got.values[p] != "" && !slices.Contains(slices.Collect(maps.Keys(want)), paramNames[p]) {
				t.Fatalf("%s was never sent", paramNames[p])
			}
		}
	})
}

func TestIsMedia(t *testing.T) {
	const formType = "application/x-www-form-urlencoded"
	tests := []struct {
		name  string
		types []string
		want  string
		is    bool
	}{
		{"as it is", []string{formType}, formType, true},
		{"in another case", []string{"Application/X-WWW-Form-Urlencoded"}, formType, true},
		{"with charset", []string{formType + "; charset=utf-8"}, formType, true},
		{"with charset in capitals and quotes", []string{formType + `;CHARSET="UTF-8"`}, formType, true},
		{"with another parameter", []string{formType + "; a=b"}, formType, true},
		{"JSON with charset", []string{"application/json;charset=utf-8"}, "application/json", true},
		{"with another charset", []string{formType + "; charset=iso-8859-1"}, formType, false},
		{"with utf-16", []string{formType + "; charset=utf-16"}, formType, false},
		{"with an empty charset", []string{formType + `; charset=""`}, formType, false},
		{"with charset twice", []string{formType + "; charset=utf-8; charset=utf-7"}, formType, false},
		{"with a broken parameter", []string{formType + "; charset"}, formType, false},
		{"missing", nil, formType, false},
		{"empty", []string{""}, formType, false},
		{"twice", []string{formType, formType}, formType, false},
		{"two in one", []string{formType + ", " + formType}, formType, false},
		{"another", []string{"application/json"}, formType, false},
		{"only a beginning", []string{formType + "ed"}, formType, false},
		{"multipart", []string{"multipart/form-data; boundary=x"}, formType, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/oauth/token", nil)
			if tt.types != nil {
				r.Header["Content-Type"] = tt.types
			}
			if got := isMedia(r, tt.want); got != tt.is {
				t.Errorf("%v, want %v", got, tt.is)
			}
		})
	}
}

// Escapes are read as net/url reads them, whatever stands behind the percent
// sign; NUL and what is not UTF-8 are refused beside.
func TestEveryEscape(t *testing.T) {
	for n := range 1 << 16 {
		two := string([]byte{'%', byte(n >> 8), byte(n)})
		for _, s := range []string{two, "%C3" + two} {
			want, err := url.QueryUnescape(s)
			good := err == nil && utf8.ValidString(want) && !strings.Contains(want, "\x00")
			if got, ok := unescape(s); ok != good || ok && got != want {
				t.Fatalf("%q: %q, %v; want %q, %v", s, got, ok, want, good)
			}
		}
	}
}
