package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// kinds are what IDs name, by where the operator API has them.
var kinds = map[string]string{
	"/v1/approvals/": "approval", "/v1/clients/": "client", "/v1/people/": "person", "/v1/organizations/": "organization",
}

func KindOf(path string) string { return kinds[path] }

// Whole gives the ID that begins with a text, or the text where none does: what
// it names is then not there. An ID that is whole goes before longer ones.
// Fewer than operator.LeastPrefix characters are no beginning, and a beginning
// of several is an error.
func (c *Server) Whole(ctx context.Context, kind, text string) (string, error) {
	text = strings.TrimSuffix(text, "…") // as tables show it
	if len(text) < operator.LeastPrefix || kind == "person" && strings.Contains(text, "@") {
		return text, nil
	}
	var page struct {
		Items []struct{ ID string }
		Next  string
	}
	err := c.Do(ctx, http.MethodGet, "/v1/ids", url.Values{"kind": {kind}, "prefix": {text}, "limit": {"1000"}}, nil, &page)
	var e *fault.Error
	switch {
	case errors.As(err, &e) && e.Code == fault.Unknown: // a server of an earlier release
		return text, nil
	case err != nil:
		return "", err
	case len(page.Items) == 0 || page.Items[0].ID == text:
		return text, nil
	case len(page.Items) == 1:
		return page.Items[0].ID, nil
	}
	n := fmt.Sprint(len(page.Items))
	if page.Next != "" {
		n = "more than " + n
	}
	return "", fault.WrongUse("write more of it; all of each: grantkeeper "+kind+" list --wide", "the IDs of %s %ss begin with %s", n, kind, terminal.Printable(text))
}

// WholeOf is whole for each of the filters of a list that is an ID.
func (c *Server) WholeOf(ctx context.Context, query url.Values) error {
	for _, kind := range kinds {
		if text := query.Get(kind); text != "" {
			id, err := c.Whole(ctx, kind, text)
			if err != nil {
				return err
			}
			query.Set(kind, id)
		}
	}
	return nil
}
