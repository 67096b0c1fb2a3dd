package config

import (
	"fmt"
	"io"
	"strings"
)

// origin says where a setting's value comes from.
func (l Loaded) origin(s setting) Origin {
	if o, ok := l.Origins[s.key]; ok {
		return o
	}
	return "default"
}

// Show writes a file of the configuration that holds.
func (l Loaded) Show(w io.Writer, origin bool) error {
	var b strings.Builder
	for _, s := range settings {
		if s.list != "" {
			continue
		}
		line := s.key + " = " + s.written(l.Config)
		if origin {
			line = fmt.Sprintf("%-60s # %s", line, l.from(s))
		}
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// from names the origin: the file, the variable, or the default.
func (l Loaded) from(s setting) string {
	switch o := l.origin(s); o {
	case "file":
		return "file " + l.File
	case "environment":
		return "environment " + s.env
	default:
		return string(o)
	}
}

// Shown is the same as config show has it in JSON.
func (l Loaded) Shown() any {
	type shown struct {
		Key    string `json:"key"`
		Value  any    `json:"value"` // null when it is empty
		Origin Origin `json:"origin"`
	}
	out := struct {
		File     string  `json:"file,omitempty"`
		Settings []shown `json:"settings"`
	}{File: l.File}
	for _, s := range settings {
		if s.list == "" {
			out.Settings = append(out.Settings, shown{s.key, s.value(l.Config), l.origin(s)})
		}
	}
	return out
}

// Summary says what was read from where.
func (l Loaded) Summary() string {
	file, fromFile, fromEnvironment := l.File, 0, 0
	for _, o := range l.Origins {
		switch o {
		case "file":
			fromFile++
		case "environment":
			fromEnvironment++
		}
	}
	if file == "" {
		file = "no file"
	}
	return fmt.Sprintf("%s, %d settings, %d from environment", file, fromFile+fromEnvironment, fromEnvironment)
}
