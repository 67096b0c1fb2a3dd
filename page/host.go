package page

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"github.com/grantkeeper/grantkeeper/client"
)

// A Host is the address that a person should look at, in its ASCII form and
// complete. Domain is what somebody had to register, and is shown bold: the
// whole host where that cannot be told, as of an IP address.
type Host struct {
	Lead   string // labels before the domain, with the last dot
	Domain string
	Port   string // with its colon; empty when it is the scheme's own

	// Desktop is of the page through which a program on a person's computer is reached
	// (decision A15). Where it is known that it is this computer, the host is 127.0.0.1.
	Desktop bool
}

// Here reports whether the program is on the computer of who reads the page.
func (h Host) Here() bool { return h.Domain == "127.0.0.1" }

// HostOf gives the host of a registered redirect URI.
func HostOf(uri string) Host {
	u, err := url.Parse(uri)
	if err != nil {
		return Host{} // no registered URI: the grammar of redirect URIs is narrower
	}
	name := strings.ToLower(u.Hostname())
	h := Host{Domain: name}
	if p := u.Port(); p != "" && !(u.Scheme == "https" && p == "443") && !(u.Scheme == "http" && p == "80") {
		h.Port = ":" + p
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Is6() {
			h.Domain = "[" + name + "]"
		}
		return h
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		h.Lead, h.Domain = strings.TrimSuffix(name, domain), domain
	}
	return h
}

// String is the host as one text.
func (h Host) String() string { return h.Lead + h.Domain + h.Port }

// An App is how pages show a client. All of it but Known is the client's own
// claim, or a stranger's address.
type App struct {
	Name    string // as the client reported it; empty when it reported none
	Host    Host   // of its metadata document, which says who it is; without one of its redirect URI
	Back    Host   // of the redirect URI, where it is another than that of the document
	Known   bool   // preregistered
	Initial string // stands where others would show a logo
	Program string // of the desktop's client: what the program says that it works for
}

// Strange reports whether it is anybody's: its host is all that there is to know.
func (a App) Strange() bool { return !a.Known && !a.Host.Desktop }

// String is what the app is called in a line of text.
func (a App) String() string { return cmp.Or(a.Name, a.Host.String()) }

// Leads is where the person is sent, with what they answered.
func (a App) Leads() Host {
	if a.Back != (Host{}) {
		return a.Back
	}
	return a.Host
}

// NewApp is of a client whose people come back to this redirect URI.
func NewApp(c client.Client, redirectURI string) App {
	return AppOf(c.ID, c.Name, redirectURI, c.Preregistered)
}

// AppOf is of what a client once said of itself; its ID may be left out where the host
// is that of an app.
func AppOf(id, name, redirectURI string, known bool) App {
	a := App{Name: name, Host: HostOf(redirectURI), Known: known, Initial: "•"}
	switch {
	case id == client.DesktopID: // any program on a computer can be behind it
		a.Known, a.Host.Desktop = false, true
	case client.HostsOf(id, redirectURI, known).Back != "":
		a.Host, a.Back = HostOf(id), a.Host
	}
	first := name
	if first == "" {
		first = a.Host.Domain
	}
	for _, r := range first {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			a.Initial = string(unicode.ToUpper(r))
			break
		}
	}
	return a
}
