package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The client of programs on people's own computers (decision A15). Nobody else may
// have its ID: neither the configuration nor an operator.
const (
	DesktopID   = "grantkeeper-connect"
	DesktopName = "grantkeeper connect"
	DesktopPath = "/oauth/desktop" // its redirect URI, a page of the service itself
)

// Desktop is that client, at the base URLs of an installation. It is made by the
// server alone: no registration may name a host of the service.
func Desktop(bases []string) Client {
	c := Client{ID: DesktopID, Name: DesktopName, Preregistered: true}
	for _, base := range bases {
		c.RedirectURIs = append(c.RedirectURIs, base+DesktopPath)
	}
	return c
}

// HandoverLifetime is how long after a program has asked a code can be handed on to
// it: as long as it listens. Signing in with a second factor takes minutes.
const HandoverLifetime = 10 * time.Minute

// The bounds of a handover. Below 1024 are the ports of system services.
const (
	minHandoverPort, maxHandoverPort = 1024, 65535
	minHandoverPath, maxHandoverPath = 22, 64 // 22 characters of base64url are 128 bits
	challengeLen                     = 43
)

// A Handover is where a program on a person's computer waits for its code: what it
// asked for before the browser was opened. It travels sealed, as the state of the
// authorization request.
type Handover struct {
	Port      int    `json:"port"` // of 127.0.0.1
	Path      string `json:"path"` // one segment that nobody guesses, in base64url
	Challenge string `json:"challenge"`
	Program   string `json:"program,omitempty"` // what it says that it works for
	Issuer    string `json:"issuer"`
	Made      int64  `json:"made"` // Unix seconds
}

// ParseHandover reads what a program asks for: port, path, code_challenge and
// program. The error says what is wrong, in words that hold nothing of it.
func ParseHandover(form url.Values) (Handover, error) {
	for name, values := range form {
		if len(values) > 1 {
			return Handover{}, fmt.Errorf("%s is sent more than once", known(name))
		}
	}
	h := Handover{Path: form.Get("path"), Challenge: form.Get("code_challenge"), Program: form.Get("program")}
	port, err := strconv.Atoi(form.Get("port"))
	switch {
	case err != nil, port < minHandoverPort, port > maxHandoverPort, strconv.Itoa(port) != form.Get("port"):
		return Handover{}, fmt.Errorf("port must be %d to %d", minHandoverPort, maxHandoverPort)
	case len(h.Path) < minHandoverPath, len(h.Path) > maxHandoverPath, !isBase64URL(h.Path):
		return Handover{}, fmt.Errorf("path must be %d to %d characters of base64url", minHandoverPath, maxHandoverPath)
	case len(h.Challenge) != challengeLen, !isBase64URL(h.Challenge):
		return Handover{}, fmt.Errorf("code_challenge must be %d characters of base64url", challengeLen)
	case CheckName(h.Program) != nil:
		return Handover{}, errors.New("program must be a name, as client_name is")
	}
	h.Port, h.Program = port, reported(h.Program)
	return h, nil
}

// known is a parameter's name where it is one of ours.
func known(name string) string {
	switch name {
	case "port", "path", "code_challenge", "program":
		return name
	}
	return "a parameter"
}

func isBase64URL(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// Over says whether nobody waits there any more.
func (h Handover) Over(now time.Time) bool {
	return now.Sub(time.Unix(h.Made, 0)) >= HandoverLifetime
}

// Address is where the browser is led with an answer: 127.0.0.1 and nothing else,
// never a name, which something else could answer for.
func (h Handover) Address(answer url.Values) string {
	return "http://127.0.0.1:" + strconv.Itoa(h.Port) + "/" + h.Path + "?" + answer.Encode()
}
