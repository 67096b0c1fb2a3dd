package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var personColumns = []terminal.Column{
	terminal.IDOf("person", "id"), terminal.Member("email", "email"), terminal.Member("name", "name"), terminal.Member("active", "active"), terminal.Member("support", "support"),
}

func personCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "person COMMAND",
		Short: "Look at people, add, deactivate and reactivate them, set passwords",
		Example: `  grantkeeper person show tor@nordlys.example
  grantkeeper person deactivate tor@nordlys.example --reason left --yes`,
		Annotations: map[string]string{"next": "grantkeeper person list"},
	}, personList(g), personShow(g), personAdd(g), personPassword(g), personReset(g), personResetSignIn(g),
		personChange(g, "deactivate", "End a person's sessions, approvals and API keys, and let them in no more",
			"This ends every session, approval and API key of %s, for good: %s.", "grantkeeper approval list --person EMAIL"),
		personChange(g, "reactivate", "Let a deactivated person in again; no approval comes back", "",
			"grantkeeper person show EMAIL"))
}

func personList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:         "list",
		Short:       "List people by ID",
		Example:     `  grantkeeper person list --organization nordlys --query tor`,
		Annotations: map[string]string{"next": "grantkeeper person show EMAIL"},
	}, "/v1/people", personColumns, map[string]string{"organization": "members of this one", "query": "part of name or email"})
}

func personShow(g *global) *cobra.Command {
	return g.objectShow(&cobra.Command{
		Use:         "show EMAIL",
		Short:       "Show one person, by email or ID",
		Example:     `  grantkeeper person show tor@nordlys.example --json`,
		Annotations: map[string]string{"next": "grantkeeper approval list --person EMAIL"},
	}, "/v1/people/", personColumns...)
}

func personAdd(g *global) *cobra.Command {
	var id, name string
	var o *serverChange
	c := &cobra.Command{
		Use:         "add EMAIL",
		Short:       "Add a person, without a password",
		Example:     `  grantkeeper person add eva@verksted.example --name "Eva Eng"`,
		Args:        named("EMAIL", 1),
		Annotations: map[string]string{"next": "grantkeeper person set-password EMAIL"},
		RunE: func(c *cobra.Command, args []string) error {
			if name == "" {
				return fault.WrongUse(`grantkeeper person add EMAIL --name "Eva Eng"`, "--name is missing")
			}
			return g.post(c, o, "/v1/people", map[string]any{"id": id, "email": args[0], "name": name}, terminal.Rows(personColumns...))
		},
	}
	o = serverChangeFlags(g, c, false)
	c.Flags().StringVar(&id, "id", "", "the person's ID (default: a random one)")
	c.Flags().StringVar(&name, "name", "", "the person's name")
	return c
}

func personPassword(g *global) *cobra.Command {
	var o *serverChange
	c := &cobra.Command{
		Use:   "set-password EMAIL",
		Short: "Set a person's password and end their sessions",
		Example: `  grantkeeper person set-password eva@verksted.example              # asks, without echo
  grantkeeper person set-password eva@verksted.example < password.txt`,
		Long: `The password is asked for on a terminal, and otherwise is the one line on
standard input. It is never an argument: others can see those. Approvals stay.`,
		Args:        named("EMAIL", 1),
		Annotations: map[string]string{"next": "grantkeeper events list --person EMAIL"},
		RunE: func(c *cobra.Command, args []string) error {
			password, err := secretFromInput(c, "New password: ")
			if err != nil {
				return err
			}
			return g.postTo(c, o, "/v1/people/", args[0], "password", map[string]any{"password": password}, "", personColumns...)
		},
	}
	o = serverChangeFlags(g, c, false)
	return c
}

func personReset(g *global) *cobra.Command {
	var here bool
	var o *serverChange
	c := &cobra.Command{
		Use:   "reset-link EMAIL",
		Short: "Make a link by which a person sets a new password",
		Example: `  grantkeeper person reset-link eva@verksted.example --reason "forgot it"
  grantkeeper person reset-link eva@verksted.example --here`,
		Long: `The link works once, within a day; a later one takes its place. It is mailed where
mail.url is set, and shown where it is not: whoever has it can set the password.`,
		Args:        named("EMAIL", 1),
		Annotations: map[string]string{"next": "grantkeeper events list --person EMAIL"},
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{}
			if here {
				body["mail"] = false
			}
			return g.postTo(c, o, "/v1/people/", args[0], "reset-link", body, "",
				terminal.Member("person", "id"), terminal.Member("mailed", "mailed"), terminal.Member("link", "url"), terminal.Moment("until", "expires_at"))
		},
	}
	o = serverChangeFlags(g, c, false)
	c.Flags().BoolVar(&here, "here", false, "show the link and mail nothing")
	return c
}

// maxSecret is the most bytes of a secret on standard input.
const maxSecret = 4096

// secretFromInput asks for a secret without echo, or reads the one line that
// standard input has.
func secretFromInput(c *cobra.Command, prompt string) (string, error) {
	if in, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		_, _ = io.WriteString(c.ErrOrStderr(), prompt)
		b, err := term.ReadPassword(int(in.Fd()))
		_, _ = io.WriteString(c.ErrOrStderr(), "\n")
		if err != nil {
			return "", fault.CannotOpen("", "the terminal cannot be read: %v", err)
		}
		return oneLine(string(b))
	}
	b, err := io.ReadAll(io.LimitReader(c.InOrStdin(), maxSecret+1))
	if err != nil {
		return "", fault.CannotOpen("", "standard input: %v", err)
	}
	return oneLine(string(b))
}

func oneLine(s string) (string, error) {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
	if s == "" || len(s) > maxSecret || strings.ContainsAny(s, "\r\n") {
		return "", fault.WrongUse("send one line on standard input", "%v", errors.New("standard input has not one line"))
	}
	return s, nil
}

func personChange(g *global, what, short, question, next string) *cobra.Command {
	return g.objectChange(&cobra.Command{
		Use:         what + " EMAIL",
		Short:       short,
		Example:     `  grantkeeper person ` + what + ` tor@nordlys.example --reason "asked for it"`,
		Annotations: map[string]string{"next": next},
	}, "/v1/people/", question, personColumns...)
}

func personResetSignIn(g *global) *cobra.Command {
	return g.objectChange(&cobra.Command{
		Use:     "reset-signin EMAIL",
		Short:   "Forget a person's second factors and who they are at providers, and end their sessions",
		Example: `  grantkeeper person reset-signin eva@verksted.example --reason "lost the phone"`,
		Long: `For somebody who has lost authenticator app, passkey and recovery codes: the password
alone, or the next sign-in at the provider, lets them in again. The password and the
approvals stay. See that it is they who ask.`,
		Annotations: map[string]string{"next": "grantkeeper events list --person EMAIL"},
	}, "/v1/people/", "This forgets the second factors and the providers of %s, and ends their sessions.", personColumns...)
}
