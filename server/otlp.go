package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/grantkeeper/grantkeeper/config"
)

// An otlp sends traces to a collector: OTLP over HTTP, in protobuf. The
// library's own sender of these brings all of gRPC along, for one POST.
type otlp struct {
	address  string
	header   http.Header
	compress bool
	http     *http.Client
}

var _ otlptrace.Client = (*otlp)(nil)

const (
	firstRetry = 5 * time.Second
	longRetry  = 30 * time.Second
	lastRetry  = time.Minute // after the first try
)

// newOTLP reads OTEL_EXPORTER_OTLP_*, where a variable for traces alone goes
// before the one for everything.
func newOTLP(getenv func(string) string, version string) (*otlp, error) {
	get := func(name string) (variable, value string) {
		for _, variable = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value = strings.TrimSpace(getenv(variable)); value != "" {
				break
			}
		}
		return variable, value
	}
	o := &otlp{http: &http.Client{
		Timeout: 10 * time.Second,
		// The headers may hold a key, which is for the collector alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	var err error
	name, value := get("ENDPOINT")
	if o.address, err = tracesAddress(value, !strings.Contains(name, "_TRACES_")); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	name, value = get("HEADERS")
	if o.header, err = tracesHeader(value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o.header.Set("User-Agent", "grantkeeper/"+version)
	if name, value = get("TIMEOUT"); value != "" {
		ms, err := strconv.ParseUint(value, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("%s: %q is not a number of milliseconds", name, value)
		}
		o.http.Timeout = time.Duration(ms) * time.Millisecond
	}
	if name, value = get("COMPRESSION"); value != "" && value != "none" && value != "gzip" {
		return nil, fmt.Errorf("%s: %q is neither gzip nor none", name, value)
	}
	o.compress = value == "gzip"
	if name, value = get("PROTOCOL"); value != "" && value != "http/protobuf" {
		return nil, fmt.Errorf("%s: %q is not spoken, only http/protobuf", name, value)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, err = tracesTLS(get)
	o.http.Transport = transport
	return o, err
}

// tracesAddress is where traces go. A base is for all that OpenTelemetry sends.
func tracesAddress(address string, base bool) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("not an address such as http://127.0.0.1:4318") // it may hold a password
	}
	if base {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}

// tracesHeader reads name=value,name=value, with the values as in a URL.
func tracesHeader(list string) (http.Header, error) {
	header := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(pair) == "":
		case !found || err != nil || strings.ContainsFunc(name, notInName) || name == "" || strings.ContainsFunc(value, notInValue):
			return nil, errors.New("not a list such as name=value,name=value") // the values are secret
		default:
			header.Set(name, value)
		}
	}
	header.Set("Content-Type", "application/x-protobuf")
	return header, nil
}

func notInName(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// tracesTLS reads whom to trust, and who we are, for https. nil is the usual.
func tracesTLS(get func(string) (variable, value string)) (*tls.Config, error) {
	var c tls.Config
	if name, file := get("CERTIFICATE"); file != "" {
		all, err := config.ReadText(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(all) {
			return nil, fmt.Errorf("%s: no certificate in %s", name, file)
		}
	}
	name, certificate := get("CLIENT_CERTIFICATE")
	if _, key := get("CLIENT_KEY"); certificate != "" && key != "" {
		pair, err := config.ReadKeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil, nil
	}
	return &c, nil
}

func (*otlp) Start(context.Context) error { return nil }

func (o *otlp) Stop(context.Context) error {
	o.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, and again for a minute if the collector is busy or
// slow.
func (o *otlp) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire this is an ExportTraceServiceRequest: field 1 of both.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if o.compress {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(body) // a buffer takes everything
		z.Close()
		body = b.Bytes()
	}
	start, pause := time.Now(), firstRetry
	for {
		wait, again, err := o.post(ctx, body)
		if !again {
			return err
		}
		wait = max(wait, pause/2+rand.N(pause)) // not all nodes at once
		if time.Since(start)+wait > lastRetry {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		pause = min(pause*3/2, longRetry)
	}
}

// post tries once. If it can be tried again, wait is how long the collector
// wants to be left alone.
func (o *otlp) post(ctx context.Context, body []byte) (wait time.Duration, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.address, bytes.NewReader(body))
	if err != nil {
		return 0, false, errors.New("not an address") // it may hold a password
	}
	r.Header = o.header.Clone()
	if o.compress {
		r.Header.Set("Content-Encoding", "gzip")
	}
	a, err := o.http.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			return 0, u.Temporary(), u.Err // without the address
		}
		return 0, false, err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(io.LimitReader(a.Body, 64<<10))
	switch a.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(a.Header.Get("Retry-After"), time.Now()), true, fmt.Errorf("the collector answers %d", a.StatusCode)
	}
	if a.StatusCode/100 != 2 {
		return 0, false, fmt.Errorf("the collector answers %d", a.StatusCode)
	}
	if err == nil && a.Header.Get("Content-Type") == "application/x-protobuf" {
		err = refusedSpans(said)
	}
	return 0, false, err
}

// retryAfter reads Retry-After (RFC 9110 section 10.2.3); 0 if there is none.
func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// refusedSpans reads an ExportTraceServiceResponse: in field 1, if anything,
// how many spans the collector did not take (field 1), and why (field 2).
func refusedSpans(answer []byte) error {
	_, partial := field(answer, 1)
	n, _ := field(partial, 1)
	_, why := field(partial, 2)
	if n == 0 && len(why) == 0 {
		return nil
	}
	return fmt.Errorf("the collector refuses %d spans: %.200q", n, why)
}

// field finds a number or bytes in a message of protobuf.
func field(message []byte, wanted protowire.Number) (number uint64, part []byte) {
	for len(message) > 0 {
		name, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, nil
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(name, kind, message); n < 0 {
			return 0, nil
		}
		if name == wanted {
			number, _ = protowire.ConsumeVarint(message[:n])
			part, _ = protowire.ConsumeBytes(message[:n])
		}
		message = message[n:]
	}
	return number, part
}
