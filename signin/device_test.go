package signin

import (
	"slices"
	"strings"
	"testing"
)

func TestDeviceOf(t *testing.T) {
	const webkit = " AppleWebKit/537.36 (KHTML, like Gecko) "
	for agent, want := range map[string][2]string{
		"Mozilla/5.0 (X11; Linux x86_64)" + webkit + "Chrome/131.0.0.0 Safari/537.36":                                                                    {"Chrome", "Linux"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0":                                                               {"Firefox", "Windows"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1":        {"Safari", "iPhone"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1": {"Chrome", "iPhone"},
		"Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/133.0 Mobile/15E148 Safari/605.1.15":               {"Firefox", "iPad"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15":                          {"Safari", "macOS"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64)" + webkit + "Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0":                                            {"Edge", "Windows"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64)" + webkit + "Chrome/131.0.0.0 Safari/537.36 OPR/116.0.0.0":                                            {"Opera", "Windows"},
		"Mozilla/5.0 (Linux; Android 10; K)" + webkit + "Chrome/131.0.0.0 Mobile Safari/537.36":                                                          {"Chrome", "Android"},
		"Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S918B)" + webkit + "SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36":                       {"Samsung Internet", "Android"},
		"Mozilla/5.0 (Linux; Android 10; K)" + webkit + "Chrome/131.0.0.0 Mobile Safari/537.36 EdgA/131.0.0.0":                                           {"Edge", "Android"},
		"Mozilla/5.0 (Android 14; Mobile; rv:133.0) Gecko/133.0 Firefox/133.0":                                                                           {"Firefox", "Android"},
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0)" + webkit + "Chrome/131.0.0.0 Safari/537.36":                                                           {"Chrome", "ChromeOS"},
		"Mozilla/5.0 (X11; Linux x86_64)" + webkit + "Chrome/131.0.0.0 Safari/537.36 Vivaldi/7.0":                                                        {"Vivaldi", "Linux"},
		"Mozilla/5.0 (Linux; Android 13; Pixel 7) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/131.0.0.0 Mobile DuckDuckGo/5 Safari/537.36": {"DuckDuckGo", "Android"},
		"Mozilla/5.0 (X11; OpenBSD amd64; rv:133.0) Gecko/20100101 Firefox/133.0":                                                                        {"Firefox", "OpenBSD"},
		"Mozilla/5.0 (PlayStation 5 5.00) AppleWebKit/605.1.15 (KHTML, like Gecko)":                                                                      {"", ""},
		"Mozilla/5.0 (X11; Linux x86_64) Something/1":                                                                                                    {"", "Linux"},
		"Mozilla/5.0 (X11; Linux x86_64) Version/1":                                                                                                      {"", "Linux"},
		"curl/8.11.0 Chrome/1 Linux": {"", ""},
		"":                           {"", ""},
		"<script>alert(1)</script>":  {"", ""},
		"Mozilla/5.0 (" + strings.Repeat(" ", maxAgent) + "Linux Chrome/1": {"", ""},
	} {
		if browser, system := deviceOf(agent); browser != want[0] || system != want[1] {
			t.Errorf("%.90q: %q on %q, want %q", agent, browser, system, want)
		}
	}
}

// Nothing of the header itself comes out.
func FuzzDevice(f *testing.F) {
	f.Add("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36")
	f.Add("Mozilla/5.0 (\xff")
	f.Add("")
	listed := func(marks []mark, label string) bool {
		return label == "" || slices.ContainsFunc(marks, func(m mark) bool { return m.label == label })
	}
	f.Fuzz(func(t *testing.T, agent string) {
		browser, system := deviceOf(agent)
		if !listed(browserMarks, browser) || !listed(systemMarks, system) {
			t.Errorf("%q: %q on %q", agent, browser, system)
		}
		if b, s := deviceOf(agent + strings.Repeat("x", maxAgent)); len(agent) >= maxAgent && (b != browser || s != system) {
			t.Errorf("%q: what follows the bound counts", agent)
		}
	})
}
