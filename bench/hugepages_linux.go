package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// What the kernel is told about huge pages with.
const (
	reservedPages = "/proc/sys/vm/nr_hugepages"
	heapPages     = "/sys/kernel/mm/transparent_hugepage/enabled"
)

// hugePages reserves them for so much memory of PostgreSQL's, as shared_buffers, beside
// those that others have, and has the kernel give them to every process that takes much:
// restore has it as it was.
func hugePages(buffers string) (restore func() error, err error) {
	pages, err := pagesFor(buffers)
	if err != nil {
		return nil, err
	}
	others, err := reserved()
	if err != nil {
		return nil, err
	}
	heap, err := os.ReadFile(heapPages)
	if err != nil {
		return nil, err
	}
	set := func(pages int, heap string) error {
		return errors.Join(os.WriteFile(reservedPages, []byte(strconv.Itoa(pages)), 0), os.WriteFile(heapPages, []byte(heap), 0))
	}
	restore = func() error { return set(others, chosenOf(string(heap))) }
	err = set(others+pages, "always")
	if got, unread := reserved(); err == nil && unread == nil && got < others+pages {
		err = fmt.Errorf("huge pages: the machine has room for %d of %d", got, others+pages)
	}
	if err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// reserved is how many huge pages the kernel keeps for those who ask for them.
func reserved() (int, error) {
	said, err := os.ReadFile(reservedPages)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(said)))
}

// chosenOf gives the setting out of what the kernel says: the only one, or the one in
// brackets.
func chosenOf(said string) string {
	if _, rest, some := strings.Cut(said, "["); some {
		said, _, _ = strings.Cut(rest, "]")
	}
	return strings.TrimSpace(said)
}
