package page

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Letters are whole in each language: nothing is left to fill in, the address
// stands alone on a line, and no other line is too long.
func TestLetters(t *testing.T) {
	const at = "https://app.svalinn.example/a-path-that-is-longer-than-any-line-of-a-letter-that-is-sent-by-mail"
	subjects := map[string]bool{}
	for _, tag := range Languages() {
		for name, l := range map[string]Letter{
			"reuse":    ReuseLetter(tag, "Svalinn", at),
			"request":  RequestLetter(tag, "Svalinn", "Nordlys", at),
			"review":   ReviewLetter(tag, "Svalinn", "Nordlys", 365, at),
			"reset":    ResetLetter(tag, "Svalinn", at, 24*time.Hour),
			"ends":     EndsLetter(tag, "Svalinn", at),
			"allowed":  DecidedLetter(tag, "Svalinn", "Nordlys", at, true),
			"declined": DecidedLetter(tag, "Svalinn", "Nordlys", at, false),
		} {
			if subjects[l.Subject] = true; !strings.HasPrefix(l.Subject, "Svalinn") || strings.ContainsAny(l.Subject+l.Text, "{}<>") {
				t.Errorf("%s in %s: %+v", name, tag, l)
			}
			lines := strings.Split(strings.TrimSuffix(l.Text, "\n"), "\n")
			if !slices.Contains(lines, at) || !strings.HasSuffix(l.Text, "\n") {
				t.Errorf("%s in %s: the address does not stand alone:\n%s", name, tag, l.Text)
			}
			for _, line := range lines {
				if n := len([]rune(line)); n > lineLength && line != at || strings.TrimSpace(line) != line {
					t.Errorf("%s in %s: a line of %d: %q", name, tag, n, line)
				}
			}
		}
		if tag != "en" && ReuseLetter(tag, "Svalinn", at) == ReuseLetter("en", "Svalinn", at) {
			t.Errorf("%s says it in English", tag)
		}
	}
	if got := ResetLetter("", "Svalinn", at, 24*time.Hour); !strings.Contains(got.Text, "It works once, for 24 hours.") {
		t.Errorf("without a language: %+v", got)
	}
	if len(subjects) != 7*len(Languages()) {
		t.Errorf("%d subjects", len(subjects))
	}
}
