package server

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// Build says what this binary is, of a release; "" is the one of this module that
// it was built with.
func Build(release string) operator.Version {
	return operator.Version{Version: cmp.Or(release, moduleVersion()), Commit: commit(), Go: runtime.Version(), Schema: store.SchemaVersion}
}

const module = "github.com/grantkeeper/grantkeeper"

// moduleVersion is that of this module, or "devel".
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "devel"
}

// released is the commit of a release. Its build sets it with -ldflags and leaves the
// toolchain's own stamp out, which depends on the tags that a clone happens to have.
var released string

// commit is what the binary was built from, or "unknown".
func commit() string {
	if len(released) >= 12 {
		return released[:12]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return revision + changed
}
