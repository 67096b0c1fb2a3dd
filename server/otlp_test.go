package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// environ gives variables named after the common OTEL_EXPORTER_OTLP_, and an
// endpoint.
func environ(t *testing.T, set ...string) func(string) string {
	t.Helper()
	all := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.example:4318"}
	for _, s := range set {
		name, value, _ := strings.Cut(s, "=")
		all["OTEL_EXPORTER_OTLP_"+name] = value
	}
	return func(name string) string { return all[name] }
}

func TestOTLPSettings(t *testing.T) {
	certificate := write(t, "collector.pem", "no certificate", 0o600)
	fifo := filepath.Join(t.TempDir(), "fifo") // nobody writes it
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ set, address, err string }{
		{"X=", "http://collector.example:4318/v1/traces", ""},
		{"ENDPOINT=https://collector.example/base/", "https://collector.example/base/v1/traces", ""},
		{"TRACES_ENDPOINT=https://collector.example/own", "https://collector.example/own", ""},
		{"TRACES_ENDPOINT=https://collector.example", "https://collector.example", ""},
		{"COMPRESSION=none", "http://collector.example:4318/v1/traces", ""},
		{"PROTOCOL=http/protobuf", "http://collector.example:4318/v1/traces", ""},
		{"HEADERS= a=b , ,c=d%20e", "http://collector.example:4318/v1/traces", ""},
		{"ENDPOINT=collector.example:4317", "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"ENDPOINT=http://name:hidden@", "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"TRACES_ENDPOINT=http://hidden%zz", "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"PROTOCOL=grpc", "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"TRACES_PROTOCOL=http/json", "", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		{"COMPRESSION=zstd", "", "OTEL_EXPORTER_OTLP_COMPRESSION"},
		{"TIMEOUT=10s", "", "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"TIMEOUT=0", "", "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"HEADERS=hidden", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"HEADERS==hidden", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"HEADERS=a b=hidden", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"HEADERS=a=hidden%0d%0ab", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"HEADERS=a=hidden%zz", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"CERTIFICATE=" + certificate, "", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"CERTIFICATE=" + certificate + ".none", "", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"CERTIFICATE=" + fifo, "", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
	} {
		o, err := newOTLP(environ(t, tt.set), "0.0.1")
		switch {
		case tt.err == "" && (err != nil || o.address != tt.address):
			t.Errorf("%s: %+v %v", tt.set, o, err)
		case tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err+": ") || strings.Contains(err.Error(), "hidden")):
			t.Errorf("%s: %v", tt.set, err)
		}
	}
	o, err := newOTLP(environ(t, "HEADERS=api-key=for%20all,a=b", "TRACES_HEADERS=api-key=x%3Dy", "TIMEOUT=5000", "TRACES_TIMEOUT=70"), "0.0.1")
	if err != nil || o.header.Get("Api-Key") != "x=y" || o.header.Get("A") != "" || o.http.Timeout != 70*time.Millisecond {
		t.Errorf("%+v %v", o, err)
	}
}

// sendSpan makes a span and sends it.
func sendSpan(o *otlp) error {
	exporter, err := otlptrace.New(context.Background(), o)
	if err != nil {
		return err
	}
	kept := &keptSpans{}
	_, span := sdk.NewTracerProvider(sdk.WithSyncer(kept)).Tracer("test").Start(context.Background(), "a span")
	span.End()
	return exporter.ExportSpans(context.Background(), kept.spans)
}

type keptSpans struct{ spans []sdk.ReadOnlySpan }

func (k *keptSpans) ExportSpans(_ context.Context, s []sdk.ReadOnlySpan) error {
	k.spans = append(k.spans, s...)
	return nil
}

func (k *keptSpans) Shutdown(context.Context) error { return nil }

