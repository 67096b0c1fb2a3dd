package org

import "testing"

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, email, find string
		want              int
	}{
		{"Tor Berg", "tb@nordlys.example", "tor", 0},
		{"Anne-Tor Berg", "ab@nordlys.example", "TOR", 1},
		{"Anne Tor", "ab@nordlys.example", "tor", 1},
		{"Anne Berg", "tor@nordlys.example", "tor", 2},
		{"Viktor Moen", "vm@nordlys.example", "tor", 3},
		{"A\u0301tor Moen", "am@nordlys.example", "tor", 3},
		{"2tor Moen", "zm@nordlys.example", "tor", 3},
		{"Mei Moen", "mei@storhavn.example", "tor", 4},
		{"Mei Moen", "mei@nordlys.example", "tor", -1},
		{"\u00d6zg\u00fcr", "o@x.example", "\u00f6ZG\u00dc", 0},
		{"\u0130pek", "i@x.example", "ipek", 0},
	} {
		if got := (Person{Name: tt.name, Email: tt.email}).Find(tt.find); got != tt.want {
			t.Errorf("%q in %s <%s>: %d, want %d", tt.find, tt.name, tt.email, got, tt.want)
		}
	}
	if !Finds("\u00c5pne dokumenter", "\u00e5PNE") || Finds("a", "b") {
		t.Error("Finds")
	}
}
