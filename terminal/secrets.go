package terminal

import (
	"regexp"
	"strings"
)

// secretText finds what must not be shown whole.
var secretText = regexp.MustCompile(`\b[a-z]{2}[orc]_[A-Za-z0-9]{8,}|code_verifier=[A-Za-z0-9._~-]+`)

// ShortenSecrets leaves of each token and verifier in a text enough to tell two apart.
func ShortenSecrets(s string) string { return secretText.ReplaceAllStringFunc(s, Shorten) }

// Shorten leaves enough of a secret to tell two apart.
func Shorten(s string) string {
	if name, value, ok := strings.Cut(s, "="); ok {
		return name + "=" + Shorten(value)
	}
	if len(s) <= 12 {
		return s
	}
	return s[:6] + "…" + s[len(s)-3:]
}
