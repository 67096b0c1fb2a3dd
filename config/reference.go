package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A described setting is what config reference says of one, as JSON.
type described struct {
	Key         string `json:"key"`
	Kind        string `json:"kind"`
	Default     any    `json:"default,omitempty"`
	List        string `json:"list,omitempty"` // the list of tables that it stands in
	Environment string `json:"environment,omitempty"`
	FromFile    string `json:"environment_file,omitempty"` // names a file with the value
	Flag        string `json:"flag,omitempty"`             // of serve
	Meaning     string `json:"meaning"`
}

func (s setting) described() described {
	d := described{Key: s.key, Kind: s.kind(), List: s.list, Environment: s.env, Meaning: s.meaning}
	if s.file {
		d.FromFile = s.env + "_FILE"
	}
	if s.flag != "" {
		d.Flag = "--" + s.flag
	}
	if s.list == "" {
		d.Default = s.value(Defaults())
	}
	return d
}

// Reference gives all settings as config reference has them in JSON.
func Reference() any {
	var out struct {
		Settings []described `json:"settings"`
	}
	for _, s := range settings {
		out.Settings = append(out.Settings, s.described())
	}
	return out
}

// kind says in words how the value is written in the file.
func (s setting) kind() string {
	switch t := s.field.Type; {
	case t == reflect.TypeFor[Duration](), t == reflect.TypeFor[OptionalDuration]():
		return "time"
	case t == reflect.TypeFor[Rate]():
		return "rate"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "number"
	case isTables(t):
		return "list of tables"
	case t.Kind() == reflect.Map:
		return "tables of texts"
	case t.Kind() == reflect.Slice:
		return "list of texts"
	}
	return "text"
}

// wanted says how the value has to be written, to whom wrote another kind.
func (s setting) wanted() string {
	switch kind := s.kind(); kind {
	case "time":
		if s.field.Type == reflect.TypeFor[OptionalDuration]() {
			return `a time is written "90s", "12h" or "365d", and none "off"`
		}
		return `a time is written "90s", "12h" or "365d"`
	case "rate":
		return `a rate is written "3000/10m"`
	case "list of texts":
		return `a list of texts is wanted, such as ["one", "two"]`
	case "text":
		return `a text is wanted, such as "one"`
	case "list of tables":
		return "a list of tables is wanted, with values as config reference has them"
	case "tables of texts":
		return `a table of texts is wanted, such as items = "orders"`
	case "number":
		return "a number is wanted, such as 10"
	default:
		return kind + " is wanted"
	}
}

// value gives the setting's value in c as JSON has it, without secrets; nil
// when it is empty.
func (s setting) value(c Config) any {
	v := plain(reflect.ValueOf(c).FieldByIndex(s.index))
	if text, ok := v.(string); ok && s.secret == "url" {
		return WithoutPassword(text)
	}
	return v
}

// written gives the value as the file has it, without secrets.
func (s setting) written(c Config) string {
	v := reflect.ValueOf(c).FieldByIndex(s.index)
	if s.secret == "url" {
		v = reflect.ValueOf(WithoutPassword(v.String()))
	}
	return inTOML(v)
}

// hidden stands for what config show does not show.
const hidden = "(set)"

// WithoutPassword gives a URL without the password in it; all of it is hidden
// where it cannot be found.
func WithoutPassword(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || s != "" && u.Scheme == "":
		return hidden
	case u.Scheme == "sqlite" && u.User == nil: // a file's name is no secret
		return s
	case strings.Contains(strings.ToLower(u.RawQuery), "password"):
		return hidden
	}
	before, rest, userinfo := strings.Cut(s, "@")
	if userinfo && u.User == nil || strings.Contains(rest, "@") {
		return hidden
	}
	if password, ok := u.User.Password(); ok && password != "" {
		scheme, _, _ := strings.Cut(before, "://")
		return scheme + "://" + u.User.Username() + ":" + hidden + "@" + rest
	}
	return s
}

