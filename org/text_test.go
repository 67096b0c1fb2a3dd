package org

import (
	"strings"
	"testing"
)

func TestCheckNameAndEmail(t *testing.T) {
	for name, ok := range map[string]bool{
		"Ada": true, "Ada Åsen 氏": true, strings.Repeat("é", MaxName): true,
		"": false, " \t": false, strings.Repeat("é", MaxName+1): false, "a\nb": false, "a\u2028b": false, "a\x00": false, "a\xff": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for email, ok := range map[string]bool{
		"ada@nordlys.example": true, "Å.b+c@x": true, strings.Repeat("a", 252) + "@b": true,
		"": false, "ada": false, "@x": false, "a@": false, "a@b@c": false, "a b@c": false, "<a@b>": false, "a@b,c@d": false,
		"a\n@b": false, strings.Repeat("a", 253) + "@b": false, "a\xff@b": false,
	} {
		if err := CheckEmail(email); (err == nil) != ok {
			t.Errorf("email %q: %v", email, err)
		}
	}
}
