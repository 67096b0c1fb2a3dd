package consent

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grantkeeper/grantkeeper/consent/chromium"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// A page over https leads to http on 127.0.0.1 by a press, without a warning of the
// browser's in between, and tells it of no address. The cookie that the browser was given
// there before goes with it, though the page is of another site (decision A15).
func TestPressOverHTTPS(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := httptest.NewTLSServer(s.Answers)
	t.Cleanup(server.Close)
	s.At = server.URL
	got, from := make(chan url.Values, 9), make(chan http.Header, 9)
	var asks string
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/start") {
			http.SetCookie(w, &http.Cookie{Name: "begun", Value: "here", Path: strings.TrimSuffix(r.URL.Path, "/start"), HttpOnly: true, SameSite: http.SameSiteLaxMode})
			w.Header().Set("Location", asks)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/pppp") {
			got <- r.URL.Query()
			from <- r.Header
		}
		io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><p id="landed">here</p>`)
	}))
	t.Cleanup(program.Close)
	_, port, err := net.SplitHostPort(program.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat("p", 43)
	state := stateOf(s.desktop()("port", port, "path", path))
	asks = s.At + s.asksFor(state)
	ctx, stop := context.WithTimeout(chromium.Start(t), 3*time.Minute)
	defer stop()
	press := `form[action="` + atPress + `"] button`
	err = chromedp.Do(ctx, chromedp.Navigate("http://127.0.0.1:"+port+"/"+path+"/start"),
		chromedp.WaitVisible(chromedp.ID("email")), chromedp.SendKeys(chromedp.ID("email"), "ada@nordlys.example"),
		chromedp.SendKeys(chromedp.ID("password"), pagetest.Password+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("[name=organization][value=nordlys]")))
	if err == nil {
		err = chromium.Press(ctx, "[name=organization][value=nordlys]", "[name=grant][value=everything]", "[value=approve]")
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(press)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Error("the program is reached before the press")
	}
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(press)), chromedp.WaitVisible(chromedp.ID("landed"))); err != nil {
		t.Fatal(err)
	}
	if q := <-got; q.Get("code") == "" || q.Get("state") != state || q.Get("iss") != s.At {
		t.Errorf("it gets %v", q)
	}
	if h := <-from; h.Get("Referer") != "" || !strings.Contains(h.Get("Cookie"), "begun=here") || h.Get("Sec-Fetch-Site") != "cross-site" || h.Get("Sec-Fetch-Dest") != "document" || h.Get("Sec-Fetch-Mode") != "navigate" {
		t.Errorf("it is told %v", h)
	}
}
