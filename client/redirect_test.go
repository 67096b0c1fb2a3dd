package client_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/grantkeeper/grantkeeper/client"
)

// ownHosts are those of an installation with two names and two addresses.
var ownHosts = []string{"svalinn.example", "eu.svalinn.example", "9.9.9.9", "2620:fe::fe"}

func host(n int) string { // a name of n characters, n > 64
	s := strings.Repeat(strings.Repeat("a", 61)+".", n/62+1)
	s = s[len(s)-n:]
	return strings.Trim("b"+s[1:len(s)-1], ".") + "c"
}

var accepted = []struct{ name, uri string }{
	{"a callback", "https://client.example/callback"},
	{"no path", "https://client.example"},
	{"root path", "https://client.example/"},
	{"no path but a query", "https://client.example?a=1"},
	{"a query", "https://client.example/cb?tenant=7&x=%20y"},
	{"an empty query", "https://client.example/cb?"},
	{"a question mark in the query", "https://client.example/cb??code=1"},
	{"the default port, written", "https://client.example:443/cb"},
	{"port 1", "https://client.example:1/cb"},
	{"port 65535", "https://client.example:65535/cb"},
	{"two labels", "https://a.b/cb"},
	{"many labels", "https://a.b.c.d.e.f.example/cb"},
	{"capital letters in the host", "https://Client.EXAMPLE/cb"},
	{"an A-label", "https://xn--bcher-kva.example/cb"},
	{"an A-label in capitals", "https://XN--BCHER-KVA.example/cb"},
	{"an A-label of one foreign letter", "https://xn--tda.example/cb"},
	{"an A-label on top", "https://client.xn--p1ai/cb"},
	{"an A-label with a joiner", "https://xn--mgba3gch31f060k.example/cb"},
	{"an A-label of a symbol", "https://xn--ls8h.example/cb"},
	{"an A-label with a katakana dot", "https://xn--ccka0y.example/cb"},
	{"an A-label with a middle dot", "https://xn--ll-0ea.example/cb"},
	{"an A-label with a hyphen", "https://xn--a-b-joa.example/cb"},
	{"an A-label in Cherokee", "https://xn--f9dt7l.example/cb"},
	{"hyphens in the third and fourth place", "https://r3---sn.example/cb"},
	{"a label of 63", "https://" + strings.Repeat("a", 63) + ".example/cb"},
	{"a host of 253", "https://" + host(253) + "/cb"},
	{"a label of digits that is not the last", "https://127.0.0.1.example/cb"},
	{"a last label that begins with a digit", "https://client.1e/cb"},
	{"a last label of many digits and a letter", "https://client.100000000000000000000a/cb"},
	{"a last label of digits and a hyphen", "https://client.0-0/cb"},
	{"a label with 0x that is not the last", "https://0x7f.example/cb"},
	{"a name that begins like localhost", "https://localhost.example/cb"},
	{"a name that ends like localhost", "https://client.notlocalhost/cb"},
	{"a name that ends like local", "https://client.notlocal/cb"},
	{"a name below internal's sister", "https://internal.example/cb"},
	{"a name beside home.arpa", "https://in-addr.arpa/cb"},
	{"below an own host", "https://client.svalinn.example/cb"},
	{"a name that ends like an own host", "https://notsvalinn.example/cb"},
	{"a public IPv4 address", "https://8.8.8.8/cb"},
	{"an IPv4 address with a port", "https://8.8.8.8:8443/cb"},
	{"a public IPv6 address", "https://[2606:4700:4700::1111]/cb"},
	{"an IPv6 address with a port", "https://[2606:4700:4700::1111]:8443/cb"},
	{"an IPv6 address in full", "https://[2606:4700:4700:0:0:0:0:1111]/cb"},
	{"an IPv6 address in capitals", "https://[2606:4700:4700::ABCD]/cb"},
	{"an IPv6 address with a dotted tail", "https://[2606:4700::8.8.8.8]/cb"},
	{"double slash in the path", "https://client.example//cb//"},
	{"dots in names of the path", "https://client.example/.well-known/a..b/...."},
	{"an escaped dot in a name", "https://client.example/a%2eb"},
	{"a dot escaped twice", "https://client.example/%252e%252e/cb"},
	{"dots in the query", "https://client.example/cb?next=/../x"},
	{"an at sign in the path", "https://client.example/@me/cb"},
	{"a colon in the path", "https://client.example/a:b"},
	{"all characters of a path", "https://client.example/-._~!$&'()*+,;=:@%41"},
	{"all characters of a query", "https://client.example/?-._~!$'()*+,:@/?%41"},
	{"an escaped slash", "https://client.example/a%2Fb"},
	{"an escaped control character", "https://client.example/a%00b"},
	{"escapes in every digit", "https://client.example/%01%23%45%67%89%aB%Ab%cD%Cd%eF%Ef%fa%FA"},
	{"names that begin like code", "https://client.example/cb?codec=1&error_uri=2&states=3&issue=4"},
	{"names in another case", "https://client.example/cb?Code=1&STATE=2"},
	{"code as a value", "https://client.example/cb?a=code&b=state"},
	{"a name escaped twice", "https://client.example/cb?c%256fde=1"},
	{"2,000 characters", "https://client.example/" + strings.Repeat("a", 2000-23)},
}

