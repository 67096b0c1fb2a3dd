package client

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxRedirectURI is the most characters that a redirect URI may have. spec
// section 8.
const MaxRedirectURI = 2000

// The bounds of a host name. RFC 1035 section 2.3.4, less the root's dot.
const (
	maxLabel = 63
	maxHost  = 253
)

// CheckRedirectURI is the one grammar of redirect URIs (spec 2.1, decision
// R2). It gives nil, and the URI is then kept and compared byte for byte; or
// it says what is wrong, in words that hold nothing of the URI. ownHosts are
// the hosts of the service itself, lower case and without port.
//
// A URI that passes has the same scheme, host and port for every reader: what
// browsers, RFC 3986 and Go read in different ways is refused. The parser is
// our own, byte for byte, because a lenient one repairs first. Names are never
// resolved.
func CheckRedirectURI(uri string, ownHosts []string) error {
	if err := CheckBytes(uri); err != nil {
		return err
	}
	// Exactly these bytes: browsers also take HTTPS://, https:/ and https:\\.
	rest, ok := strings.CutPrefix(uri, "https://")
	if !ok && httpOnLoopback(uri) {
		return errors.New("it must begin with https://, also on loopback, where it would be refused too")
	} else if !ok {
		return errors.New("it must begin with https://, there is no http on loopback and no custom scheme")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if err := checkAuthority(rest[:end], ownHosts); err != nil {
		return err
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	if strings.ContainsAny(path+query, "[]") {
		return errors.New("brackets are allowed only around an IPv6 address") // RFC 3986 sections 3.3, 3.4
	}
	if hasDotSegment(path) {
		return errors.New("the path has a segment of one or two dots")
	}
	return checkQuery(query)
}

// httpOnLoopback tells the one scheme that programs on a person's machine ask for
// (RFC 8252 section 7.3) from others, so that they are told what is wrong with it.
func httpOnLoopback(uri string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(uri), "http://")
	if !ok {
		return false
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, _, _ := splitPort(rest[:end])
	return Loopback(strings.Trim(host, "[]"))
}

// CheckBytes refuses what no part of an RFC 3986 URI may hold, and fragments
// (RFC 6749 section 3.1.2).
func CheckBytes(uri string) error {
	if uri == "" {
		return errors.New("it is empty")
	}
	for i := range len(uri) {
		switch c := uri[i]; {
		case c >= 0x80:
			return errors.New("only ASCII is allowed: write the host as A-labels and the rest percent-encoded")
		case c <= ' ' || c == 0x7F:
			return errors.New("spaces and control characters are not allowed")
		case c == '\\':
			return errors.New("backslashes are not allowed") // browsers read them as slashes
		case c == '#':
			return errors.New("a fragment is not allowed")
		case c == '%':
			if i+2 >= len(uri) || !isHex(uri[i+1]) || !isHex(uri[i+2]) {
				return errors.New("a percent sign is not followed by two hexadecimal digits")
			}
		case strings.IndexByte("\"<>^`{|}", c) >= 0:
			return errors.New("it has a character that RFC 3986 does not allow")
		}
	}
	if len(uri) > MaxRedirectURI { // all ASCII: bytes are characters
		return fmt.Errorf("it has more than %d characters", MaxRedirectURI)
	}
	return nil
}

// checkAuthority takes host[:port] and nothing more.
func checkAuthority(authority string, ownHosts []string) error {
	if strings.Contains(authority, "@") {
		return errors.New("user information is not allowed")
	}
	if strings.Contains(authority, "%") {
		return errors.New("the host must not be percent-encoded and must not have a zone")
	}
	host, port, hasPort := splitPort(authority)
	if host == "" {
		return errors.New("a host is required")
	}
	if hasPort {
		if err := checkPort(port); err != nil {
			return err
		}
	}
	return checkHost(host, ownHosts)
}

// splitPort cuts at the first colon behind the host. What stands behind it is
// not looked at here; nor is the host, which may be brackets left open.
func splitPort(authority string) (host, port string, hasPort bool) {
	if !strings.HasPrefix(authority, "[") {
		return strings.Cut(authority, ":")
	}
	end := strings.IndexByte(authority, ']') + 1
	if strings.HasPrefix(authority[end:], ":") {
		return authority[:end], authority[end+1:], true
	}
	return authority, "", false
}

// checkPort takes 1 to 65535 in one spelling. An empty port and leading zeros
// are repaired by browsers but not by Go, so they are refused.
func checkPort(port string) error {
	if port == "" {
		return errors.New("the port is empty")
	}
	n := 0
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return errors.New("the port must be digits")
		}
		n = min(n*10+int(port[i]-'0'), 1<<16)
	}
	if port[0] == '0' {
		return errors.New("the port must not begin with a zero")
	}
	if n > 65535 {
		return errors.New("the port must be 1 to 65535")
	}
	return nil
}

