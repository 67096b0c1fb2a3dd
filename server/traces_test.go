package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/grantkeeper/grantkeeper/config"
)

// aSpan is what a collector was sent of a request.
type aSpan struct {
	trace, parent, id string
	fields            map[string]string
}

// traceCollector is the far end: a collector that takes OTLP over HTTP.
type traceCollector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    map[string][]aSpan // by name
	raw      strings.Builder
	resource string
}

func newCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{spans: map[string][]aSpan{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent tracepb.TracesData // on the wire the same as an ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %v: %v", r.URL.Path, r.Header, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for _, of := range sent.ResourceSpans {
			c.resource = fmt.Sprint(of.Resource)
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					fields := map[string]string{"status": s.Status.GetCode().String()}
					for _, a := range s.Attributes {
						fields[a.Key] = strings.TrimSpace(a.Value.GetStringValue())
						if n := a.Value.GetIntValue(); n != 0 {
							fields[a.Key] = fmt.Sprint(n)
						}
					}
					c.spans[s.Name] = append(c.spans[s.Name], aSpan{fmt.Sprintf("%x", s.TraceId), fmt.Sprintf("%x", s.ParentSpanId), fmt.Sprintf("%x", s.SpanId), fields})
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func TestTracesOn(t *testing.T) {
	for _, tt := range []struct {
		environ string
		on      bool
	}{
		{"", false}, {"OTEL_EXPORTER_OTLP_ENDPOINT=", false}, {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", true},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces", true}, {"OTEL_SERVICE_NAME=x", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_SDK_DISABLED=true", false}, {"OTEL_SDK_DISABLED=false OTEL_EXPORTER_OTLP_ENDPOINT=x", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_TRACES_EXPORTER=none", false},
	} {
		if got := tracesOn(strings.Fields(tt.environ)); got != tt.on {
			t.Errorf("%s: %t", tt.environ, got)
		}
	}
}

// A collector gets one span for each request, with the route and nothing of
// the address; a trusted proxy's trace goes on, and a stranger's does not.
func TestTraces(t *testing.T) {
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	passed := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed <- r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
	}))
	defer service.Close()
	for _, trusted := range []bool{true, false} {
		s, base, log := started(t, func(c *config.Config) {
			if c.HTTP.TrustedProxies = nil; trusted {
				c.HTTP.TrustedProxies = []string{"127.0.0.1"}
			}
			c.API.Upstream, c.API.UpstreamKeyFile = service.URL, write(t, "upstream.key", "upstream-"+gatewayKey, 0o600)
		})
		addAda(t, s)
		for _, path := range []string{"/oauth/authorize?client_id=secret-in-query&state=secret-state", "/secret-path", "/oauth/token", "/api/v5/secret-item"} {
			r, err := http.NewRequest("GET", base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Traceparent", "00-"+theirs+"-b7ad6b7169203331-01")
			r.Header.Set("Tracestate", "secret=state")
			r.Header.Set("X-Auth-Token", adasKey)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
		}
		if err := s.Close(t.Context()); err != nil { // which sends what waits
			t.Fatal(err)
		}
		c.mu.Lock()
		for name, status := range map[string]string{"GET /oauth/authorize": "400", "GET none": "404", "GET /oauth/token": "405", "GET /api/v5/": "200"} {
			got := c.spans[name]
			if len(got) != 1 {
				t.Fatalf("trusted %t: %d spans %s of %v\n%s", trusted, len(got), name, c.spans, log)
			}
			s := got[0]
			if s.fields["http.response.status_code"] != status || s.fields["http.route"] != strings.TrimPrefix(name, "GET ") || len(s.fields["grantkeeper.request_id"]) != 16 || s.fields["status"] != "STATUS_CODE_UNSET" {
				t.Errorf("%s: %v", name, s)
			}
			if (s.trace == theirs) != trusted || (s.parent == "b7ad6b7169203331") != trusted {
				t.Errorf("trusted %t: %s is of trace %s under %s", trusted, name, s.trace, s.parent)
			}
			if name == "GET /api/v5/" {
				state := map[bool]string{true: "secret=state"}[trusted]
				if told := <-passed; told != "00-"+s.trace+"-"+s.id+"-01 "+state {
					t.Errorf("the service behind is told %s, this is %s %s", told, s.trace, s.id)
				}
			}
		}
		if s := c.spans["GET /oauth/token"][0]; s.fields["error.type"] != "invalid_request" {
			t.Errorf("%v", s)
		}
		if raw := c.raw.String(); strings.Contains(raw, "secret") && !trusted || strings.Contains(raw, "secret-") || strings.Contains(raw, "a-key-of") || strings.Contains(raw, "127.0.0.1") {
			t.Errorf("trusted %t: the collector was told too much: %q", trusted, raw)
		}
		if !strings.Contains(c.resource, "grantkeeper") || !strings.Contains(c.resource, "deployment.environment.name") {
			t.Errorf("resource %s", c.resource)
		}
		clear(c.spans)
		c.raw.Reset()
		c.mu.Unlock()
	}
}

// A collector that is away holds up nobody, and the log says so.
func TestTracesWithoutCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+freePort(t)+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	s, base, log := started(t, func(*config.Config) {})
	for range 20 {
		a, err := http.Get(base + "/.well-known/oauth-authorization-server")
		if err != nil || a.StatusCode != 200 {
			t.Fatal(a, err)
		}
		a.Body.Close()
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "traces are not delivered") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	if traces, err := newTraces(t.Context(), nil, "0.0.1"); traces != nil || err != nil {
		t.Errorf("without a collector: %v %v", traces, err)
	}
	(*traces)(nil).close()
}

func TestSampler(t *testing.T) {
	for _, tt := range []struct {
		sampler, part string
		ok            bool
	}{
		{"", "nonsense", true}, {"always_on", "", true}, {"Parentbased_Always_Off", "", true}, {"traceidratio", "", true},
		{"parentbased_traceidratio", "0.01", true}, {" traceidratio ", " 1 ", true}, {"traceidratio", "0", true},
		{"traceidratio", "1.1", false}, {"traceidratio", "-1", false}, {"traceidratio", "NaN", false}, {"traceidratio", "1%", false},
		{"parentbased_", "", false}, {"jaeger_remote", "", false},
	} {
		err := checkSampler(func(name string) string {
			return map[string]string{"OTEL_TRACES_SAMPLER": tt.sampler, "OTEL_TRACES_SAMPLER_ARG": tt.part}[name]
		})
		if (err == nil) != tt.ok {
			t.Errorf("%q %q: %v", tt.sampler, tt.part, err)
		}
	}
}
