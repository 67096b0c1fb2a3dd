package signin

import "strings"

// A mark of a User-Agent header, and what it stands for. The first that is there
// counts: most browsers say that they are others, too.
type mark struct{ in, label string }

var browserMarks = []mark{
	{"Edg/", "Edge"}, {"EdgA/", "Edge"}, {"EdgiOS/", "Edge"}, {"OPR/", "Opera"}, {"OPT/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"},
	{"Vivaldi/", "Vivaldi"}, {"YaBrowser/", "Yandex"}, {"DuckDuckGo/", "DuckDuckGo"}, {"Ddg/", "DuckDuckGo"},
	{"FxiOS/", "Firefox"}, {"Firefox/", "Firefox"}, {"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Version/", "Safari"},
}

var systemMarks = []mark{
	{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows NT", "Windows"},
	{"Macintosh", "macOS"}, {"FreeBSD", "FreeBSD"}, {"OpenBSD", "OpenBSD"}, {"Linux", "Linux"},
}

// maxAgent is how much of a User-Agent header is looked at: bytes. Those of browsers
// have some 200.
const maxAgent = 512

// deviceOf gives what a User-Agent header tells a person of where they signed in,
// such as Chrome and Linux: labels of the lists above, or nothing. The header is
// what the browser claims, and goes no further.
func deviceOf(agent string) (browser, system string) {
	agent = agent[:min(len(agent), maxAgent)]
	if !strings.HasPrefix(agent, "Mozilla/5.0 (") { // programs say their own names
		return "", ""
	}
	browser = labelIn(agent, browserMarks)
	if browser == "Safari" && !strings.Contains(agent, " Safari/") {
		browser = ""
	}
	return browser, labelIn(agent, systemMarks)
}

func labelIn(agent string, marks []mark) string {
	for _, m := range marks {
		if strings.Contains(agent, m.in) {
			return m.label
		}
	}
	return ""
}