func TestRedirectURIAccepted(t *testing.T) {
	for _, row := range accepted {
		t.Run(row.name, func(t *testing.T) {
			if err := client.CheckRedirectURI(row.uri, ownHosts); err != nil {
				t.Fatalf("%s: %v", row.uri, err)
			}
			agree(t, row.uri)
		})
	}
}

// What each rule says, in the words of its refusal.
const (
	empty      = "it is empty"
	ascii      = "only ASCII is allowed: write the host as A-labels and the rest percent-encoded"
	control    = "spaces and control characters are not allowed"
	backslash  = "backslashes are not allowed"
	fragment   = "a fragment is not allowed"
	percent    = "a percent sign is not followed by two hexadecimal digits"
	notAllowed = "it has a character that RFC 3986 does not allow"
	length     = "it has more than 2000 characters"
	scheme     = "it must begin with https://, there is no http on loopback and no custom scheme"
	loopbacks  = "it must begin with https://, also on loopback, where it would be refused too"
	userInfo   = "user information is not allowed"
	escaped    = "the host must not be percent-encoded and must not have a zone"
	noHost     = "a host is required"
	portEmpty  = "the port is empty"
	portDigits = "the port must be digits"
	portZero   = "the port must not begin with a zero"
	portRange  = "the port must be 1 to 65535"
	brackets   = "the brackets do not hold an IPv6 address"
	trailing   = "the host must not end with a dot"
	emptyLabel = "the host has an empty label"
	longLabel  = "the host has a label of more than 63 characters"
	ldh        = "the host may have letters, digits, hyphens and dots only"
	hyphen     = "the host has a label that begins or ends with a hyphen"
	longHost   = "the host has more than 253 characters"
	ipv4       = "the last label makes the host an IPv4 address, which must be four decimal numbers without leading zeros"
	oneLabel   = "the host must have at least two labels"
	loopback   = "the host is a loopback name"
	private    = "the host is a name of private networks"
	aLabel     = "the host has a label that begins with xn-- and is not an A-label"
	own        = "the host is one of this service"
	bracket    = "brackets are allowed only around an IPv6 address"
	dots       = "the path has a segment of one or two dots"
	reserved   = "the query must not have code, state, error, error_description or iss"
	reach      = "the address is not reachable from everywhere: "
)

