package org

import "testing"

// No cell is a formula, whatever a client or a person is called; what is none stays.
func TestCell(t *testing.T) {
	for _, text := range []string{"=1+1", `=HYPERLINK("https://evil.example","x")`, "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\u200b=1", "\ufeff@x", "\x00=1", "＝1", "＋1", "－1", "＠x", " ＝1", "\tx", "\rx"} {
		if got := Cell(text); got != "'"+text {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got, want := Cell("x;=1+1;y; @z"), "x;'=1+1;y;' @z"; got != want {
		t.Errorf("parted at semicolons: %q, want %q", got, want)
	}
	for _, text := range []string{"", ";", "a;b", "Quill", "a=1", "1-2", "'=1", "Ω=1", "مذكرات", " x", "(=1)"} {
		if got := Cell(text); got != text {
			t.Errorf("%q: %q", text, got)
		}
	}
}
