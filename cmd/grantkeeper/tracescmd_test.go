package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
)

func TestTracesAreChecked(t *testing.T) {
	dir, _, _ := installed(t)
	config := filepath.Join(dir, "grantkeeper.toml")
	for _, tt := range []struct{ variable, value, says string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT: not an address"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "1s", "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"OTEL_TRACES_SAMPLER", "sometimes", `OTEL_TRACES_SAMPLER: "sometimes" is unknown`},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "OTEL_RESOURCE_ATTRIBUTES"},
		{"OTEL_SERVICE_NAME", "fine", ""},
	} {
		t.Run(tt.variable, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
			t.Setenv(tt.variable, tt.value)
			_, stderr, code := ran(t, "config", "check", "-c", config)
			stdout, _, _ := ran(t, "doctor", "--only", "configuration", "-c", config)
			if tt.says == "" {
				if code != 0 || !strings.HasPrefix(stdout, "ok ") {
					t.Errorf("%d %s%s", code, stderr, stdout)
				}
				return
			}
			if code != fault.Config || !strings.Contains(stderr, tt.says) {
				t.Errorf("config check: %d %s", code, stderr)
			}
			if !strings.HasPrefix(stdout, "fail ") || !strings.Contains(stdout, tt.says) {
				t.Errorf("doctor: %s", stdout)
			}
			if _, stderr, code := ran(t, "serve", "-c", config, "--listen", freePort(t), "--operator-listen", "off"); code != fault.Config || !strings.Contains(stderr, tt.says) {
				t.Errorf("serve: %d %s", code, stderr)
			}
		})
	}
}