var refused = []struct {
	want string
	uris []string
}{
	{empty, []string{""}},
	{ascii, []string{
		"https://bücher.example/", "https://сlient.example/", "https://client。example/", "https://client.example/ü",
		"https://client.example/?ü", "https://client\u00ADx.example/", "https://１２７.0.0.1/", "https://ⓛocalhost/",
		"https://client.example\u2044cb", "https://client.example\uFF0Fcb", "https://client.example/\xff", "\uFEFFhttps://client.example/",
		"https\uFF1A//client.example/", "https://client.example\u3002evil.example/", "https://client.example/\U0001F600",
		"https://client.example/\u0080", "https://client.example/\u202E",
	}},
	{control, []string{
		" https://client.example/", "https://client.example/ ", "https://client.example/a b", "https://client .example/",
		"https://client.example/\n", "\thttps://client.example/", "ht\ntps://client.example/", "https:\t//client.example/",
		"https://cli\tent.example/", "https://client.example/\r\nLocation: x", "https://client.example/\x00", "https://client.example\x00.evil.example/",
		"https://client.example/\x7f", "https://client.example/\x1f", "https:// client.example/", "https://client.example:44 3/",
	}},
	{backslash, []string{
		`https:\\client.example\cb`, `https://client.example\@evil.example/`, `https://client.example/\evil`, `https:/\client.example/`,
		`https://client.example\.evil.example/`, `https://evil.example\\client.example/`, `https://client.example/?a=\`,
	}},
	{fragment, []string{
		"https://client.example/#", "https://client.example/#a", "https://client.example#", "https://client.example/?a#b",
		"https://client.example#@evil.example/", "#", "https://#client.example/", "https://client.example/cb#code=1",
	}},
	{percent, []string{
		"https://client.example/%", "https://client.example/%4", "https://client.example/%zz", "https://client.example/%4g",
		"https://client.example/?%", "https://client.example/?a=%f", "https://client.example/%%41", "https://client.example/%x1",
		"https://%/", "https://client.example/%u0041", "https://client.example/%G0", "https://client.example/%4/",
	}},
	{notAllowed, []string{
		"https://client.example/<", "https://client.example/>", `https://client.example/"`, "https://client.example/^",
		"https://client.example/`", "https://client.example/{id}", "https://client.example/|", "https://client.example/?a={b}",
		"https://*|.example/", "https://<client>.example/", "https://client.example/}",
	}},
	{length, []string{
		"https://client.example/" + strings.Repeat("a", 2001-23), "https://client.example/" + strings.Repeat("a", 60000),
		"https://client.example/?" + strings.Repeat("%41", 1000),
	}},
	{loopbacks, []string{
		"http://localhost/", "http://localhost", "HTTP://LOCALHOST:7000?a", "http://a.localhost/", "http://127.0.0.1/", "http://127.0.0.1:7000", "http://[::1]:7000/", "http://[::ffff:127.1.2.3]/",
	}},
	{scheme, []string{
		"http://", "http:///localhost", "http:///.localhost", "http://8.8.8.8/", "http://[2606:4700::1]/", "http://client.example/localhost", "custom://localhost/", "localhost/cb", "127.0.0.1",
		"http://client.example/", "HTTPS://client.example/", "Https://client.example/", "https:/client.example/", "https:client.example",
		"https:", "https", "https:/", "//client.example/", "/cb", "client.example", "client.example/cb", "client.example:443",
		"ftp://client.example/", "ws://client.example/", "wss://client.example/", "file:///etc/passwd", "javascript:alert(1)",
		"data:text/html,x", "urn:ietf:wg:oauth:2.0:oob", "urn:ietf:wg:oauth:2.0:oob:auto", "com.client.app:/cb", "com.client.app://cb",
		"myapp://callback", "about:blank", "blob:https://client.example/x", "view-source:https://client.example/", "mailto:a@client.example",
		"intent://client.example/", "httpss://client.example/", "xhttps://client.example/", "https//client.example/", "https;//client.example/",
		"?https://client.example/", "oob", "null", "cursor://anysphere.cursor-mcp/oauth/callback", "filesystem:https://client.example/",
	}},
	{userInfo, []string{
		"https://user@client.example/", "https://user:password@client.example/", "https://@client.example/", "https://:@client.example/",
		"https://client.example@evil.example/", "https://client.example:443@evil.example/", "https://a@b@client.example/",
		"https://client.example%40@evil.example/", "https://user@[2606:4700::1]/", "https://client.example@/", "https://@/", "https://@",
		"https://client.example:@evil.example/", "https://client.example&@evil.example/", "https://a:b@client.example:443/",
		"https://user@client.example?x", "https://[2606:4700::1]@evil.example/",
	}},
	{escaped, []string{
		"https://client%2eexample/", "https://%63lient.example/", "https://client.example%2f/", "https://127%2e0%2e0%2e1/",
		"https://%6cocalhost/", "https://client.example%00/", "https://client.example:%34%34%33/",
		"https://[fe80::1%25eth0]/", "https://[2606:4700::1%25eth0]/", "https://b%C3%BCcher.example/", "https://client%5cexample.example/",
		"https://client.example%23/", "https://client.example%3f/", "https://client.example%09/", "https://[2606:4700::1%2525x]/",
	}},
	{noHost, []string{
		"https://", "https:///", "https:///client.example/", "https://?a", "https:///cb", "https://:443/", "https://:/", "https:////client.example/", "https://::1/",
	}},
	{portEmpty, []string{"https://client.example:/", "https://client.example:", "https://client.example:?a", "https://8.8.8.8:/", "https://[2606:4700::1]:/"}},
	{portDigits, []string{
		"https://client.example:https/", "https://client.example:-1/", "https://client.example:+443/", "https://client.example:443:443/",
		"https://client.example:0x1bb/", "https://client.example:4a/", "https://client.example::443/", "https://client.example:443;/",
		"https://client.example:443,evil.example/", "https://[2606:4700::1]:a/", "https://2606:4700::1/", "https://client.example:1e3/",
		"https://client.example:443./", "https://8.8.8.8:443:/", "https://client.example:[443]/", "https://[2606:4700::1]:443]/",
	}},
	{portZero, []string{
		"https://client.example:0/", "https://client.example:0443/", "https://client.example:00000443/", "https://client.example:01/",
		"https://client.example:00/", "https://client.example:065536/", "https://[2606:4700::1]:0443/",
	}},
	{portRange, []string{
		"https://client.example:65536/", "https://client.example:99999/", "https://client.example:443443/", "https://client.example:4294967739/",
		"https://client.example:18446744073709552059/", "https://client.example:" + strings.Repeat("9", 500) + "/", "https://[2606:4700::1]:65536/",
	}},
	{brackets, []string{
		"https://[]/", "https://[/", "https://[client.example]/", "https://[8.8.8.8]/", "https://[2606:4700::1/", "https://[2606:4700::1]x/",
		"https://[2606:4700::1]client.example/", "https://[2606:4700:::1]/", "https://[2606::4700::1]/", "https://[2606:4700:1]/",
		"https://[1:2:3:4:5:6:7:8:9]/", "https://[2606:4700::12345]/", "https://[2606:4700::g]/", "https://[v1.2606]/", "https://[vF.a:b]/",
		"https://[[2606:4700::1]]/", "https://[2606:4700::1]]/", "https://[2606:4700::1][2606:4700::1]/", "https://[2606:4700::1]./",
		"https://[2606:4700::8.8.8]/", "https://[2606:4700::8.8.8.256]/", "https://[2606:4700::8.8.8.08]/", "https://[2606:4700::0x8.8.8.8]/",
		"https://[:]/", "https://[:2606::1]/", "https://[2606:4700:0:0:0:0:0:1:]/", "https://[2606:4700::-1]/", "https://[1:2:3:4:5:6:7:8.8.8.8]/",
	}},
	{trailing, []string{
		"https://client.example./", "https://client.example.:443/", "https://localhost./", "https://client.local./", "https://127.0.0.1./",
		"https://svalinn.example./", "https://./", "https://../", "https://client.example../", "https://8.8.8.8./",
	}},
	{emptyLabel, []string{"https://.client.example/", "https://client..example/", "https://.localhost/", "https://..a/", "https://8..8.8/", "https://.8.8.8.8/", "https://..8/"}},
	{longLabel, []string{"https://" + strings.Repeat("a", 64) + ".example/", "https://client." + strings.Repeat("a", 64) + "/"}},
	{ldh, []string{
		"https://client_x.example/", "https://_dmarc.example/", "https://*.example/", "https://client,evil.example/", "https://client;x.example/",
		"https://client!.example/", "https://client$.example/", "https://client&.example/", "https://client'.example/", "https://(client).example/",
		"https://client+.example/", "https://client=.example/", "https://~client.example/", "https://client.example]/", "https://client[.example/",
		"https://a.example,b.example/", "https://8.8.8.8,9.9.9.9/", "https://client]example.x/",
	}},
	{hyphen, []string{"https://-client.example/", "https://client-.example/", "https://client.-example/", "https://client.example-/", "https://-.example/", "https://-.-/", "https://xn--.example/", "https://8.8.8.-8/"}},
	{longHost, []string{"https://" + host(254) + "/", "https://" + host(300) + "/", "https://" + host(1000) + "/"}},
	{ipv4, []string{
		"https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0X7F.0X0.0X0.0X1/", "https://017700000001/",
		"https://0177.0.0.1/", "https://127.0.0.01/", "https://127.0.0.0x1/", "https://08.8.8.8/", "https://8.8.8.08/", "https://8.8.8/",
		"https://8.8/", "https://8/", "https://0/", "https://8.8.8.8.8/", "https://256.8.8.8/", "https://8.8.8.256/", "https://8.8.8.4294967296/",
		"https://client.1/", "https://client.example.0/", "https://client.0x/", "https://client.0xg/", "https://client.0xffffffff/", "https://0x/",
		"https://client.0X1/", "https://1.2.3.4.5.6/", "https://00000008.8.8.8/", "https://8.8.8.0x8/", "https://a.b.c.127/", "https://8.a.8.8/",
		"https://134744072/", "https://client.09/", "https://99999999999999999999/", "https://00.0.0.0/", "https://8.8.8.008/",
	}},
	{oneLabel, []string{"https://client/", "https://client:443/", "https://intranet/cb", "https://xn--p1ai/", "https://a/", "https://local/", "https://internal/", "https://example/", "https://arpa/"}},
	{loopback, []string{
		"https://localhost/", "https://LOCALHOST/", "https://LocalHost:8443/", "https://client.localhost/", "https://a.b.LOCALHOST/", "https://localhost:443/cb",
		"https://localhost.localhost/", "https://svalinn.example.localhost/",
		"https://localhost.localdomain/", "https://LocalHost.LocalDomain:8443/cb", "https://localhost4.localdomain4/",
		"https://localhost6.localdomain6/", "https://client.localdomain/",
	}},
	{private, []string{
		"https://client.local/", "https://client.LOCAL/", "https://a.b.local:443/", "https://metadata.google.internal/", "https://client.internal/",
		"https://client.Internal/", "https://router.home.arpa/", "https://home.arpa/", "https://a.b.HOME.ARPA/", "https://local.local/",
		"https://host.docker.internal/",
	}},
	{aLabel, []string{
		"https://xn--a.example/", "https://xn--a-a.example/", "https://xn--0.example/", "https://xn--zzzzzz.example/", "https://client.xn--99999999/",
		"https://XN--A.example/", "https://xn--tda.xn--a/", "https://xn--bcher-kv.example/", "https://a.xn--bcher-kv.example:8443/cb",
		"https://xn--bcher-2pa.example/", // BUecher with its umlaut: a capital letter inside
		"https://xn--abc-bz3b.example/",  // U+3002, a dot to a browser
		"https://xn--ab-yu3n.example/",   // U+FF0E, a full-width dot
		"https://xn--ab-l3t.example/",    // U+2024, a one-dot leader
		"https://xn--ab-g4t.example/",    // U+202E, turns the text around
		"https://xn--a-ro7g.example/",    // U+E000, private use
		"https://xn--a-pib.example/",     // U+0378, unassigned
		"https://xn--a-wbb.example/",     // begins with a mark
		"https://xn----eha.example/",     // begins with a hyphen
		"https://xn--ab--ioa.example/",   // ends with a hyphen
		"https://xn---eha.example/",      // a delimiter after nothing
		"https://xn--99zt52a99zt52a99zt52a99zt52a99zt52a99zt52a.example/",
	}},
	{own, []string{
		"https://svalinn.example/", "https://svalinn.example:8443/cb", "https://SVALINN.example/", "https://eu.svalinn.example/cb?x",
		"https://9.9.9.9/", "https://9.9.9.9:8443/", "https://[2620:fe::fe]/", "https://[2620:FE:0::00fe]:8443/",
	}},
	{bracket, []string{
		"https://client.example/[id]", "https://client.example/?a[]=1", "https://client.example/]", "https://client.example?[", "https://client.example/a[/b",
	}},
	{dots, []string{
		"https://client.example/.", "https://client.example/..", "https://client.example/./cb", "https://client.example/../cb",
		"https://client.example/a/./cb", "https://client.example/a/../cb", "https://client.example/a/.", "https://client.example/a/..",
		"https://client.example/%2e", "https://client.example/%2E", "https://client.example/%2e%2e/cb", "https://client.example/%2E%2e/cb",
		"https://client.example/.%2e/cb", "https://client.example/%2e./cb", "https://client.example/a/%2e%2e", "https://client.example/..?x",
		"https://client.example/.?x", "https://client.example//../cb", "https://client.example/a%2f..%2fb", "https://client.example/a%2F%2e%2e%2Fb",
		"https://client.example/a%5c..%5cb", "https://client.example/a%5C.%2e/b", "https://client.example/..%2f", "https://client.example/cb/..%5c",
		"https://client.example/a/.%2E?x=1", "https://client.example/.//", "https://client.example/%2e%2F",
	}},
	{reserved, []string{
		"https://client.example/?code=1", "https://client.example/?state=1", "https://client.example/?error=1", "https://client.example/?iss=1",
		"https://client.example?code=1", "https://client.example/?code", "https://client.example/?code=", "https://client.example/?a=1&code=2",
		"https://client.example/?a=1;code=2", "https://client.example/?c%6fde=1", "https://client.example/?%63%6f%64%65=1", "https://client.example/?st%61te",
		"https://client.example/?&&code=1", "https://client.example/?code&a", "https://client.example/?a&iss", "https://client.example/?%69%73%73=x",
		"https://client.example/?error;a", "https://client.example/?erro%72=access_denied", "https://client.example/?code==1", "https://client.example/?a=b;&;state",
		"https://client.example/?;code", "https://client.example/?%65rror", "https://client.example/?error_description=1", "https://client.example/?error%5Fdescription",
	}},
}

