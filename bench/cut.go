package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// streamsCut is how many streams are open at each node, of an approval each.
const streamsCut = 20

// A cut is how long streams of an MCP server went on after their approvals had
// ended: from the answer to the revocation to the end of the stream.
type cut struct {
	Node    string  `json:"node" col:"node"` // where the stream was, the revocation being at the first
	Streams int     `json:"streams" col:"streams"`
	Median  float64 `json:"median_ms" col:"median ms"`
	Most    float64 `json:"most_ms" col:"most ms"`
}

// cuts measures it at the node that revokes and, on PostgreSQL, at another one.
func (b *bench) cuts(ctx context.Context) (all []cut, err error) {
	folder, s, database, _, err := b.placeNew(ctx, "cut", 2*streamsCut, nil)
	if err != nil {
		return nil, err
	}
	behind, err := startBehind(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, behind.end()) }()
	further, err := behind.settings(folder, true)
	if err != nil {
		return nil, err
	}
	nodes := []string{"the same"}
	if b.postgres != nil {
		nodes = append(nodes, "another")
	}
	revoking := ""
	for i, name := range nodes {
		srv, err := startServerOn(ctx, b.binary, folder, database, "", further)
		if err != nil {
			return all, err
		}
		defer srv.kill()
		if i == 0 {
			revoking = srv.public
		}
		c, err := s.cut(ctx, revoking, srv.public, i*streamsCut, streamsCut, 700*time.Millisecond)
		if err != nil {
			return all, fmt.Errorf("%s node: %w", name, err)
		}
		c.Node = name
		all = append(all, c)
	}
	return all, nil
}

// cut opens so many streams, for an approval each from a number on, and revokes
// these one after the other, with any pause up to the longest between them.
func (s *stock) cut(ctx context.Context, revoking, streaming string, first, streams int, longest time.Duration) (c cut, err error) {
	ctx, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	ended := make([]chan time.Time, streams)
	for i := range ended {
		if ended[i], err = s.stream(ctx, streaming, first+i); err != nil {
			return c, err
		}
	}
	answered := make([]time.Time, streams)
	for i := range answered { // without waiting for an end: it would set the next moment
		time.Sleep(time.Duration(rand.Int64N(int64(longest))))
		if err := s.revoke(ctx, revoking, first+i); err != nil {
			return c, err
		}
		answered[i] = time.Now()
	}
	var took []float64
	for i := range ended {
		took = append(took, milliseconds(max(0, (<-ended[i]).Sub(answered[i]))))
	}
	c = cut{Streams: len(took)}
	c.Median, _, c.Most = rangeOf(took)
	return c, ctx.Err()
}

// stream opens one, waits for its first event, and tells when it ends.
func (s *stock) stream(ctx context.Context, address string, number int) (chan time.Time, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v5/mcp", nil)
	if err != nil {
		return nil, err
	}
	r.Host = host
	r.Header.Set("Authorization", "Bearer "+s.ring.Access(s.handle(number), 1, time.Now().Add(time.Hour).Unix()))
	r.Header.Set("Accept", "text/event-stream")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	from := bufio.NewReader(a.Body)
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		return nil, errors.Join(fmt.Errorf("the stream does not begin: %s", a.Status), err, a.Body.Close())
	}
	ended := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, from) // however it ends
		ended <- time.Now()
		a.Body.Close()
	}()
	return ended, nil
}

func (s *stock) revoke(ctx context.Context, address string, number int) error {
	body := url.Values{"client_id": {s.clientOf(number)}, "token": {s.ring.Refresh(s.handle(number), 1)}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/oauth/revoke", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Host = host
	r.Header.Set("Content-Type", form)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("revoke: %s", a.Status), err)
	}
	return nil
}
