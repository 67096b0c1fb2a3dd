package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// Headers that a client cannot say anything with to the service behind, by what
// they would say; and those that it can.
var headersOfClients = map[string][]string{
	"address": {
		"Forwarded", "X-Forwarded-For", "X-Forwarded", "X-Forwarded-For-Original", "X-Forward-For", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "Fastly-Client-IP",
		"CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "Fly-Client-IP", "X-Real-IP", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr", "X-ProxyUser-Ip",
		"WL-Proxy-Client-IP", "X-Azure-ClientIP", "X-Appengine-User-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Custom-IP-Authorization", "Via",
	},
	"host, path, scheme": {
		"X-Host", "X-Host-Override", "X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Path", "X-Forwarded-Uri",
		"X-Original-URL", "X-Original-Host", "X-Original-URI", "X-Rewrite-URL", "X-Override-URL", "X-Proxy-URL", "X-HTTP-Host-Override", "X-HTTP-DestinationURL", "X-Url-Scheme", "X-Scheme", "X-Url", "X-Uri", "Front-End-Https",
		"X-Envoy-Original-Path", "Script-Name", "X-Script-Name", "X-Server-Name", "Proxy",
	},
	"method":         {"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override", "X-Method-Overrides", "Expect", "Upgrade"},
	"what to answer": {"X-Accel-Redirect", "X-Accel-Buffering", "X-Accel-Mapping", "X-Sendfile", "X-Sendfile-Type"},
	"who is signed in": {"X-Grantkeeper-Person", "X-Grantkeeper-Signature", "X-Grantkeeper-Anything", "X-Forwarded-User", "X-Forwarded-Email", "X-Remote-User", "Remote-User", "Authorization", "X-Auth-Token", "Cookie", "X-Gateway-Key",
		"X-User", "X-User-Id", "X-User-Name", "X-User-Email", "X-User-Groups", "X-User-Roles", "X-Username", "X-Email", "X-Groups", "X-Roles", "X-Auth-User",
		"X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Groups", "X-Webauth-User", "X-Authenticated-User", "X-Authenticated-Userid", "X-Vouch-User",
		"X-Pomerium-Claim-Email", "X-Goog-Authenticated-User-Email", "X-Amzn-Oidc-Identity", "X-Ms-Client-Principal-Name", "Cf-Access-Authenticated-User-Email",
		"Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "X-Client-Dn", "X-Client-Verify", "X-Ssl-Client-Verify", "X-Ssl-Client-S-Dn", "Ssl-Client-Cert"},
	"what is ours":     {"X-Request-Id"},
	"another spelling": {"X_Forwarded_For", "X-Forwarded_For", "X_Grantkeeper_Person", "x.forwarded.for", "X-Real!IP", "X~Host", "X_Http_Method_Override"},
}

var headersPassedOn = []string{
	"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "If-Match", "If-None-Match", "Range", "User-Agent", "Origin", "Referer", "Prefer", "Idempotency-Key",
	"X-Idempotency-Key", "X-Correlation-Id", "Traceparent", "X-Requested-With", "X-Zip", "X-Shipping", "Slug", "Ship-To", "X-User-Agent", "X-Usage", "X-Email-Template", "X-Client-Version",
}

func TestPassedOn(t *testing.T) {
	for what, names := range headersOfClients {
		for _, name := range names {
			for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
				if passedOn(spelt) {
					t.Errorf("%s: %s is passed on", what, spelt)
				}
			}
		}
	}
	for _, name := range headersPassedOn {
		if !passedOn(name) {
			t.Errorf("%s is not passed on", name)
		}
	}
}

// The service gets none of them, and its own of what this server says, though a
// client names that in Connection.
func TestUpstreamGetsNoOtherSaying(t *testing.T) {
	var got http.Header
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header }, nil)
	sent := []string{"Connection", "X-Grantkeeper-Person, X-Forwarded-For, X-Idempotency-Key, close"}
	for _, names := range headersOfClients {
		for _, name := range names {
			switch name {
			case "Authorization", "X-Auth-Token", "Expect", "Upgrade": // these are for this server
			default:
				sent = append(sent, name, "of the client")
			}
		}
	}
	for _, name := range headersPassedOn {
		sent = append(sent, name, "of the client")
	}
	if a := b.call("GET", "/api/v5/notes", nil, sent...); a.StatusCode != 200 {
		t.Fatal(a.Status, text(t, a))
	}
	for name, values := range got {
		if strings.Contains(strings.Join(values, ""), "of the client") && !passedOn(name) {
			t.Errorf("%s came through", name)
		}
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "app.example", "X-Forwarded-Proto": "https", "X-Request-Id": "request-1",
		"X-Grantkeeper-Person": "ada", "Connection": "", "X-Idempotency-Key": "", "Accept": "of the client", "Idempotency-Key": "of the client",
	} {
		if values := strings.Join(got[name], "|"); values != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
}

// The client gets no header by which the service would speak for this server, for its
// pages, or to what stands in front of it.
func TestPassedBack(t *testing.T) {
	for name, passes := range map[string]bool{
		"Cache-Control": false, "CDN-Cache-Control": false, "Cloudflare-CDN-Cache-Control": false, "Expires": false, "Pragma": false, "Surrogate-Control": false, "X-Accel-Expires": false,
		"Access-Control-Allow-Origin": false, "X-Grantkeeper-Person": false, "X-Request-Id": false, "X-Content-Type-Options": false, "RateLimit": false, "RateLimit-Policy": false,
		"Set-Cookie": false, "Clear-Site-Data": false, "Service-Worker-Allowed": false, "Strict-Transport-Security": false, "Alt-Svc": false, "NEL": false, "Report-To": false, "Accept-CH": false, "Set-Login": false,
		"WWW-Authenticate": false, "Authentication-Info": false, "X-Accel-Redirect": false, "X-Sendfile": false, "X-Lighttpd-Send-File": false, "X-Reproxy-URL": false,
		"Content-Type": true, "ETag": true, "Retry-After": true, "Vary": true, "Link": true, "X-Accel-Buffering": true, "Content-Disposition": true, "Grpc-Status": true,
	} {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			h := http.Header{spelt: {"x"}}
			if onlyPassedBack(h); (len(h) == 1) != passes {
				t.Errorf("%s: passed back: %v, want %v", spelt, len(h) == 1, passes)
			}
		}
	}
}
