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
	wanted, err := pagesFor(buffers)
	if err != nil {
		return nil, err
	}
	others, err := os.ReadFile(reservedPages)
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(others)))
	wanted += n
	var before []func() error
	restore = func() (err error) {
		for _, one := range before {
			err = errors.Join(err, one())
		}
		return err
	}
	for _, to := range [][2]string{{reservedPages, strconv.Itoa(wanted)}, {heapPages, "always"}} {
		was, err := os.ReadFile(to[0])
		if err != nil {
			return nil, errors.Join(err, restore())
		}
		before = append(before, func() error { return os.WriteFile(to[0], []byte(chosenOf(string(was))), 0) })
		if err := os.WriteFile(to[0], []byte(to[1]), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("huge pages: %w", err), restore())
		}
	}
	got, err := os.ReadFile(reservedPages)
	if n, _ = strconv.Atoi(strings.TrimSpace(string(got))); err == nil && n < wanted {
		err = fmt.Errorf("huge pages: the machine has room for %d of %d", n, wanted)
	}
	if err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// chosenOf gives the setting out of what the kernel says: the only one, or the one in
// brackets.
func chosenOf(said string) string {
	if _, rest, some := strings.Cut(said, "["); some {
		said, _, _ = strings.Cut(rest, "]")
	}
	return strings.TrimSpace(said)
}