// One row for each rule of decision R2.
func TestRedirectURIRefused(t *testing.T) {
	for _, row := range refused {
		t.Run(row.want, func(t *testing.T) {
			for _, uri := range row.uris {
				if got := message(uri); got != row.want {
					t.Errorf("%q: %q, want %q", cut(uri), got, row.want)
				}
			}
		})
	}
}

// Each block of the special-purpose registries, with its first and its last
// address, and what stands around it.
func TestRedirectURIAddressRefused(t *testing.T) {
	for _, row := range []struct{ why, first, last string }{
		{"this network (RFC 791)", "0.0.0.0", "0.255.255.255"},
		{"private (RFC 1918)", "10.0.0.0", "10.255.255.255"},
		{"private (RFC 1918)", "172.16.0.0", "172.31.255.255"},
		{"private (RFC 1918)", "192.168.0.0", "192.168.255.255"},
		{"shared by carriers (RFC 6598)", "100.64.0.0", "100.127.255.255"},
		{"loopback (RFC 1122)", "127.0.0.0", "127.255.255.255"},
		{"loopback (RFC 1122)", "127.0.0.1", "127.0.0.1"},
		{"link-local (RFC 3927)", "169.254.0.0", "169.254.255.255"},
		{"link-local (RFC 3927)", "169.254.169.254", "169.254.169.254"},
		{"protocol assignments (RFC 6890)", "192.0.0.0", "192.0.0.8"},
		{"protocol assignments (RFC 6890)", "192.0.0.11", "192.0.0.255"},
		{"documentation (RFC 5737)", "192.0.2.0", "192.0.2.255"},
		{"documentation (RFC 5737)", "198.51.100.0", "198.51.100.255"},
		{"documentation (RFC 5737)", "203.0.113.0", "203.0.113.255"},
		{"6to4 relays (RFC 7526)", "192.88.99.0", "192.88.99.255"},
		{"benchmarking (RFC 2544)", "198.18.0.0", "198.19.255.255"},
		{"multicast (RFC 5771)", "224.0.0.0", "239.255.255.255"},
		{"reserved (RFC 1112)", "240.0.0.0", "255.255.255.254"},
		{"broadcast (RFC 919)", "255.255.255.255", "255.255.255.255"},

		{"unspecified (RFC 4291)", "[::]", "[0:0:0:0:0:0:0:0]"},
		{"loopback (RFC 4291)", "[::1]", "[0:0:0:0:0:0:0.0.0.1]"},
		{"IPv4-mapped (RFC 4291)", "[::ffff:0:0]", "[::ffff:255.255.255.255]"},
		{"IPv4-mapped (RFC 4291)", "[::ffff:8.8.8.8]", "[0:0:0:0:0:FFFF:7f00:1]"},
		{"IPv4-compatible (RFC 4291)", "[::2]", "[::255.255.255.255]"},
		{"NAT64 (RFC 6052)", "[64:ff9b::]", "[64:ff9b::255.255.255.255]"},
		{"NAT64 (RFC 8215)", "[64:ff9b:1::]", "[64:ff9b:1:ffff:ffff:ffff:ffff:ffff]"},
		{"discarded (RFC 6666)", "[100::]", "[100::ffff:ffff:ffff:ffff]"},
		{"dummy (RFC 9780)", "[100:0:0:1::]", "[100:0:0:1:ffff:ffff:ffff:ffff]"},
		{"Teredo (RFC 4380)", "[2001::]", "[2001:0:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"protocol assignments (RFC 2928)", "[2001:1::]", "[2001:1::]"},
		{"protocol assignments (RFC 2928)", "[2001:1::4]", "[2001:1:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"benchmarking (RFC 5180)", "[2001:2::]", "[2001:2:0:ffff:ffff:ffff:ffff:ffff]"},
		{"protocol assignments (RFC 2928)", "[2001:2:1::]", "[2001:2:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"protocol assignments (RFC 2928)", "[2001:4::]", "[2001:4:111:ffff:ffff:ffff:ffff:ffff]"},
		{"protocol assignments (RFC 2928)", "[2001:4:113::]", "[2001:f:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"ORCHID (RFC 4843)", "[2001:10::]", "[2001:1f:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"protocol assignments (RFC 2928)", "[2001:40::]", "[2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"documentation (RFC 3849)", "[2001:db8::]", "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"documentation (RFC 9637)", "[3fff::]", "[3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"6to4 (RFC 3056)", "[2002::]", "[2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"6to4 (RFC 3056)", "[2002:7f00:1::]", "[2002:0808:0808::1]"},
		{"segment routing (RFC 9602)", "[5f00::]", "[5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"private (RFC 4193)", "[fc00::]", "[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"link-local (RFC 4291)", "[fe80::]", "[febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"site-local (RFC 3879)", "[fec0::]", "[feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"multicast (RFC 4291)", "[ff00::]", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"reserved (RFC 4291)", "[::1:0:0]", "[::fffe:ffff:ffff]"},
		{"reserved (RFC 4291)", "[::1:0:0:0]", "[64:ff9b::1:0:0]"},
		{"reserved (RFC 4291)", "[64:ff9b:2::]", "[ff:ffff::]"},
		{"reserved (RFC 4291)", "[100:0:0:2::]", "[1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"reserved (RFC 4291)", "[4000::]", "[5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"reserved (RFC 4291)", "[5f01::]", "[fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
		{"reserved (RFC 4291)", "[fe00::]", "[fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
	} {
		for _, address := range []string{row.first, row.last} {
			for _, tail := range []string{"", "/cb", ":8443/cb"} {
				if got, want := message("https://"+address+tail), reach+row.why; got != want {
					t.Errorf("%s: %q, want %q", address+tail, got, want)
				}
			}
		}
	}
}

// The neighbours of the blocks above, and the parts of them that the
// registries call globally reachable.
func TestRedirectURIAddressAccepted(t *testing.T) {
	for _, address := range strings.Fields(`
		1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
		169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0
		192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
		198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
		192.0.0.9 192.0.0.10 192.31.196.1 192.52.193.1 192.175.48.1
		[2000::] [2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff] [2001:200::] [2001:db7:ffff::] [2001:db9::] [2001:ffff::]
		[2003::] [3ffe:ffff::] [3fff:1000::] [3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]
		[2001:1::1] [2001:1::2] [2001:1::3] [2001:3::1] [2001:4:112::1] [2001:20::1] [2001:2f:ffff::] [2001:30::1] [2001:3f:ffff::] [2620:4f:8000::1]`) {
		uri := "https://" + address + "/cb"
		if got := message(uri); got != "" {
			t.Errorf("%s: %q", uri, got)
		}
		agree(t, uri)
	}
}

// Without hosts of our own nothing else changes.
func TestRedirectURIWithoutOwnHosts(t *testing.T) {
	for _, uri := range []string{"https://svalinn.example/", "https://9.9.9.9/", "https://[2620:fe::fe]/"} {
		if err := client.CheckRedirectURI(uri, nil); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if err := client.CheckRedirectURI("https://[2620:fe::fe]/", []string{"[2620:fe::fe]"}); err == nil || err.Error() != own {
		t.Errorf("own host in brackets: %v", err)
	}
}

// Every single byte, in every part of a URI: what passes is as RFC 3986 has it
// in that part, and the readers agree on it.
func TestRedirectURIEveryByte(t *testing.T) {
	const subDelims, unreserved = "!$&'()*+,;=", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	for _, part := range []struct{ before, after, allowed string }{
		{"", "https://client.example/", ""},
		{"https", "://client.example/", ""},
		{"https:", "//client.example/", ""},
		{"https:/", "/client.example/", ""},
		{"https://a", "b.example/", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./?"},
		{"https://client.example:4", "3/", "0123456789/?"},
		{"https://client.example/a", "b", unreserved + subDelims + ":@/?"},
		{"https://client.example/?a", "b", unreserved + subDelims + ":@/?"},
		{"https://client.example/?a=", "", unreserved + subDelims + ":@/?"},
	} {
		for c := range 256 {
			uri := part.before + string([]byte{byte(c)}) + part.after
			ok := client.CheckRedirectURI(uri, ownHosts) == nil
			want := strings.IndexByte(part.allowed, byte(c)) >= 0
			switch uri {
			case "https://a/b.example/", "https://a?b.example/": // one label
				want = false
			}
			if ok != want {
				t.Errorf("%q: accepted is %v, want %v", uri, ok, want)
			}
			if ok {
				agree(t, uri)
			}
		}
	}
}

// All pieces with all pieces: whatever is accepted, the readers agree on it.
func TestRedirectURIReadersAgree(t *testing.T) {
	hosts := []string{
		"client.example", "CLIENT.Example", "a.b", "8.8.8.8", "8.8.8.08", "127.1", "0x8.8.8.8", "client.0x8", "[2606:4700::1]", "[2606:4700::8.8.8.8]",
		"[::ffff:8.8.8.8]", "xn--bcher-kva.example", "xn--a.example", "a..b", ".a.b", "a.b.", "localhost", "user@a.b", "a.b@c.d", "a%2eb.c", "a_b.c", "",
	}
	ports := []string{"", ":", ":443", ":0443", ":8443", ":65535", ":65536", ":0", ":+1", ":1:2"}
	paths := []string{"", "/", "/cb", "/a/../b", "/%2e%2e/b", "//x", "/@x", "/:1", "/a;b", `\x`, "/%", "/%41"}
	queries := []string{"", "?", "?a=1", "?code=1", "?c%6fde", "?a;iss", "?@x", "??", "?/../", "#", "?a#b"}
	passed := 0
	for _, scheme := range []string{"https://", "HTTPS://", "http://", "https:/", "https:", "https:///", `https:\\`} {
		for _, h := range hosts {
			for _, port := range ports {
				for _, path := range paths {
					for _, query := range queries {
						uri := scheme + h + port + path + query
						if client.CheckRedirectURI(uri, ownHosts) == nil {
							passed++
							agree(t, uri)
						}
					}
				}
			}
		}
	}
	// 7 hosts, 4 ports, 8 paths and 6 queries are good with one scheme, in all
	// combinations.
	if want := 7 * 4 * 8 * 6; passed != want {
		t.Errorf("%d accepted, want %d", passed, want)
	}
}

// F-01: whatever is accepted holds only bytes of RFC 3986, is not altered by
// writing it back, and leads to no address that is not everybody's.
func FuzzF01RedirectURI(f *testing.F) {
	seedURIs(f)
	f.Fuzz(func(t *testing.T, uri string) {
		err := client.CheckRedirectURI(uri, ownHosts)
		if err != nil {
			describable(t, err.Error())
			return
		}
		if !rfc3986.MatchString(uri) || len(uri) > 2000 {
			t.Fatalf("not a URI of RFC 3986: %q", uri)
		}
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if u.String() != uri {
			t.Fatalf("%q is written back as %q", uri, u)
		}
		if u.User != nil || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("%q has a part that must not be", uri)
		}
		for name := range u.Query() {
			if name == "code" || name == "state" || name == "error" || name == "iss" {
				t.Fatalf("%q has the parameter %s", uri, name)
			}
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is4In6() || a.Zone() != "" {
				t.Fatalf("%q leads to %v", uri, a)
			}
		}
	})
}

// F-02: whatever is accepted has the same scheme, host and port in Go's reader
// and in one that follows the WHATWG URL standard, as browsers do.
func FuzzF02ReadersAgree(f *testing.F) {
	seedURIs(f)
	f.Fuzz(func(t *testing.T, uri string) {
		if client.CheckRedirectURI(uri, ownHosts) == nil {
			agree(t, uri)
		}
	})
}

// F-02 with the pieces apart, so that far more of what is tried is accepted.
func FuzzF02Host(f *testing.F) {
	for _, row := range accepted {
		if u, err := url.Parse(row.uri); err == nil {
			f.Add(u.Hostname(), uint16(len(row.uri)), u.EscapedPath())
		}
	}
	f.Fuzz(func(t *testing.T, host string, port uint16, path string) {
		for _, uri := range []string{"https://" + host + "/" + path, fmt.Sprintf("https://%s:%d/%s", host, port, path)} {
			if client.CheckRedirectURI(uri, ownHosts) == nil {
				agree(t, uri)
			}
		}
	})
}

func seedURIs(f *testing.F) {
	for _, row := range accepted {
		f.Add(row.uri)
	}
	for _, row := range refused {
		for _, uri := range row.uris {
			f.Add(uri)
		}
	}
	for _, uri := range []string{
		"https://[2001:db8::1]:8443/cb?x=1", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[::ffff:127.0.0.1]/",
		"https://100.64.0.1/", "https://169.254.169.254/latest/meta-data", "https://8.8.8.8/%2e%2e;/", "https://xn--80ak6aa92e.example/",
	} {
		f.Add(uri)
	}
}

// rfc3986 is the grammar of an https URI as appendix A of RFC 3986 writes it,
// without user information and fragment.
var rfc3986 = func() *regexp.Regexp {
	const pchar = `(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})`
	return regexp.MustCompile(`^https://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~]+)(?::[0-9]+)?(?:/` + pchar + `*)*(?:\?(?:` + pchar + `|[/?])*)?$`)
}()

// agree fails unless Go's reader, a WHATWG reader and plain cutting see one
// scheme, host and port in an accepted URI. A WHATWG reader may instead refuse
// an A-label, whose tables are not ours: a browser then goes nowhere.
func agree(t *testing.T, uri string) {
	t.Helper()
	host, port := plainCut(uri)
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatalf("%q: net/url: %v", uri, err)
	}
	goPort := u.Port()
	if goPort == "" {
		goPort = "443"
	}
	if u.Scheme != "https" || sameHost(u.Hostname()) != host || goPort != port {
		t.Fatalf("%q: net/url sees %s, %s, %s", uri, u.Scheme, u.Hostname(), goPort)
	}
	if misread.MatchString(host) {
		return
	}
	w, err := whatwg.Parse(uri)
	if err != nil {
		if !strings.Contains("."+host, ".xn--") {
			t.Fatalf("%q: WHATWG: %v", uri, err)
		}
		return
	}
	wPort := w.Port()
	if wPort == "" {
		wPort = strconv.Itoa(w.DecodedPort())
	}
	if w.Protocol() != "https:" || sameHost(w.Hostname()) != host || wPort != port || w.Username() != "" || w.Password() != "" {
		t.Fatalf("%q: WHATWG sees %s, %s, %s", uri, w.Protocol(), w.Hostname(), wPort)
	}
	if path := w.Pathname(); path != u.EscapedPath() && path != "/" {
		t.Fatalf("%q: WHATWG sees the path %q, net/url %q", uri, path, u.EscapedPath())
	}
}

// misread matches a host whose last label the WHATWG reader we test with takes
// for a number and a browser does not: by the standard (section 3.5, IPv4
// number parser) every character must be a digit, but this reader gives up on
// a long one before it finds a letter, and takes a hyphen behind 0 for a minus.
var misread = regexp.MustCompile(`(^|\.)([0-9]{19}[0-9a-z-]*[a-z-][0-9a-z-]*|0-[0-7]+)$`)

// plainCut is what a person sees who reads from the left.
func plainCut(uri string) (host, port string) {
	s := strings.TrimPrefix(uri, "https://")
	s = regexp.MustCompile(`^[^/?]*`).FindString(s)
	port = "443"
	if m := regexp.MustCompile(`^(.*[^:]):([0-9]+)$`).FindStringSubmatch(s); m != nil && (strings.HasSuffix(m[1], "]") || !strings.HasPrefix(s, "[")) {
		s, port = m[1], m[2]
	}
	return sameHost(s), port
}

// sameHost brings the spellings of one host together: capital letters, and the
// many forms of an IPv6 address.
func sameHost(host string) string {
	host = strings.ToLower(strings.Trim(host, "[]"))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return host
}

// describable fails unless a text may stand in error_description. RFC 6749
// section 5.2.
func describable(t *testing.T, text string) {
	t.Helper()
	if text == "" || len(text) > 200 {
		t.Fatalf("not a short text: %q", text)
	}
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7E || c == '"' || c == '\\' {
			t.Fatalf("not for error_description: %q", text)
		}
	}
}

func message(uri string) string {
	if err := client.CheckRedirectURI(uri, ownHosts); err != nil {
		return err.Error()
	}
	return ""
}

func cut(s string) string { return s[:min(len(s), 100)] }

// A percent sign stands before two hexadecimal digits, of either case, and
// before nothing else.
func TestEveryEscape(t *testing.T) {
	const digits = "0123456789abcdefABCDEF"
	for n := range 1 << 16 {
		first, second := byte(n>>8), byte(n)
		uri := "https://a.example/x%" + string([]byte{first, second}) + "x"
		want := strings.IndexByte(digits, first) >= 0 && strings.IndexByte(digits, second) >= 0
		if err := client.CheckRedirectURI(uri, nil); (err == nil) != want {
			t.Fatalf("%q: %v, want accepted %v", uri, err, want)
		}
	}
}