// plain gives a value as JSON has it; nil when it is empty.
func plain(v reflect.Value) any {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil && len(text) > 0 {
			return string(text)
		}
		return nil
	}
	switch {
	case v.Kind() == reflect.Struct:
		table := map[string]any{}
		for i := range v.NumField() {
			if one := plain(v.Field(i)); one != nil {
				table[v.Type().Field(i).Tag.Get("toml")] = one
			}
		}
		return table
	case v.Kind() == reflect.Slice && v.Len() > 0:
		var all []any
		for i := range v.Len() {
			all = append(all, plain(v.Index(i)))
		}
		return all
	case v.Kind() == reflect.Map && v.Len() > 0:
		table := map[string]any{}
		for _, key := range v.MapKeys() {
			table[key.String()] = plain(v.MapIndex(key))
		}
		return table
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Map, v.Kind() == reflect.String && v.Len() == 0:
		return nil
	case v.Kind() == reflect.String:
		return v.String()
	}
	return v.Interface()
}

// inTOML writes a value on one line.
func inTOML(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return quoted(err.Error())
		}
		return quoted(string(text))
	}
	var parts []string
	switch v.Kind() {
	case reflect.String:
		return quoted(v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			parts = append(parts, v.Type().Field(i).Tag.Get("toml")+" = "+inTOML(v.Field(i)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Map:
		for _, key := range v.MapKeys() {
			parts = append(parts, quoted(key.String())+" = "+inTOML(v.MapIndex(key)))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, inTOML(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// quoted writes a string of TOML, in which JSON's escapes are known.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const referenceIntro = `# Configuration

<!-- Written by: grantkeeper config reference. Do not edit: go generate ./cmd/grantkeeper -->

Grantkeeper reads ` + "`" + DefaultFile + "`" + ` if it is there, or the file that
` + "`--config`" + ` or ` + "`" + EnvironmentPrefix + "CONFIG`" + ` names. A flag wins over the environment, the environment
over the file, the file over the default. An unknown key or variable is an error, and
an empty variable counts as not set.

` + "`grantkeeper config check`" + ` reads everything as ` + "`serve`" + ` does, without listening;
` + "`grantkeeper config show`" + ` says which value holds and where it comes from.

Keys and passwords come by files of their own, which nobody but their owner may read, or
root's, which the service's own group may read as well (mode 0640 or 0440). A
password in ` + "`database.url` or `limiter.url`" + ` is better off in a file too, by the variable's
` + "`_FILE`" + `. What a setting names has to be a regular file: a pipe or a device is
refused; a configuration that comes through a pipe is read once. A time is a text:
` + "`\"90s\"`, `\"12h\"` or `\"365d\"`" + `; a rate is one of requests and a time:
` + "`\"3000/10m\"`" + `. In the environment a list has commas between its texts; a list of tables
stands in the file alone.

The lifetimes of codes and tokens and the three rate limits of the OAuth endpoints are
no settings: every installation keeps the contract.
`

// WriteReference writes docs/configuration.md: every setting, by its table.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceIntro)
	heading := "-"
	for _, s := range settings {
		if h := s.heading(); h != heading {
			heading = h
			fmt.Fprintf(&b, "\n## %s\n\n| Setting | Written as | Default | Environment, flag | Meaning |\n|---|---|---|---|---|\n", h)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.key, s.kind(), s.standard(), s.sources(), strings.ReplaceAll(s.meaning, "|", `\|`))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// heading names the table of the file that the setting stands in.
func (s setting) heading() string {
	table, _, in := strings.Cut(s.key, ".")
	switch {
	case s.list != "":
		return "`[[" + s.list + "]]`"
	case isTables(s.field.Type):
		return "`[[" + s.key + "]]`"
	case in:
		return "`[" + table + "]`"
	}
	return "At the top"
}

// standard is the default as the page has it.
func (s setting) standard() string {
	if s.list != "" || s.value(Defaults()) == nil {
		return "none"
	}
	return "`" + s.written(Defaults()) + "`"
}

// sources are the variable and the flag that win over the file.
func (s setting) sources() string {
	var all []string
	if s.env != "" {
		all = append(all, "`"+s.env+"`")
	}
	if s.file {
		all = append(all, "`"+s.env+"_FILE`")
	}
	if s.flag != "" {
		all = append(all, "`--"+s.flag+"`")
	}
	return strings.Join(all, "<br>")
}
