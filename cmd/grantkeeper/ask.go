package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/fault"
)

// changeOptions are the flags of every command that changes something.
type changeOptions struct {
	reason string
	yes    bool
}

// changeFlags adds --reason and, where the change asks before, --yes.
func changeFlags(c *cobra.Command, asks bool) *changeOptions {
	o := &changeOptions{}
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the journal")
	if asks {
		c.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	}
	return o
}

// confirm asks on a terminal, and elsewhere takes --yes alone.
func (o changeOptions) confirm(c *cobra.Command, question string) error {
	if o.yes {
		return nil
	}
	nobody := fault.WrongUse("add --yes", "%s Nobody is there to answer.", question)
	in, isFile := c.InOrStdin().(*os.File)
	if !isFile || !isTerminal(in) {
		return nobody
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && line == "" { // such as /dev/null
		return nobody
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return &fault.Error{Code: fault.Failed, What: "not confirmed, nothing was changed", Hint: ""}
	}
	return nil
}

// isTerminal reports whether somebody sits at a file: /dev/null is none.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
