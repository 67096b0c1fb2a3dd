package console

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
)

// checkedWithin bounds one run of the checks, and checkedAgain how soon another one
// is made: who asks sooner is shown the last.
const (
	checkedWithin = 45 * time.Second
	checkedAgain  = 5 * time.Second
)

// healthReport is what the checks found last, on this node.
type healthReport struct {
	at       time.Time
	took     time.Duration
	findings []operator.Finding
}

// health keeps the last report. Checks run one at a time.
type health struct {
	running sync.Mutex
	mu      sync.Mutex
	last    healthReport
}

func (h *health) known() healthReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// check runs the checks, unless somebody has a moment ago.
func (h *health) check(ctx context.Context, run func(context.Context) []operator.Finding, now func() time.Time) healthReport {
	asked := now()
	h.running.Lock()
	defer h.running.Unlock()
	if last := h.known(); !last.at.IsZero() && asked.Sub(last.at) < checkedAgain {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, checkedWithin)
	defer cancel()
	start := time.Now()
	findings := slices.Clone(run(ctx))
	slices.SortStableFunc(findings, func(a, b operator.Finding) int { return cmp.Compare(badness[b.Result], badness[a.Result]) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = healthReport{now(), time.Since(start), findings}
	return h.last
}

var badness = map[string]int{"warn": 1, "fail": 2}

func (r healthReport) count(result string) (n int) {
	for _, f := range r.findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

// worst is the first fault, as the overview says it; "" is none.
func (r healthReport) worst() string {
	if r.count("fail") == 0 {
		return ""
	}
	return r.findings[0].Name + ": " + r.findings[0].Text
}

// A findingRow is a finding in words.
type findingRow struct {
	operator.Finding
	Word, Tone string
}

// A healthPage lists what was found, the worst first.
type healthPage struct {
	frame
	Rows                  []findingRow
	Fails, Warnings, Good int
	At                    moment
	Took                  string
	Done                  bool // it was checked just now
	CSRF                  string
}

var findingWords = map[string]findingRow{"fail": {Word: "Fault", Tone: "bad"}, "warn": {Word: "Warning", Tone: "care"}, "ok": {Word: "Good", Tone: "ok"}}

func (s *Server) healthPage(v *visit) error {
	if s.Doctor == nil {
		return errNoPage
	}
	f, err := v.Filter("done")
	if err != nil {
		return err
	}
	report := s.health.known()
	if report.at.IsZero() {
		report = s.health.check(v.Context(), s.Doctor, s.API.Store.Now)
	}
	p := healthPage{frame: s.frame(v, "health", "Health"), Fails: report.count("fail"), Warnings: report.count("warn"), Good: report.count("ok"),
		At: atSecond(report.at.Unix(), v.now), Took: report.took.Round(100 * time.Millisecond).String(), Done: f.Get("done") != "", CSRF: s.formTag(v.Who.Session, "/health")}
	for _, one := range report.findings {
		row := findingWords[one.Result]
		row.Finding = one
		p.Rows = append(p.Rows, row)
	}
	return s.render(v.w, 200, healthTemplate, &p)
}

func (s *Server) checkHealth(v *visit) error {
	if s.Doctor == nil {
		return errNoPage
	}
	if _, err := s.form(v); err != nil {
		return err
	}
	s.health.check(v.Context(), s.Doctor, s.API.Store.Now)
	return v.redirect("/health?done=checked")
}
