package main

import (
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Everything in contrib that names a command, a flag or a variable of ours
// names one that there is.
func TestContribNamesWhatThereIs(t *testing.T) {
	command := regexp.MustCompile(`(?:^|[/ "'(])grantkeeper ((?:[a-z-]+ )*[a-z-]+)((?: [^\n"'&|]*)?)`)
	variable := regexp.MustCompile(`\bGRANTKEEPER_[A-Z_]+`)
	known := []string{environmentPrefix + "CONFIG"}
	for _, s := range settings {
		known = append(known, s.env, s.env+"_FILE")
	}
	commands := 0
	tree := os.DirFS("../../contrib")
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, v := range variable.FindAllString(string(b), -1) {
			if !slices.Contains(known, v) {
				t.Errorf("%s: nothing reads %s", name, v)
			}
		}
		for _, m := range command.FindAllStringSubmatch(string(b), -1) {
			words := strings.Fields(strings.TrimPrefix(m[1], "grantkeeper ")) // whose user has this name too
			c, rest, err := rootCommand(io.Discard).Find(words)
			if err != nil || c.Name() == "grantkeeper" || c.HasSubCommands() || len(rest) > 1 {
				continue // prose, or the name of a user
			}
			commands++
			for _, f := range regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				if c.Flags().Lookup(f[1]) == nil {
					t.Errorf("%s: %s has no --%s", name, c.CommandPath(), f[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if commands < 4 {
		t.Errorf("only %d commands were found", commands)
	}
}
