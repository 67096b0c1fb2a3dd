package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)

// licenses are the texts that the modules of all binaries come with, which most ask to
// be passed on, under a line "== module@version". One that has none is an error: then
// somebody has to look.
func licenses(r release, modules []string) ([]byte, error) {
	var out bytes.Buffer
	add := func(title, folder string) error {
		names, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "== %s\n\n", title)
		before := out.Len()
		for _, f := range names {
			if f.Type().IsRegular() && licenseFile.MatchString(f.Name()) {
				text, err := os.ReadFile(filepath.Join(folder, f.Name()))
				if err != nil {
					return err
				}
				fmt.Fprintf(&out, "%s\n\n", bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
			}
		}
		if out.Len() == before {
			return fmt.Errorf("%s comes with no licence", title)
		}
		return nil
	}
	if err := add("grantkeeper@"+r.version, r.source); err != nil {
		return nil, err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	if err := add("stdlib@"+r.toolchain, strings.TrimSpace(string(goroot))); err != nil {
		return nil, err
	}
	c := exec.Command("go", append([]string{"mod", "download", "-json"}, slices.Sorted(slices.Values(modules))...)...)
	c.Dir, c.Stderr = r.source, os.Stderr
	listed, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(listed)); ; {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		} else if err != nil {
			return nil, err
		}
		if err := add(m.Path+"@"+m.Version, m.Dir); err != nil {
			return nil, err
		}
	}
}