func TestOTLPOverTLSCompressed(t *testing.T) {
	got := 0
	collector := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Api-Key") != "secret" {
			t.Errorf("%v %v", err, r.Header)
			return
		}
		body, err := io.ReadAll(z)
		var sent tracepb.TracesData
		if err := errors.Join(err, proto.Unmarshal(body, &sent)); err != nil || sent.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != "a span" {
			t.Errorf("%v %v", err, &sent)
		}
		got++
	}))
	defer collector.Close()
	set := []string{"ENDPOINT=" + collector.URL, "HEADERS=api-key=secret", "COMPRESSION=gzip"}
	for _, trusted := range []bool{false, true} {
		if trusted {
			set = append(set, "CERTIFICATE="+write(t, "collector.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw})), 0o600))
		}
		o, err := newOTLP(environ(t, set...), "0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if err := sendSpan(o); (err == nil) != trusted || got > 0 != trusted {
			t.Errorf("trusted %t: %v, %d arrived", trusted, err, got)
		}
	}
}

// busyCollector is a collector that answers with each status in turn.
type busyCollector struct {
	statuses []int
	header   http.Header
	body     []byte
	at       []time.Time
}

func (a *busyCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
		return nil, fmt.Errorf("%d bytes: %v", len(body), err)
	}
	status := a.statuses[min(len(a.at), len(a.statuses)-1)]
	a.at = append(a.at, time.Now())
	return &http.Response{StatusCode: status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// What the collector is too busy for is sent again, not sooner than it asks.
func TestOTLPTriesAgain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		statuses []int
		after    string
		tries    int // 0 is any number above 2
		done     bool
		wait     time.Duration // between tries, at least
	}{
		{"taken", []int{200}, "", 1, true, 0},
		{"accepted", []int{202}, "", 1, true, 0},
		{"busy", []int{429, 503, 200}, "", 3, true, 2500 * time.Millisecond},
		{"busy for long", []int{503, 200}, "17", 2, true, 17 * time.Second},
		{"busy for too long", []int{503, 200}, "61", 1, false, 0},
		{"always busy", []int{502}, "", 0, false, 2500 * time.Millisecond},
		{"not taken", []int{400, 200}, "", 1, false, 0},
		{"a fault", []int{500, 200}, "", 1, false, 0},
		{"elsewhere", []int{307, 200}, "", 1, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, err := newOTLP(environ(t), "0.0.1")
				if err != nil {
					t.Fatal(err)
				}
				far := &busyCollector{statuses: tt.statuses, header: http.Header{"Retry-After": {tt.after}, "Location": {"https://other.example"}}}
				o.http.Transport = far
				begin := time.Now()
				err = sendSpan(o)
				if (err == nil) != tt.done || tt.tries != len(far.at) && (tt.tries != 0 || len(far.at) < 3) {
					t.Errorf("%v after %d tries", err, len(far.at))
				}
				for i := 1; i < len(far.at); i++ {
					if waited := far.at[i].Sub(far.at[i-1]); waited < tt.wait {
						t.Errorf("try %d came after %s, want %s", i+1, waited, tt.wait)
					}
				}
				if took := time.Since(begin); took > time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// A collector may take a part. What it says is told, and nonsense is not.
func TestOTLPRefusedSpans(t *testing.T) {
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, 3)
	partial = protowire.AppendTag(partial, 2, protowire.BytesType)
	partial = protowire.AppendString(partial, "too\nmany")
	answer := protowire.AppendTag(nil, 9, protowire.Fixed32Type) // of a later release
	answer = protowire.AppendFixed32(answer, 7)
	answer = protowire.AppendTag(answer, 1, protowire.BytesType)
	answer = protowire.AppendBytes(answer, partial)
	for _, tt := range []struct {
		kind string
		body []byte
		want string
	}{
		{"application/x-protobuf", answer, `the collector refuses 3 spans: "too\nmany"`},
		{"application/x-protobuf", nil, ""},
		{"application/x-protobuf", []byte{0x0a, 0}, ""},
		{"application/x-protobuf", answer[:len(answer)-3], ""},
		{"application/x-protobuf", []byte("not this"), ""},
		{"text/plain", answer, ""},
	} {
		o, err := newOTLP(environ(t), "0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		o.http.Transport = &busyCollector{statuses: []int{200}, header: http.Header{"Content-Type": {tt.kind}}, body: tt.body}
		if err = sendSpan(o); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("%s %q: %v, want %q", tt.kind, tt.body, err, tt.want)
		}
	}
}

// An error tells where it could not send to by the host at most.
func TestOTLPErrorsTellNoSecret(t *testing.T) {
	o, err := newOTLP(environ(t, "TRACES_ENDPOINT=http://name:hidden@"+freePort(t)+"/hidden?key=hidden", "HEADERS=key=hidden"), "0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err = sendSpan(o); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}
