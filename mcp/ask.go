package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/sse"
)

// maxPages bounds how often a list goes on.
const maxPages = 100

// ask finds out what tools say of themselves, by a question of the proxy's own in the
// client's session, with the _meta of one of its calls: no list has named the tool lately.
func (x *exchange) ask(m *Message) {
	ctx, stop := context.WithTimeout(x.r.Context(), listTimeout)
	defer stop()
	cursor := ""
	for range maxPages {
		next, err := x.askPage(ctx, m, cursor)
		if err != nil {
			x.warn(fmt.Errorf("what tools there are: %w", err))
			return
		}
		if cursor = next; next == "" {
			return
		}
	}
}

// askPage reads one page of the list and remembers it.
func (x *exchange) askPage(ctx context.Context, m *Message, cursor string) (next string, err error) {
	id := encode("grantkeeper-" + rand.Text())
	params := map[string]any{}
	if meta := withoutProgress(m.meta); meta != nil {
		params["_meta"] = meta
	}
	if cursor != "" {
		params["cursor"] = cursor
	}
	out, err := x.request(ctx, encode(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/list", "params": params}))
	if err != nil {
		return "", err
	}
	out.Header.Del("Mcp-Name")
	for name := range out.Header {
		if len(name) > 10 && name[:10] == "Mcp-Param-" {
			out.Header.Del(name)
		}
	}
	if out.Header.Get("Mcp-Method") != "" {
		out.Header.Set("Mcp-Method", "tools/list")
	}
	a, err := x.s.to.RoundTrip(out)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	list, err := x.answerTo(a, id)
	if err != nil {
		return "", err
	}
	all, next := Tools(list)
	for _, t := range all {
		x.s.tools.note(x.rights.Organization, t, time.Now())
	}
	return next, nil
}

// Tools gives what a result of tools/list has, and where the list goes on; "" is
// its end. What is no tool has no name.
func Tools(result map[string]json.RawMessage) (all []Tool, next string) {
	narrow(result, func(t Tool) bool { all = append(all, t); return true })
	_ = json.Unmarshal(result["nextCursor"], &next)
	return all, next
}

// answerTo finds the answer to a call in JSON or among events.
func (x *exchange) answerTo(a *http.Response, id []byte) (map[string]json.RawMessage, error) {
	if kind, err := x.kind(a); err != nil {
		return nil, err
	} else if a.StatusCode != 200 || kind == "" {
		return nil, fmt.Errorf("it answered %d", a.StatusCode)
	}
	return Result(a.Header.Get("Content-Type"), a.Body, id)
}

// Result finds the result of the call with an ID in what an MCP server answered, in
// JSON or among events. It reads no further, and of JSON and of each event at most
// 16 MiB.
func Result(contentType string, body io.Reader, id []byte) (map[string]json.RawMessage, error) {
	if kind, _, _ := mime.ParseMediaType(contentType); kind == "application/json" {
		text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
		if err != nil {
			return nil, err
		}
		result, _, err := resultOf(text, id)
		return result, err
	}
	for from := sse.NewReader(body, maxAnswer); ; {
		v, err := from.Next()
		if err != nil {
			return nil, err
		}
		if result, answered, err := resultOf(v.Data(), id); answered {
			return result, err
		}
	}
}

func resultOf(data, id []byte) (result map[string]json.RawMessage, answered bool, err error) {
	all, _ := readAnswers(data)
	for i := range all {
		switch a := &all[i]; {
		case !a.responds() || string(a.ID) != string(id):
		case a.Result != nil:
			return a.Result, true, nil
		default:
			return nil, true, errors.New("it answered with an error")
		}
	}
	return nil, false, errors.New("it did not answer the call")
}

// withoutProgress is the _meta of a call for another one: what tells of the call's
// own progress stays with it.
func withoutProgress(meta json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(meta, &m) != nil {
		return nil
	}
	delete(m, "progressToken")
	return m
}
