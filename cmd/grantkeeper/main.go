// Command grantkeeper is the authorization server: dev to try it, serve to run
// it, demo to be a client against it.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process around it. It gives the exit code.
func run(args []string, stdout, stderr io.Writer) int { return runOn(os.Stdin, args, stdout, stderr) }

func runOn(stdin io.Reader, args []string, stdout, stderr io.Writer) int {
	root := rootCommand(stderr)
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &output{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.Execute()
	if out.err != nil { // whatever became of the command, nobody has its data
		if at, ok := errors.AsType[*fs.PathError](out.err); ok {
			out.err = at.Err
		}
		err = fault.CannotOpen("see where it leads", "standard output: %v", out.err)
	}
	if err == nil {
		return 0
	}
	var e *fault.Error
	if !errors.As(err, &e) { // cobra's own: a command or argument that there is not
		what, proposal, _ := strings.Cut(err.Error(), "\n\nDid you mean this?")
		e = &fault.Error{Code: fault.Use, What: what, Hint: "see: grantkeeper --help"}
		if names := strings.Fields(proposal); len(names) > 0 {
			e.Hint = "did you mean: grantkeeper " + names[0]
		}
	}
	told, all := errors.AsType[everyMistake](err)
	if !all {
		told.Several = fault.Several{e}
	}
	for _, e := range told.Several {
		fmt.Fprintln(stderr, e.What)
		if e.Hint != "" {
			fmt.Fprintln(stderr, e.Hint)
		}
	}
	return e.Code
}

// everyMistake has all of them printed: by the command that is asked for them.
type everyMistake struct{ fault.Several }

func rootCommand(stderr io.Writer) *cobra.Command {
	g := &global{stderr: stderr}
	root := &cobra.Command{
		Use:   "grantkeeper",
		Short: "An OAuth 2.1 authorization server: people choose, per organization and role, what an app may do",
		Example: `  grantkeeper dev      # try it: demo data, http://127.0.0.1:8080
  grantkeeper demo     # be a client against it, step by step`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{"next": "grantkeeper dev"},
	}
	g.addFlags(root)
	root.SetVersionTemplate("grantkeeper {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fault.WrongUse("see: "+c.CommandPath()+" --help", "%v", err)
	})
	for _, c := range []*cobra.Command{
		devCommand(g), demoCommand(g), connectCommand(g), serveCommand(g), initCommand(g), configCommand(g),
		clientCommand(g), approvalCommand(g), personCommand(g), organizationCommand(g), directoryCommand(g), serviceCommand(g),
		eventsCommand(g), activityCommand(g), attemptsCommand(g), tokenCommand(g), operatorCommand(g),
		doctorCommand(g), migrateCommand(g, store.Migrations()), backupCommand(g), keysCommand(g), gcCommand(g),
		explainCommand(g), drillCommand(g), completionCommand(), versionCommand(g),
	} {
		root.AddCommand(c)
	}
	g.finish(root)
	return root
}

// group is a command that only has others.
func group(c *cobra.Command, of ...*cobra.Command) *cobra.Command {
	c.AddCommand(of...)
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := "see: " + c.CommandPath() + " --help"
		if names := c.SuggestionsFor(args[0]); len(names) > 0 {
			hint = "did you mean: " + c.CommandPath() + " " + names[0]
		}
		return fault.WrongUse(hint, "unknown command %q for %q", args[0], c.CommandPath())
	}
	return c
}

// finish makes every error of a command's own one with an exit code, so that
// what is left is cobra's.
func (g *global) finish(c *cobra.Command) {
	for _, one := range c.Commands() {
		g.finish(one)
	}
	c.Version = version // so that -V is understood behind every command
	run := c.RunE
	if run == nil {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := g.check()
		if err == nil {
			err = run(c, args)
		}
		var e *fault.Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		return &fault.Error{Code: fault.Failed, What: err.Error()}
	}
}

// usageTemplate begins with examples and ends with what to do next.
var usageTemplate = strings.TrimLeft(`
{{with .Short}}{{.}}.{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{with .Long}}
{{.}}
{{end}}
Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasParent}}`+globalFlags+`{{end}}{{with index .Annotations "next"}}
Next: {{.}}
{{end}}`, "\n")

// globalFlags reminds every command's help of them.
const globalFlags = `
Global flags, as grantkeeper --help has them:
  -c, --config FILE  --data DIR  --json  -q, --quiet  --color WHEN
  --log-level LEVEL  --log-format FORMAT  -h, --help  -V, --version
`

// signals gives the signals that end the process, and a function to call when
// it is ready. Until then the first one ends it at once: nothing was promised
// to anybody yet, and the database stands a process that vanishes.
func signals() (ch chan os.Signal, ready func()) {
	ch = make(chan os.Signal, 2)
	early := make(chan os.Signal, 1)
	signal.Notify(early, os.Interrupt, syscall.SIGTERM)
	none := make(chan struct{})
	go func() {
		if got, ok := <-early; ok {
			os.Exit(fault.CodeOf(server.Interrupted(got)))
		}
		close(none)
	}()
	return ch, func() {
		signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
		signal.Stop(early)
		close(early) // one that has come is received all the same
		<-none
	}
}
