package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
)

// global has the values of the flags that every command takes. Where one has
// nothing to say, it is taken all the same, so that it can stand in a script's
// every line.
type global struct {
	config    string
	data      string // folder of the embedded database; "" leaves it where it is
	logLevel  string
	logFormat string
	color     string
	json      bool
	quiet     bool
	wide      bool // tables are not cut
	stderr    io.Writer
}

func (g *global) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&g.config, "config", "c", "", "configuration `FILE` (default "+config.DefaultFile+" if there is one)")
	f.StringVar(&g.data, "data", "", "folder `DIR` with the embedded database, instead of what database.url says")
	f.StringVar(&g.logLevel, "log-level", "info", "`LEVEL` of the log of dev and serve: debug, info, warn or error")
	f.StringVar(&g.logFormat, "log-format", "auto", "`FORMAT` of the log: text, json, or auto: text on a terminal, else json")
	f.StringVar(&g.color, "color", "auto", "`WHEN` words are in colour: always, never, or auto: on a terminal, unless NO_COLOR is set")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "say nothing on standard error but errors")
	f.BoolVar(&g.json, "json", false, "data as JSON; dev and serve log as JSON")
	f.BoolP("version", "V", false, "say what this binary is")
}

// check refuses values that no command can take.
func (g *global) check() error {
	if !config.PlainLevel(g.logLevel) {
		return fault.WrongUse("use debug, info, warn or error", "--log-level: %q is unknown", g.logLevel)
	}
	if g.logFormat != "auto" && g.logFormat != "text" && g.logFormat != "json" {
		return fault.WrongUse("use auto, text or json", "--log-format: %q is unknown", g.logFormat)
	}
	if g.color != "auto" && g.color != "always" && g.color != "never" {
		return fault.WrongUse("use auto, always or never", "--color: %q is unknown", g.color)
	}
	return nil
}

// colored says whether words on w are in colour: on a terminal alone, unless
// told.
func (g *global) colored(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, isFile := w.(*os.File)
	return g.color == "always" || g.color == "auto" && isFile && isTerminal(f) && os.Getenv("NO_COLOR") == ""
}

// output is standard output. It remembers that something could not be written,
// so that no command has to look at each line.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// say writes what is neither data nor an error.
func (g *global) say(c *cobra.Command, text string) {
	if !g.quiet {
		fmt.Fprintln(c.ErrOrStderr(), text)
	}
}

// logging is the level and format of the log, as far as the command line has
// them: "" leaves them to the configuration.
func (g *global) logging(c *cobra.Command) (level, format string) {
	logs := c.Name() == "serve" || c.Name() == "dev" // elsewhere --quiet and --json are not about a log
	if c.Flag("log-level").Changed {
		level = g.logLevel
	} else if g.quiet && logs {
		level = "error"
	}
	if c.Flag("log-format").Changed {
		format = g.logFormat
	} else if g.json && logs {
		format = "json"
	}
	return level, format
}

// settings are those that the command line has, by the file's keys.
func (g *global) settings(c *cobra.Command) (map[string]string, error) {
	flags := map[string]string{}
	if c.Name() == "serve" {
		for flag, key := range config.Flags() {
			if f := c.LocalFlags().Lookup(flag); f != nil && f.Changed {
				flags[key] = f.Value.String()
			}
		}
	}
	if g.data != "" {
		u, err := dataURL(g.data)
		if err != nil {
			return nil, err
		}
		flags["database.url"] = u
	}
	level, format := g.logging(c)
	for key, value := range map[string]string{"log.level": level, "log.format": format} {
		if value != "" {
			flags[key] = value
		}
	}
	return flags, nil
}

// dataURL is database.url for the database in a folder, as dev has it there.
func dataURL(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.CannotOpen("", "--data: %v", err)
	}
	return (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(filepath.Join(at, "grantkeeper.db"))}).String(), nil
}

// load is the configuration as serve would have it with the same global flags.
func (g *global) load(c *cobra.Command) (config.Loaded, error) {
	flags, err := g.settings(c)
	if err != nil {
		return config.Loaded{}, err
	}
	return config.Load(g.config, os.Environ(), flags)
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Write the script by which a shell completes commands and flags",
		Example: `  grantkeeper completion bash > /etc/bash_completion.d/grantkeeper
  grantkeeper completion zsh > "${fpath[1]}/_grantkeeper"
  grantkeeper completion fish > ~/.config/fish/completions/grantkeeper.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.WrongUse("see: grantkeeper completion --help", "write: grantkeeper completion bash|zsh|fish")
			}
			return nil
		},
		Annotations: map[string]string{"next": "open a new shell"},
		RunE: func(c *cobra.Command, args []string) error {
			switch out := c.OutOrStdout(); args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return c.Root().GenZshCompletion(out)
			case "fish":
				return c.Root().GenFishCompletion(out, true)
			}
			return fault.WrongUse("write bash, zsh or fish", "there is no completion for %q", args[0])
		},
	}
}
