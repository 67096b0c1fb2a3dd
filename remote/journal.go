package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
)

// A journalPage is a part of the journal, its entries as they came.
type journalPage struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next"`
}

// eventID reads what a cursor behind an entry is: its ID.
func eventID(entry json.RawMessage) string {
	var e struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(entry, &e) // "" is the cursor of the beginning
	return e.ID
}

// tailEvery is how often tail asks for what is new.
const tailEvery = time.Second

// TailEvents gives the last entries of the journal that a filter lets through, and then
// those that come, each as it was sent, until ctx ends. A server that is away for a
// moment, as at a restart, is asked again.
func (c *Server) TailEvents(ctx context.Context, query url.Values, last int, write func(json.RawMessage) error) error {
	behind, latest, err := c.lastEvents(ctx, query, last)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(latest) {
		if err := write(entry); err != nil {
			return err
		}
	}
	query.Set("order", "oldest")
	query.Set("limit", "1000")
	for wait := tailEvery; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		setAfter(query, behind)
		var page journalPage
		err := c.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && fault.CodeOf(err) != fault.Reach {
			return err
		}
		for _, entry := range page.Items {
			if err := write(entry); err != nil {
				return err
			}
			behind = eventID(entry)
		}
		if wait = tailEvery; page.Next != "" { // others came between, or more
			behind, wait = page.Next, 0
		}
	}
}

// tailLooks is how many pages are looked at for the last entries that a filter
// lets through.
const tailLooks = 100

// lastEvents gives the last entries, newest first, and the cursor behind all
// that there were.
func (c *Server) lastEvents(ctx context.Context, query url.Values, n int) (behind string, latest []json.RawMessage, err error) {
	var page journalPage
	if err := c.Do(ctx, http.MethodGet, "/v1/events", url.Values{"limit": {"1"}}, nil, &page); err != nil {
		return "", nil, err
	}
	if len(page.Items) > 0 {
		behind = eventID(page.Items[0])
	}
	query = maps.Clone(query)
	query.Set("limit", fmt.Sprint(max(n, 1))) // also without any, so that a wrong filter is refused
	for range tailLooks {
		page = journalPage{}
		if err := c.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page); err != nil {
			return "", nil, err
		}
		for _, entry := range page.Items {
			if len(latest) < n && eventID(entry) <= behind { // what came since is still to be told
				latest = append(latest, entry)
			}
		}
		if len(latest) >= n || page.Next == "" {
			break
		}
		setAfter(query, page.Next)
	}
	return behind, latest, nil
}

func setAfter(query url.Values, cursor string) {
	if cursor != "" {
		query.Set("after", cursor)
	}
}

// ExportProof writes the journal with its blocks, and gives how many entries it has.
func (c *Server) ExportProof(ctx context.Context, out io.Writer, query url.Values) (n int, err error) {
	for name := range query {
		if name != "since" {
			return 0, fault.WrongUse("leave out --"+name, "--proof takes no filter but --since: what is left out could not be told from what is missing")
		}
	}
	answer, err := c.Open(ctx, "/v1/events/proof?"+query.Encode())
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	counted, in := &entryCount{to: out}, &brokenOff{Reader: answer.Body}
	if _, err := io.Copy(counted, in); in.err != nil {
		return 0, fault.CannotOpen(repeat, "%s broke off its answer", c.Base)
	} else if err != nil {
		return 0, fault.CannotOpen(fault.MendWriting(err), "%v", err)
	}
	return counted.entries, nil
}

// brokenOff keeps the error of who sends apart from that of who takes.
type brokenOff struct {
	io.Reader
	err error
}

func (b *brokenOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// entryCount counts the lines that are entries.
type entryCount struct {
	to      io.Writer
	head    []byte // of the line that is coming
	entries int
}

func (e *entryCount) Write(p []byte) (int, error) {
	for _, b := range p {
		switch begin := []byte(`{"id":`); {
		case b == '\n':
			if bytes.Equal(e.head, begin) {
				e.entries++
			}
			e.head = e.head[:0]
		case len(e.head) < len(begin):
			e.head = append(e.head, b)
		}
	}
	return e.to.Write(p)
}

// ExportEvents writes the entries that a filter lets through, oldest first, as JSON
// Lines, and gives how many.
func (c *Server) ExportEvents(ctx context.Context, out io.Writer, query url.Values) (n int, err error) {
	query.Set("order", "oldest")
	query.Set("limit", "1000")
	for {
		var page journalPage
		if err := c.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page); err != nil {
			return n, err
		}
		for _, entry := range page.Items {
			if _, err := fmt.Fprintf(out, "%s\n", entry); err != nil {
				return n, fault.CannotOpen(fault.MendWriting(err), "%v", err)
			}
		}
		if n += len(page.Items); page.Next == "" {
			return n, nil
		}
		query.Set("after", page.Next)
	}
}

// ToFile leaves no half a file: it is there under its name once it is
// whole. One that is there already is not written over.
func ToFile(name string, write func(io.Writer) (int, error)) (int, error) {
	if _, err := os.Lstat(name); err == nil {
		return 0, fault.AlreadyThere(name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return 0, cannotWrite(name, err)
	}
	defer os.Remove(f.Name()) // it is under its own name by then, or nothing
	w := bufio.NewWriter(named{f, name})
	n, err := write(w)
	if err != nil {
		f.Close()
		return 0, err
	}
	for _, step := range []func() error{w.Flush, f.Sync, f.Close, func() error { return durable.PutNew(f.Name(), name) }} {
		if err := step(); err != nil {
			f.Close()
			if errors.Is(err, fs.ErrExist) {
				return 0, fault.AlreadyThere(name)
			}
			return 0, cannotWrite(name, err)
		}
	}
	_ = durable.SyncFolder(filepath.Dir(name))
	return n, nil
}

// named is a file that will have a name: of what cannot be written that one is told.
type named struct {
	*os.File
	name string
}

func (n named) Write(p []byte) (int, error) {
	written, err := n.File.Write(p)
	if err != nil {
		err = &fs.PathError{Op: "write", Path: n.name, Err: unnamed(err)}
	}
	return written, err
}

// cannotWrite is an error of a file that was to have a name.
func cannotWrite(name string, err error) error {
	err = unnamed(err)
	return fault.CannotOpen(fault.MendWriting(err), "%s: %v", name, err)
}

// ExportActivity writes what apps did as it comes, and gives how many records its
// closing line says.
func (c *Server) ExportActivity(ctx context.Context, out io.Writer, query url.Values) (int, error) {
	answer, err := c.Open(ctx, "/v1/activity/export?"+query.Encode())
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	last, in := &lastLine{to: out}, &brokenOff{Reader: answer.Body}
	if _, err := io.Copy(last, in); err != nil && in.err == nil {
		return 0, fault.CannotOpen(fault.MendWriting(err), "%v", err)
	}
	var end struct{ Records *int }
	if err := json.Unmarshal(last.line, &end); in.err != nil || err != nil || end.Records == nil {
		return 0, fault.CannotOpen(repeat, "%s broke off its answer", c.Base)
	}
	return *end.Records, nil
}

// lastLine keeps the last whole line of what passes.
type lastLine struct {
	to           io.Writer
	coming, line []byte
}

func (l *lastLine) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		l.coming, rest = append(l.coming, part...), after
		if whole {
			l.line, l.coming = append(l.line[:0], l.coming...), l.coming[:0]
		}
	}
	return l.to.Write(p)
}
