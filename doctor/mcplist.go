package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/grantkeeper/grantkeeper/mcp"
)

// Bounds of what is read of an MCP server that is asked what it has.
const (
	MostTools  = 10_000
	mostPages  = 100
	MostListed = 16 << 20 // bytes of all answers
)

// Listed is what an MCP server says of itself.
type Listed struct {
	Path  string // of its endpoint here
	Name  string // may be empty
	Tools []mcp.Tool
	Cut   string // why these are not all of its tools; "" where they are
}

// listing reads it, for nobody, in the session that the server began.
type listing struct {
	Outside
	http              *http.Client
	at                *url.URL
	session, revision string
	left              int64 // bytes
}

// list reads an answer to firstMessage, and then all pages of tools where the server
// has some. The error is an answer that is none.
func (c Outside) list(ctx context.Context, client *http.Client, at *url.URL, a *http.Response) (said Listed, err error) {
	l := &listing{c, client, at, a.Header.Get("Mcp-Session-Id"), "", MostListed}
	result, err := l.read(a, 1)
	if err != nil {
		return said, err
	}
	var has struct{ Tools *struct{} }
	_ = json.Unmarshal(result["capabilities"], &has)
	said.Name = ServerName(result)
	if json.Unmarshal(result["protocolVersion"], &l.revision) != nil || l.revision == "" {
		return said, errors.New("it says no revision")
	}
	if has.Tools == nil {
		return said, nil
	}
	if a, err := l.send(ctx, map[string]any{"method": "notifications/initialized"}); err == nil {
		a.Body.Close()
	}
	if err := l.pages(ctx, &said); err != nil {
		said.Cut = causeOf(err).Error()
	}
	return said, nil
}

// ServerName is what a result of initialize says that the server is called.
func ServerName(result map[string]json.RawMessage) string {
	var info struct{ Name string }
	_ = json.Unmarshal(result["serverInfo"], &info)
	return info.Name
}

// pages reads the list of tools to its end, or to where it is too long. A tool that
// is listed twice, and differs, counts as the stricter says.
func (l *listing) pages(ctx context.Context, said *Listed) error {
	at := map[string]int{}
	params := map[string]any{}
	for n := range mostPages {
		a, err := l.send(ctx, map[string]any{"id": n + 2, "method": "tools/list", "params": params})
		if err != nil {
			return err
		}
		result, err := l.read(a, n+2)
		a.Body.Close()
		if err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		tools, next := mcp.Tools(result)
		for _, t := range tools {
			i, twice := at[t.Name]
			switch {
			case t.Name == "":
			case twice && said.Tools[i].Reads == mcp.Reads:
				said.Tools[i] = t
			case twice:
			case len(said.Tools) == MostTools:
				return fmt.Errorf("it has more than %d tools", MostTools)
			default:
				at[t.Name], said.Tools = len(said.Tools), append(said.Tools, t)
			}
		}
		if next == "" {
			return nil
		}
		params["cursor"] = next
	}
	return fmt.Errorf("its list has more than %d pages", mostPages)
}

// send sends a message in the session.
func (l *listing) send(ctx context.Context, message map[string]any) (*http.Response, error) {
	message["jsonrpc"] = "2.0"
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	r, err := l.signedFor(ctx, http.MethodPost, l.at, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("MCP-Protocol-Version", l.revision)
	if l.session != "" {
		r.Header.Set("Mcp-Session-Id", l.session)
	}
	a, err := l.http.Do(r)
	if err == nil && a.StatusCode >= http.StatusBadRequest {
		a.Body.Close()
		return nil, fmt.Errorf("it answers %d to %s", a.StatusCode, message["method"])
	}
	return a, err
}

func (l *listing) read(a *http.Response, id int) (map[string]json.RawMessage, error) {
	from := &io.LimitedReader{R: a.Body, N: l.left}
	result, err := mcp.Result(a.Header.Get("Content-Type"), from, []byte(strconv.Itoa(id)))
	if l.left = from.N; l.left <= 0 {
		return nil, fmt.Errorf("it answers more than %d bytes", MostListed)
	}
	return result, err
}
