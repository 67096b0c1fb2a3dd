// Lint runs gosec's rules over the module whose root is the working directory, and
// over that of bench/ in it, less the exceptions of exceptions.txt. An exception that nothing needs any
// more is a finding too. Tests are left out: they do on purpose what the rules
// warn of.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/issue"
	"github.com/securego/gosec/v2/rules"
	"golang.org/x/tools/go/packages"
)

//go:embed exceptions.txt
var list string

// An exception allows a rule in a file or below a folder ("bench/"), or
// everywhere ("*").
type exception struct{ rule, where string }

// exceptions reads lines such as "G404 store/replica.go  the reason".
func exceptions(list string) (all []exception) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 4 {
			log.Fatalf("exceptions.txt: an exception without a reason: %q", line)
		}
		all = append(all, exception{fields[0], fields[1]})
	}
	return all
}

func (e exception) covers(rule, file string) bool {
	return e.rule == rule && (e.where == "*" || e.where == file || strings.HasSuffix(e.where, "/") && strings.HasPrefix(file, e.where))
}

func main() {
	log.SetFlags(0)
	root, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	report(root, append(issuesIn(root), issuesIn(filepath.Join(root, "bench"))...))
}

// issuesIn reads a module. What it imports is taken from what the tests were
// built with, all at once: gosec itself would ask the toolchain again for each folder.
func issuesIn(module string) []*issue.Issue {
	all, err := packages.Load(&packages.Config{Mode: gosec.LoadMode, Dir: module, BuildFlags: []string{"-race"}}, "./...")
	if err != nil {
		log.Fatal(err)
	}
	check := gosec.NewAnalyzer(gosec.NewConfig(), false, true, false, 1, log.New(io.Discard, "", 0))
	check.LoadRules(rules.Generate(false).RulesInfo())
	check.LoadAnalyzers(analyzers.Generate(false).AnalyzersInfo())
	for _, p := range all {
		if len(p.Errors) > 0 {
			log.Fatal(p.Errors)
		}
		check.CheckRules(p)
		check.CheckAnalyzers(p)
	}
	issues, stats, faults := check.Report()
	if len(faults) > 0 || stats.NumFiles == 0 {
		log.Fatalf("gosec read %d files: %v", stats.NumFiles, faults)
	}
	return issues
}

func report(root string, issues []*issue.Issue) {
	allowed, used, found := exceptions(list), map[exception]bool{}, 0
issues:
	for _, i := range issues {
		file, err := filepath.Rel(root, i.File)
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range allowed {
			if e.covers(i.RuleID, filepath.ToSlash(file)) {
				used[e] = true
				continue issues
			}
		}
		found++
		fmt.Printf("%s:%s:%s: %s (%s)\n", file, i.Line, i.Col, i.What, i.RuleID)
	}
	for _, e := range allowed {
		if !used[e] {
			found++
			fmt.Printf("scripts/lint/exceptions.txt: %s is not found in %s any more\n", e.rule, e.where)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}
