package main

import (
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

//go:generate go test . -run TestCommandsDocument -args -write

var writeDocs = flag.Bool("write", false, "write docs/commands.md instead of comparing it")

const commandsIntro = `# Commands

<!-- Written from the help of the binary. Do not edit: go generate ./cmd/grantkeeper -->

Data goes to standard output, messages and logs to standard error. With ` + "`--json`" + ` the data
is one document, for ` + "`events tail`" + ` one on each line; names in it are stable, and others may
be added. Every command takes the global flags. What changes something on a running
server asks it through the operators' listener; what ends something asks before, and needs
` + "`--yes`" + ` where nobody is there to answer.

| Exit code | |
|---|---|
| 0 | done |
| 1 | failed; ` + "`doctor`" + ` found a fault, ` + "`demo`" + ` differed |
| 2 | wrong use: a flag, an argument, a missing ` + "`--yes`" + ` |
| 3 | the configuration is not valid |
| 4 | cannot reach or open something: a server, a database, a port, a file |
| 5 | no such client, approval, person, organization or key |
| 6 | refused by state: a schema that is too old or too new, a server that runs already, a file that is there |
| 130, 143 | ended by Ctrl-C or SIGTERM before it was ready; after that 0, and requests are drained |
`

// docs/commands.md is what the commands say of themselves, every flag
// included.
func TestCommandsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(commandsIntro)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		path := strings.Fields(c.CommandPath())
		var out strings.Builder
		if code := run(append(path[1:], "--help"), &out, io.Discard); code != 0 {
			t.Fatalf("%s: exit code %d", c.CommandPath(), code)
		}
		if len(path) > 1 {
			b.WriteString("\n" + strings.Repeat("#", len(path)) + " " + c.CommandPath() + "\n\n```\n" + strings.TrimSpace(strings.Replace(out.String(), globalFlags, "", 1)) + "\n```\n")
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := rootCommand(io.Discard)
	b.WriteString("\n## Global flags\n\n```\n" + strings.TrimRight(root.PersistentFlags().FlagUsages(), "\n") + "\n```\n")
	walk(root)
	const name = "../../docs/commands.md"
	if *writeDocs {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != b.String() {
		t.Errorf("docs/commands.md is not what the binary says; write it: go generate ./cmd/grantkeeper (%v)", err)
	}
}

// Decision N1: what the product is called wherever that stands.
func TestNamesOfTheProduct(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.HasPrefix(string(mod), "module github.com/grantkeeper/grantkeeper\n") {
		t.Errorf("the module is another: %.60q, %v", mod, err)
	}
	if name := rootCommand(io.Discard).Name(); name != "grantkeeper" {
		t.Errorf("the binary calls itself %s", name)
	}
}
