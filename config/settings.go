package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
)

// A setting is one value of Config, as its field's tags describe it.
type setting struct {
	key     string // in the file, with its table before it
	list    string // key of the list of tables that it stands in; "" when it can come from more than the file
	env     string // "" when the file alone has it
	file    bool   // the environment may name a file with the value, in env + "_FILE"
	flag    string // of serve; "" for none
	secret  string // "url": a password in it is not shown
	meaning string
	field   reflect.StructField
	index   []int // of the field in Config, or in a table of the list
}

// settings lists every value of Config, lists of tables and what is in them
// included, in the order of the struct.
var settings = settingsOf(reflect.TypeFor[Config](), "", "", nil)

func settingsOf(of reflect.Type, prefix, list string, index []int) (all []setting) {
	for _, f := range reflect.VisibleFields(of) {
		at := append(slices.Clone(index), f.Index...)
		key := prefix + f.Tag.Get("toml")
		if isTable(f.Type) {
			all = append(all, settingsOf(f.Type, key+".", list, at)...)
			continue
		}
		env, file := strings.CutSuffix(f.Tag.Get("env"), ",file")
		if env != "" {
			env = EnvironmentPrefix + env
		}
		all = append(all, setting{key: key, list: list, env: env, file: file, flag: f.Tag.Get("flag"),
			secret: f.Tag.Get("secret"), meaning: f.Tag.Get("doc"), field: f, index: at})
		if isTables(f.Type) {
			all = append(all, settingsOf(f.Type.Elem(), key+".", key, nil)...)
		}
	}
	return all
}

// Flags gives the flags of serve that a setting has, each with the setting's key.
func Flags() map[string]string {
	flags := map[string]string{}
	for _, s := range settings {
		if s.flag != "" {
			flags[s.flag] = s.key
		}
	}
	return flags
}

// EnvironmentPrefix begins the name of every variable that is read.
const EnvironmentPrefix = "GRANTKEEPER_"

func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isTables(t reflect.Type) bool { return t.Kind() == reflect.Slice && isTable(t.Elem()) }

// set reads a value from text, as the environment and flags have it: with
// commas between those of a list.
func (s setting) set(c *Config, text string) error {
	v := reflect.ValueOf(c).Elem().FieldByIndex(s.index)
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetInt(int64(n))
	default:
		v.Set(reflect.ValueOf(list(text)))
	}
	return nil
}

// list reads values separated by commas.
func list(v string) []string {
	var all []string
	for one := range strings.SplitSeq(v, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// fileKeys are all keys that a file may have, tables included.
func fileKeys() []string {
	var keys []string
	tables := map[string]bool{}
	for _, s := range settings {
		keys = append(keys, s.key)
		if table, _, ok := strings.Cut(s.key, "."); ok {
			tables[table] = true
		}
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if !slices.Contains(keys, table) {
			keys = append(keys, table)
		}
	}
	return keys
}

// Variables are all that are read.
func Variables() []string {
	known := []string{EnvironmentPrefix + "CONFIG"}
	for _, s := range settings {
		if s.env != "" {
			known = append(known, s.env)
		}
		if s.file {
			known = append(known, s.env+"_FILE")
		}
	}
	return known
}

// readEnvironment gives our variables and refuses one that nothing reads: a
// misspelt setting must not be a silent default. An empty one counts as not
// set.
func readEnvironment(environ []string) (map[string]string, error) {
	known := Variables()
	env, wrong := map[string]string{}, []error{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, EnvironmentPrefix) || value == "" {
			continue
		}
		if !slices.Contains(known, name) {
			wrong = append(wrong, fault.BadConfig(didYouMean(name, known), "environment: unknown variable %s", name))
			continue
		}
		env[name] = value
	}
	return env, fault.Join(wrong)
}

// fromEnvironment gives the value of the setting's variable, or of the file
// that its _FILE names, and the name of the variable.
func (s setting) fromEnvironment(env map[string]string) (value, name string, sent bool, err error) {
	if s.env == "" {
		return "", "", false, nil
	}
	value, sent = env[s.env]
	path, sentFile := env[s.env+"_FILE"]
	switch {
	case !s.file || !sentFile:
		return value, s.env, sent, nil
	case sent:
		return "", "", false, fault.BadConfig("unset one of them", "environment: both %s and %s_FILE are set", s.env, s.env)
	}
	b, err := readRegular(path, mostSecret)
	if err != nil {
		return "", "", false, fault.BadConfig("correct the path", "%s_FILE: %v", s.env, err)
	}
	return strings.TrimSpace(string(b)), s.env + "_FILE", true, nil
}

// didYouMean names the known name that is nearest to a wrong one, which may
// stand in the wrong table, or says where all are.
func didYouMean(wrong string, known []string) string {
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	best, at := "", len(last(wrong))/2+2
	for _, k := range known {
		if d := min(distance(wrong, k), 1+distance(last(wrong), last(k))); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return "all that there are: grantkeeper config reference"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// distance is the least number of single bytes to insert, delete or replace
// that turns a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
