package metrics

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grantkeeper/grantkeeper/approval"
)

// gaugesWithin bounds how long a scrape waits for what is read.
const gaugesWithin = 5 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("grantkeeper_"+name, help, labels, nil)
}

var (
	requestsDesc      = desc("http_requests_total", "Requests that were answered.", "route", "method", "status")
	durationDesc      = desc("http_request_duration_seconds", "How long requests took.", "route")
	registrationsDesc = desc("registrations_total", "Requests to register a client.", "result")
	approvalsDesc     = desc("approvals_total", "Answers to consent pages.", "result", "grant")
	endedDesc         = desc("approvals_ended_total", "Approvals that ended.", "reason")
	activeDesc        = desc("approvals_active", "Approvals that have not ended and whose code was exchanged.")
	clientsDesc       = desc("clients", "Clients that are known.", "state")
	tokensDesc        = desc("tokens_issued_total", "Answers of the token endpoint with tokens.", "grant_type")
	refusalsDesc      = desc("token_refusals_total", "Requests that the token endpoint refused, but for those over a rate limit.", "error", "reason")
	reuseDesc         = desc("refresh_reuse_detected_total", "Used refresh tokens that came back and ended their approval.")
	checksDesc        = desc("token_checks_total", "Credentials that were checked, access tokens and API keys.", "result")
	signInsDesc       = desc("signins_total", "Tries to sign in.", "result")
	attemptsDesc      = desc("attempt_failures_total", "Steps of clients that tried to connect and were refused.", "reason")
	limitedDesc       = desc("rate_limited_total", "Requests over a rate limit.", "endpoint")
	queryDesc         = desc("db_query_duration_seconds", "How long the database took.", "query")
	deletedDesc       = desc("gc_deleted_total", "Rows that were deleted because their time was over.", "kind")
	buildDesc         = desc("build_info", "What runs; always 1.", "version", "commit", "go")
	schemaDesc        = desc("schema_version", "The schema of the database.")
	backupDesc        = desc("last_backup_timestamp_seconds", "When the last backup was made, as Unix time; 0 is never.")
	blocksDesc        = desc("journal_blocks", "Blocks of the journal that are sealed.")
	sealedDesc        = desc("journal_sealed_timestamp_seconds", "When the newest block was sealed, as Unix time; 0 is never.")
	anchorDesc        = desc("journal_anchor_info", "The anchor of the journal that this node has told last; always 1.", "anchor")
	recordsDesc       = desc("activity_records_total", "What calls did: recorded one by one, counted by the hour, or lost for want of room.", "result")
	recordsWaitDesc   = desc("activity_waiting", "Records of what calls did that are not written yet.")
	limiterDesc       = desc("rate_limiter_away", "1 while the shared rate limits do not answer, and this node counts by itself.")
	readyDesc         = desc("ready", "1 when /readyz says 200.")
)

// Handler answers GET /metrics, the Go runtime's and the process's among them.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

type collector struct{ *Metrics }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		requestsDesc, durationDesc, registrationsDesc, approvalsDesc, endedDesc, activeDesc, clientsDesc, tokensDesc, refusalsDesc,
		reuseDesc, checksDesc, signInsDesc, limitedDesc, attemptsDesc, queryDesc, deletedDesc, buildDesc, schemaDesc, backupDesc, blocksDesc, sealedDesc, anchorDesc, limiterDesc, recordsDesc, recordsWaitDesc, readyDesc,
	} {
		to <- d
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	c.collectGauges(to) // asks the writer, who has told of all before
	c.collectRequests(to)
	c.collectCounters(to)
	for name, h := range *c.queries.Load() {
		var all totals
		all.add(h)
		to <- all.metric(queryDesc, name)
	}
	to <- prometheus.MustNewConstMetric(buildDesc, prometheus.GaugeValue, 1, c.version, c.commit, c.goVersion)
}

func (c collector) collectRequests(to chan<- prometheus.Metric) {
	c.adding.Lock()
	routes := append([]*route(nil), c.routes...)
	c.adding.Unlock()
	for _, r := range routes {
		var all totals
		for i := range methods {
			for j := range len(answers{}) {
				if h := r.at(i, j); h != nil {
					to <- counter(requestsDesc, all.add(h), r.label, methods[i], statusLabel(j))
				}
			}
		}
		to <- all.metric(durationDesc, r.label)
	}
}

func statusLabel(i int) string {
	if i == 500 {
		return "other"
	}
	return strconv.Itoa(i + 100)
}

func (c collector) collectCounters(to chan<- prometheus.Metric) {
	for _, of := range []struct {
		desc   *prometheus.Desc
		counts *labelled
		two    bool
	}{
		{registrationsDesc, c.registrations, false}, {approvalsDesc, c.approvals, true}, {endedDesc, c.ended, false},
		{tokensDesc, c.tokens, false}, {refusalsDesc, c.refusals, true}, {signInsDesc, c.signIns, false},
		{limitedDesc, c.limited, false}, {attemptsDesc, c.attempts, false}, {deletedDesc, c.deleted, false},
	} {
		of.counts.each(func(a, b string, n uint64) {
			labels := []string{a, b}
			if !of.two {
				labels = labels[:1]
			}
			to <- counter(of.desc, n, labels...)
		})
	}
	to <- counter(reuseDesc, c.ended.of(string(approval.RefreshReused)))
	for i, result := range checkResults {
		to <- counter(checksDesc, c.checks[i].Load(), result)
	}
}

func (c collector) collectGauges(to chan<- prometheus.Metric) {
	if c.Gauges == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), gaugesWithin)
	defer cancel()
	g, err := c.Gauges(ctx)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	bit := map[bool]float64{true: 1}
	gauge(readyDesc, bit[g.Ready])
	gauge(limiterDesc, bit[g.LimiterAway])
	gauge(recordsWaitDesc, float64(g.ActivityWaiting))
	for result, n := range map[string]int64{"recorded": g.ActivityRecorded, "counted": g.ActivityCounted, "lost": g.ActivityLost} {
		to <- counter(recordsDesc, uint64(max(n, 0)), result)
	}
	if err != nil {
		return // the rest cannot be known now
	}
	gauge(activeDesc, float64(g.Approvals))
	gauge(blocksDesc, float64(g.JournalBlocks))
	gauge(sealedDesc, float64(g.JournalSealed))
	gauge(anchorDesc, 1, cmp.Or(g.JournalAnchor, "none"))
	for state, n := range g.Clients {
		gauge(clientsDesc, float64(n), state)
	}
	gauge(schemaDesc, float64(g.Schema))
	gauge(backupDesc, float64(g.LastBackup))
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// totals are histograms added up.
type totals struct {
	sum    int64
	counts [len(bounds) + 1]uint64
}

// add gives the number of durations that it adds.
func (t *totals) add(h *histogram) (n uint64) {
	t.sum += h.sum.Load()
	for i := range h.counts {
		of := h.counts[i].Load()
		t.counts[i] += of
		n += of
	}
	return n
}

// metric gives the histogram as Prometheus wants it: each bucket holds those
// before it too.
func (t *totals) metric(d *prometheus.Desc, label string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	var n uint64
	for i, bound := range bounds {
		n += t.counts[i]
		buckets[bound.Seconds()] = n
	}
	n += t.counts[len(bounds)]
	return prometheus.MustNewConstHistogram(d, n, time.Duration(t.sum).Seconds(), buckets, label)
}
