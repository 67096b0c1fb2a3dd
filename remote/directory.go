package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Bounds of a file that is imported, as the server has them: bytes. ImportTimeout is how long a
// server may take to import it, or to give it.
const (
	maxImport     = 128 << 20
	ImportTimeout = 10 * time.Minute
)

// ReadImport reads a file, or standard input for "-".
func ReadImport(stdin io.Reader, name string) (RawJSON, error) {
	in := stdin
	if name != "-" || stdin == nil {
		f, err := os.Open(name)
		if err != nil {
			return nil, fault.CannotOpen("", "%v", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	switch {
	case err != nil:
		return nil, fault.CannotOpen("", "%s: %v", name, err)
	case len(text) > maxImport:
		return nil, fault.WrongUse("divide it, and leave out --prune", "%s has more than %d MiB", name, maxImport>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fault.WrongUse("see: grantkeeper directory import --help", "%s is empty", name)
	}
	return text, nil
}

// Imported is what the server says of an import, as far as it is printed.
type Imported struct {
	DryRun bool `json:"dry_run"`
	Counts map[string]struct {
		Added, Changed, Removed int
	} `json:"counts"`
	Changes []struct{ Change, List, ID string } `json:"changes"`
	Ended   int                                 `json:"approvals_ended"`
	AsOf    int64                               `json:"as_of"` // 0 is none
}

// importLists is the order in which the lists are told.
var importLists = []string{"people", "organizations", "members", "circles", "roles", "fillers", "api_keys", "rules"}

// Question says what a dry run has found, to ask whether it shall be.
func (a Imported) Question() string {
	added, changed, removed := 0, 0, 0
	for _, n := range a.Counts {
		added, changed, removed = added+n.Added, changed+n.Changed, removed+n.Removed
	}
	text := fmt.Sprintf("This adds %d, changes %d and removes %d, and ends %s for good.", added, changed, removed, terminal.Plural(a.Ended, "approval"))
	if a.AsOf != 0 {
		text += fmt.Sprintf(" From then on a directory older than version %d is refused.", a.AsOf)
	}
	return text
}

func (a Imported) String() string {
	var b strings.Builder
	for _, one := range a.Changes {
		fmt.Fprintf(&b, "%-8s %-14s %s\n", terminal.Printable(one.Change), terminal.Printable(one.List), terminal.Printable(one.ID))
	}
	total := 0
	for _, n := range a.Counts {
		total += n.Added + n.Changed + n.Removed
	}
	if more := total - len(a.Changes); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if total > 0 {
		b.WriteString("\n")
	}
	for _, list := range importLists {
		if n, ok := a.Counts[list]; ok {
			fmt.Fprintf(&b, "%-14s %d added, %d changed, %d removed\n", list, n.Added, n.Changed, n.Removed)
		}
	}
	verb := "ended"
	if a.DryRun {
		verb = "would end"
	}
	switch {
	case a.AsOf != 0:
		fmt.Fprintf(&b, "%-14s %d\n", "as_of", a.AsOf)
	case total == 0:
		b.WriteString("nothing to change\n")
	}
	fmt.Fprintf(&b, "%-14s %d %s\n", "approvals", a.Ended, verb)
	return b.String()
}

// WriteEntries writes each entry of a directory on a line of its own: a fault is named by its
// line, and two files can be compared.
func WriteEntries(w io.Writer, text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("{")
	for first := true; dec.More(); first = false {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if !first {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %q: ", name)
		var entries []json.RawMessage
		if json.Unmarshal(value, &entries) != nil {
			b.Write(value)
			continue
		}
		b.WriteString("[")
		for i, entry := range entries {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "\n    %s", entry)
		}
		if len(entries) > 0 {
			b.WriteString("\n  ")
		}
		b.WriteString("]")
	}
	b.WriteString("\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}
