package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/probe"
	"github.com/grantkeeper/grantkeeper/probe/fetch"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// checkURL refuses flags that mean nothing together.
func (o doctorOptions) checkURL(c *cobra.Command) error {
	if !c.Flags().Changed("url") {
		if o.register || o.caFile != "" {
			return fault.WrongUse("name the server with --url", "--register and --ca-file are about another server")
		}
		return nil
	}
	if len(o.only) > 0 || len(o.baseURLs) > 0 {
		return fault.WrongUse("leave out the others", "--url looks at another server, --only and --base-url at this installation")
	}
	if err := probe.Check(o.url); err != nil {
		return fault.WrongUse("write it as clients are given it, such as https://mcp.example/mcp", "--url: %v", err)
	}
	return nil
}

// probeURL looks at another server and writes the rows.
func (o doctorOptions) probeURL(c *cobra.Command, g *global) error {
	roots, err := o.roots()
	if err != nil {
		return err
	}
	q := &probe.Inquiry{URL: o.url, Register: o.register}
	if err := untilSignal(c.Context(), func(ctx context.Context) error {
		fetch.Run(ctx, q, fetch.Options{Roots: roots, Agent: "grantkeeper-doctor/" + version})
		return ctx.Err()
	}); err != nil {
		for _, r := range q.Rows() {
			if r.Code == "register.left" && r.Result == probe.Note {
				fmt.Fprint(c.ErrOrStderr(), r.Line(g.colored(c.ErrOrStderr()), false))
			}
		}
		return err
	}
	return o.tellRows(c.OutOrStdout(), q.Rows(), g.json, g.colored(c.OutOrStdout()))
}

// roots are the system's certificates and those of --ca-file; nil without the flag.
func (o doctorOptions) roots() (*x509.CertPool, error) {
	if o.caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, fault.CannotOpen("name a file that can be read", "--ca-file: %v", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fault.WrongUse("name a file with certificates in PEM", "--ca-file: there is no certificate in %s", o.caFile)
	}
	return roots, nil
}

// tellRows writes the rows. The error says with which code it ends.
func (o doctorOptions) tellRows(w io.Writer, rows []probe.Row, asJSON, colored bool) error {
	count, issuers := map[string]int{}, map[string]bool{}
	for _, r := range rows {
		count[r.Result]++
		if r.At != "" {
			issuers[r.At] = true
		}
	}
	if asJSON {
		if err := writeDocument(w, map[string]any{"url": o.url, "rows": rows, "notes": count[probe.Note], "warnings": count[probe.Warn], "faults": count[probe.Fail]}); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		for _, r := range rows {
			if r.Result != probe.None {
				b.WriteString(r.Line(colored, len(issuers) > 1))
			}
		}
		if n := count[probe.None]; n > 0 {
			fmt.Fprintf(&b, "%s could not be judged; --json has why.\n", terminal.Plural(n, "row"))
		}
		fmt.Fprintf(&b, "%s, %s, %s.\n", terminal.Plural(count[probe.Note], "note"), terminal.Plural(count[probe.Warn], "warning"), terminal.Plural(count[probe.Fail], "fault"))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	if count[probe.Fail] > 0 || o.strict && count[probe.Warn] > 0 {
		return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("assistants will not all get through: %s, %s", terminal.Plural(count[probe.Fail], "fault"), terminal.Plural(count[probe.Warn], "warning"))}
	}
	return nil
}