func checkHost(host string, ownHosts []string) error {
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if !strings.HasSuffix(host, "]") || err != nil || !addr.Is6() {
			return errors.New("the brackets do not hold an IPv6 address")
		}
		return checkAddress(addr, ownHosts)
	}
	host = strings.ToLower(host)
	labels := strings.Split(host, ".")
	if err := checkLabels(host, labels); err != nil {
		return err
	}
	if isNumber(labels[len(labels)-1]) {
		addr, err := netip.ParseAddr(host) // exactly four decimals, no leading zeros
		if err != nil {
			return errors.New("the last label makes the host an IPv4 address, which must be four decimal numbers without leading zeros")
		}
		return checkAddress(addr, ownHosts)
	}
	return checkHostName(host, labels, ownHosts)
}

// checkLabels takes LDH labels as of RFC 5890 section 2.3.1.
func checkLabels(host string, labels []string) error {
	if strings.HasSuffix(host, ".") {
		return errors.New("the host must not end with a dot")
	}
	for _, label := range labels {
		switch {
		case label == "":
			return errors.New("the host has an empty label")
		case len(label) > maxLabel:
			return fmt.Errorf("the host has a label of more than %d characters", maxLabel)
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return errors.New("the host may have letters, digits, hyphens and dots only")
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("the host has a label that begins or ends with a hyphen")
		}
	}
	if len(host) > maxHost {
		return fmt.Errorf("the host has more than %d characters", maxHost)
	}
	return nil
}

// isNumber says whether a last label makes browsers read the whole host as an
// IPv4 address (the WHATWG URL standard's ends-in-a-number check, and more
// widely: 0x with anything behind it).
func isNumber(label string) bool {
	return strings.HasPrefix(label, "0x") || strings.Trim(label, "0123456789") == ""
}

// checkHostName refuses the names that mean this machine or this network, and
// ours. A public name may point anywhere all the same: a redirect is followed
// by the person's browser, never by us.
func checkHostName(host string, labels, ownHosts []string) error {
	switch labels[len(labels)-1] {
	case "localhost", // RFC 6761 section 6.3
		"localdomain", "localdomain4", "localdomain6": // localhost.localdomain is in the hosts file of many systems
		return errors.New("the host is a loopback name")
	}
	if len(labels) < 2 {
		return errors.New("the host must have at least two labels")
	}
	for _, special := range []string{
		"local",     // RFC 6762
		"internal",  // reserved for private use by ICANN
		"home.arpa", // RFC 8375
	} {
		if strings.HasSuffix("."+host, "."+special) {
			return errors.New("the host is a name of private networks")
		}
	}
	for _, label := range labels {
		if coded, ok := strings.CutPrefix(label, "xn--"); ok && !isALabel(coded) {
			return errors.New("the host has a label that begins with xn-- and is not an A-label")
		}
	}
	if slices.Contains(ownHosts, host) {
		return errOwnHost
	}
	return nil
}

var errOwnHost = errors.New("the host is one of this service")

func checkAddress(addr netip.Addr, ownHosts []string) error {
	if why := notReachable(addr); why != "" {
		return fmt.Errorf("the address is not reachable from everywhere: %s", why)
	}
	for _, own := range ownHosts {
		if a, err := netip.ParseAddr(strings.Trim(own, "[]")); err == nil && a == addr {
			return errOwnHost
		}
	}
	return nil
}

// hasDotSegment says whether any reader might find a segment of one or two
// dots. Browsers take %2e for a dot (RFC 3986 section 5.2.4 would not), and
// servers often decode the whole path first, so an escaped slash or backslash
// separates here as well.
func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(strings.ReplaceAll(unescape(path), `\`, "/"), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// checkQuery refuses parameters that the answer at this URI carries itself
// (RFC 6749 sections 4.1.2 and 4.1.2.1, RFC 9207): the client would otherwise
// find two. Names are compared decoded; some readers also separate with
// semicolons.
func checkQuery(query string) error {
	for parameter := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(parameter, "=")
		switch unescape(name) {
		case "code", "state", "error", "error_description", "iss":
			return errors.New("the query must not have code, state, error, error_description or iss")
		}
	}
	return nil
}

// unescape decodes percent-encoding that CheckBytes has found whole.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unhex is the value of a digit for which isHex holds.
func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
