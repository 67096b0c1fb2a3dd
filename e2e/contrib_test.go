package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// contribution reads a file of contrib.
func contribution(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../contrib", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// promtool runs Prometheus's own program for checking, in a folder of files.
func promtool(t *testing.T, files map[string]string, arguments ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("this test needs promtool: run scripts/setup-debian.sh")
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, arguments...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", arguments, err, out)
	}
}

// dashboardQueries gives what the panels of the dashboard ask.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(contribution(t, "grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %s asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

// The alerts fire when they should, and not on a quiet server.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := contribution(t, "alerts.yml")
	files := map[string]string{"alerts.yml": alerts, "alerts_test.yml": string(tests)}
	promtool(t, files, "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, files, "test", "rules", "alerts_test.yml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !regexp.MustCompile(`alertname: ` + m[1] + "\n\\s+exp_alerts").Match(tests) {
			t.Errorf("no test says that %s fires", m[1])
		}
	}
}

// What the dashboard asks is PromQL.
func TestDashboard(t *testing.T) {
	t.Parallel()
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", "grantkeeper")
	for i, q := range dashboardQueries(t) {
		rules += fmt.Sprintf("      - record: q:q%d\n        expr: %q\n", i, variables.Replace(q))
	}
	promtool(t, map[string]string{"dashboard.yml": rules}, "check", "rules", "dashboard.yml")
}

// Every metric, and every label of ours, that alerts and dashboard name is
// exported by a server, and every one that is exported is documented.
func TestContribUsesWhatIsExported(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.whole()
	text, _ := h.metrics()
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		types[m[1]] = m[2]
		if m[2] == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				types[m[1]+part] = m[2]
			}
		}
	}
	labels := map[string]bool{"job": true, "instance": true, "le": true}
	for _, of := range metricNames {
		for label := range strings.FieldsSeq(of) {
			labels[label] = true
		}
	}
	used := map[string]bool{}
	for _, asked := range append(dashboardQueries(t), alertQueries(contribution(t, "alerts.yml"))...) {
		for _, name := range regexp.MustCompile(`\b(grantkeeper|go|process)_\w+`).FindAllString(asked, -1) {
			if used[name] = true; types[name] == "" {
				t.Errorf("%s is not exported: %s", name, asked)
			}
		}
		for _, m := range regexp.MustCompile(`by \(([^)]*)\)|(\w+)(?:=~|!~|!=|=)"`).FindAllStringSubmatch(asked, -1) {
			for label := range strings.FieldsFuncSeq(m[1]+m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
				if !labels[label] {
					t.Errorf("no metric has the label %s: %s", label, asked)
				}
			}
		}
	}
	if len(used) < 15 {
		t.Errorf("only %v are used", slices.Sorted(maps.Keys(used)))
	}
	doc, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range metricNames {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| ([^|]*) \\|").FindStringSubmatch(string(doc))
		if row == nil || !strings.HasPrefix(row[1], types["grantkeeper_"+name]) {
			t.Errorf("%s, a %s, is not documented", name, types["grantkeeper_"+name])
			continue
		}
		for label := range strings.FieldsSeq(labels) {
			if !strings.Contains(row[1], "`"+label+"`") {
				t.Errorf("%s: the label %s is not documented", name, label)
			}
		}
	}
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(contribution(t, "alerts.yml"), -1) {
		if !strings.Contains(string(doc), "`"+alert[1]+"`") {
			t.Errorf("%s is not documented", alert[1])
		}
	}
}

// alertQueries gives the expressions of the alerts.
func alertQueries(rules string) (queries []string) {
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		_, rest, _ := strings.Cut(rule, "expr:")
		end := len(rest)
		for _, next := range []string{"\n        for:", "\n        labels:"} {
			if i := strings.Index(rest, next); i >= 0 && i < end {
				end = i
			}
		}
		queries = append(queries, rest[:end])
	}
	return queries
}
