package sample

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Item is a tension, action, project or note as it is kept. It belongs to a role,
// or to a person alone.
type Item struct {
	ID           string `json:"id"`
	Organization string `json:"organization"`
	Kind         string `json:"kind"`
	Title        string `json:"title"`
	Body         string `json:"body,omitempty"`
	Status       string `json:"status"`
	Role         string `json:"role,omitempty"`
	Person       string `json:"person,omitempty"`
	Private      bool   `json:"private,omitempty"`
	CreatedAt    int64  `json:"created_at"` // Unix seconds
	ChangedAt    int64  `json:"changed_at"` // Unix seconds

	Gone bool `json:"gone,omitempty"` // a line that says so
}

func (i Item) place() place { return place{i.Role, i.Person, i.Private} }

// Kinds are the kinds of items.
var Kinds = []string{"tension", "action", "project", "note"}

// A shelf keeps items in memory, and each change as a line of a file: written and
// synced before memory changes. A line that was cut off by a crash was told to
// nobody, and is cut away.
type shelf struct {
	mu   sync.Mutex
	of   map[string][]Item // by organization, in order of IDs
	file *os.File          // nil keeps nothing
	size int64             // of what is whole in it
	any  bool              // there is, or was, an item
}

func openShelf(folder string) (*shelf, error) {
	s := &shelf{of: map[string][]Item{}}
	if folder == "" {
		return s, nil
	}
	name := filepath.Join(folder, "items.jsonl")
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.replay(name, text); err != nil {
		return nil, err
	}
	if s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	return s, s.file.Truncate(s.size)
}

func (s *shelf) replay(name string, text []byte) error {
	lines := bufio.NewReader(bytes.NewReader(text))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the end, or a line that was cut off
		}
		var i Item
		if err := json.Unmarshal(line, &i); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		s.keep(i)
		s.size += int64(len(line))
	}
}

func (s *shelf) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

func (s *shelf) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.any
}

func byID(i Item, id string) int { return cmp.Compare(i.ID, id) }

// keep puts an item where it belongs, or takes away one that is gone.
func (s *shelf) keep(i Item) {
	s.any = true
	all := s.of[i.Organization]
	at, there := slices.BinarySearchFunc(all, i.ID, byID)
	switch {
	case i.Gone && there:
		all = slices.Delete(all, at, at+1)
	case i.Gone:
	case there:
		all[at] = i
	default:
		all = slices.Insert(all, at, i)
	}
	s.of[i.Organization] = all
}

// save writes lines and then changes memory. What is not whole in the file is cut
// away, or written over by the next.
func (s *shelf) save(items ...Item) error {
	var b []byte
	for _, i := range items {
		line, err := json.Marshal(i)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	if s.file != nil {
		if err := s.write(b); err != nil {
			return errors.Join(fmt.Errorf("items: %w", err), s.file.Truncate(s.size))
		}
	}
	for _, i := range items {
		s.keep(i)
	}
	return nil
}

func (s *shelf) write(b []byte) error {
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.size += int64(len(b))
	return nil
}

func (s *shelf) put(items ...Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save(items...)
}

// newItemID names an item: later ones come behind, in lists too.
func newItemID(now time.Time) string {
	return fmt.Sprintf("%013x%s", now.UnixMicro(), strings.ToLower(rand.Text()[:13]))
}

// all gives the items of a kind, or of every kind, behind an ID.
func (s *shelf) all(organization, kind, after string) []Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[organization]
	from, _ := slices.BinarySearchFunc(of, after+"\x00", byID)
	if after == "" {
		from = 0
	}
	var out []Item
	for _, i := range of[from:] {
		if kind == "" || i.Kind == kind {
			out = append(out, i)
		}
	}
	return out
}

func (s *shelf) get(organization, kind, id string) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(organization, kind, id)
}

func (s *shelf) find(organization, kind, id string) (Item, error) {
	of := s.of[organization]
	at, there := slices.BinarySearchFunc(of, id, byID)
	if !there || of[at].Kind != kind {
		return Item{}, errNoObject
	}
	return of[at], nil
}

// change changes an item in one step. next sees it as it stands, and refuses, or
// gives what it shall be.
func (s *shelf) change(organization, kind, id string, next func(Item) (Item, error)) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.find(organization, kind, id)
	if err != nil {
		return Item{}, err
	}
	to, err := next(at)
	if err != nil || to == at {
		return to, err
	}
	return to, s.save(to)
}

// remove deletes an item unless check, which sees it as it stands, refuses.
func (s *shelf) remove(organization, kind, id string, check func(Item) error) error {
	_, err := s.change(organization, kind, id, func(at Item) (Item, error) {
		return Item{ID: id, Organization: organization, Gone: true}, check(at)
	})
	return err
}

// deleteOf deletes the items of a role.
func (s *shelf) deleteOf(organization, role string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []Item
	for _, i := range s.of[organization] {
		if i.Role == role {
			gone = append(gone, Item{ID: i.ID, Organization: organization, Gone: true})
		}
	}
	return s.save(gone...)
}
