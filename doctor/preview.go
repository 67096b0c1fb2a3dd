package doctor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/gateway"
)

// previewTries is how often a preview may be slow: the first time it is connected.
const previewTries = 3

// askPreview asks as a consent page does, but about nobody.
func (c Outside) askPreview(ctx context.Context) Finding {
	p := &gateway.Previews{URL: c.PreviewURL, Key: func() []byte { return c.ServiceKey }, Now: time.Now}
	at := c.PreviewURL.Scheme + "://" + c.PreviewURL.Host // a path or query may be a secret
	took, err := p.Check(ctx)
	for range previewTries - 1 {
		if err != nil || took <= gateway.PreviewBudget {
			break
		}
		took, err = p.Check(ctx)
	}
	if err != nil {
		return c.noPreview(at, err)
	}
	if took > gateway.PreviewBudget {
		return warned("make it quicker, or pages say no numbers", "%s takes %s to answer, and a page waits %s", at, took.Round(10*time.Millisecond), gateway.PreviewBudget)
	}
	return found("%s answers", at)
}

// noPreview says why pages have no numbers, and what mends that.
func (c Outside) noPreview(at string, err error) Finding {
	status := gateway.PreviewStatus(0)
	if !errors.As(err, &status) {
		fix := "see that the service of service.preview_url runs there, and answers as docs/integrating.md, Preview, says"
		return failed(fix, "%s: pages say no numbers: %v", at, causeOf(err))
	}
	switch class := status / 100; {
	case status == http.StatusUnauthorized:
		return failed("give the service the key in service.key_file, and see that its clock is right", "%s does not take what service.key_file signs", at)
	case class == 3:
		return failed("write service.preview_url as the service answers it", "%s: pages say no numbers: %v, which is not followed", at, err)
	case class == 4: // it may know nobody who is nobody
		return warned("see that service.preview_url is the whole URL, and that whom the service does not know has counts of 0", "%s: %v when it is asked about nobody", at, err)
	}
	return failed("see the log of the service of service.preview_url", "%s: pages say no numbers: %v", at, err)
}
