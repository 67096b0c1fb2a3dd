package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	attr "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/fault"
)

// tracesOn reports whether the environment names a collector for traces. All
// settings of traces are OpenTelemetry's own variables: whoever runs a
// collector knows them, and they are the same for every program.
func tracesOn(environ []string) bool {
	on := false
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":
			on = on || value != ""
		case "OTEL_SDK_DISABLED":
			if strings.EqualFold(value, "true") {
				return false
			}
		case "OTEL_TRACES_EXPORTER":
			if value == "none" {
				return false
			}
		}
	}
	return on
}

// traces makes a span of each request. nil makes none, and costs nothing.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// tracesTo is the collector that the environment names, and what is said of
// this server there; nil without one. An error is of a variable that cannot be
// used.
func tracesTo(ctx context.Context, version string) (*otlp, *resource.Resource, error) {
	if !tracesOn(os.Environ()) {
		return nil, nil, nil
	}
	collector, err := newOTLP(os.Getenv, version)
	if err != nil {
		return nil, nil, fault.BadConfig("see the variables OTEL_EXPORTER_OTLP_*", "traces: %v", err)
	}
	if err := checkSampler(os.Getenv); err != nil {
		return nil, nil, fault.BadConfig("write OTEL_TRACES_SAMPLER=parentbased_traceidratio, OTEL_TRACES_SAMPLER_ARG=0.01", "traces: %v", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attr.String("service.name", "grantkeeper"), attr.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fault.BadConfig("see the variables OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME", "traces: %v", err)
	}
	return collector, about, nil
}

// CheckTraces checks the variables of OpenTelemetry as Start does.
func CheckTraces(ctx context.Context) error {
	_, _, err := tracesTo(ctx, "")
	return err
}

// checkSampler refuses what the library would take for "all requests".
func checkSampler(getenv func(string) string) error {
	sampler, part := strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER")), strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG"))
	if sampler == "" {
		return nil
	}
	switch strings.TrimPrefix(strings.ToLower(sampler), "parentbased_") {
	case "always_on", "always_off":
		return nil
	case "traceidratio":
		if f, err := strconv.ParseFloat(part, 64); part == "" || err == nil && f >= 0 && f <= 1 {
			return nil
		}
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a number from 0 to 1", part)
	}
	return fmt.Errorf("OTEL_TRACES_SAMPLER: %q is unknown", sampler)
}

// newTraces sends spans to the collector that the environment names, in
// batches and in the background: no request waits for one.
func newTraces(ctx context.Context, log *slog.Logger, version string) (*traces, error) {
	collector, about, err := tracesTo(ctx, version)
	if collector == nil || err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, collector)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not delivered", "err", err) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &traces{provider, provider.Tracer("github.com/grantkeeper/grantkeeper", trace.WithInstrumentationVersion(version))}, nil
}

// close sends what waits, for at most 5 seconds.
func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		otel.Handle(err)
	}
}

// traceContext is how a request names the span that it belongs to (W3C Trace
// Context).
var traceContext = propagation.TraceContext{}

// begin starts the span of a request. The span that it belongs to is believed
// from our own proxies and gateways alone: a stranger could have every request
// recorded, or spoil the traces of others. What is behind this server is told
// of this span.
func (t *traces) begin(r *http.Request, start time.Time, trusted bool) *http.Request {
	ctx, carrier := r.Context(), propagation.HeaderCarrier(r.Header)
	if trusted {
		ctx = traceContext.Extract(ctx, carrier)
	}
	ctx, _ = t.tracer.Start(ctx, "request", trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindServer))
	delete(r.Header, "Tracestate")
	traceContext.Inject(ctx, carrier)
	return r.WithContext(ctx)
}

// end says of a request what its log line does, but for the client's address.
// The path and the query, which may hold secrets, are in neither.
func (t *traces) end(r *http.Request, a *answer, id string) {
	span := trace.SpanFromContext(r.Context())
	span.SetName(method(r.Method) + " " + route(r))
	all := []attr.KeyValue{
		attr.String("http.request.method", method(r.Method)),
		attr.String("http.route", route(r)),
		attr.Int("http.response.status_code", a.status),
		attr.Int64("http.response.body.size", a.bytes),
		attr.String("grantkeeper.request_id", id),
	}
	if a.said.client != "" {
		all = append(all, attr.String("grantkeeper.client_id", a.said.client))
	}
	if a.said.approval != (approval.ID{}) {
		all = append(all, attr.String("grantkeeper.approval_id", a.said.approval.String()))
	}
	if a.said.fault != "" {
		all = append(all, attr.String("error.type", a.said.fault))
	}
	span.SetAttributes(all...)
	if a.status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
