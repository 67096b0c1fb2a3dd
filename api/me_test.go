package api

import (
	"encoding/json"
	"testing"
)

// Whatever people call themselves and their roles: the quick way writes what
// encoding/json writes.
func FuzzMe(f *testing.F) {
	f.Add("ada", "Ada", "treasurer", "Treasurer", true)
	f.Add("", "", "", "", false)
	f.Add(`"`, `\`, "<b>&", "神\u2028", false)
	f.Add("\x80", "\x7f", "\u007f", "\u0080", true)
	f.Add("\x00\x1f\x7f", "\xff", "é", "a\nb", true)
	f.Fuzz(func(t *testing.T, id, name, role, words string, yes bool) {
		m := Me{
			Person: Named{id, name}, Organization: Named{name, id}, Client: role,
			Grant: Grant{Kind: id, Words: words, PersonalItems: yes, Administers: !yes},
			Roles: []Role{},
		}
		for range len(words) % 3 {
			m.Roles = append(m.Roles, Role{role, name, id, words})
		}
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.append(nil)); got != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

func TestAppendString(t *testing.T) {
	for i := range 256 {
		for _, s := range []string{string([]byte{byte(i)}), "a" + string([]byte{byte(i)}) + "b", string(rune(i))} {
			want, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(appendString(nil, s)); got != string(want) {
				t.Errorf("%q: got %s, want %s", s, got, want)
			}
		}
	}
}
