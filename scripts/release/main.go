// Release makes, from binaries that are in a folder, everything else of a release
// beside them: packages for Debian, an image of containers, the Helm chart, a bill of
// materials, a statement of provenance and the check sums of all. The same binaries
// and source give the same bytes, wherever and whenever it runs. scripts/release.sh
// builds the binaries and calls it.
package main

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const repository = "https://github.com/grantkeeper/grantkeeper"

// architectures are those that Linux has packages and images for.
var architectures = []string{"amd64", "arm64"}

// A release is what its files are made from, beside the binaries.
type release struct {
	version   string // Semantic Versioning, without "v" and without build metadata
	commit    string // 40 hex digits
	toolchain string // "1.26.8"
	when      time.Time
	source    string // the folder of the source
	goSum     []byte
	licenses  []byte
}

var (
	versionForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z]+(\.[0-9a-z]+)*)?$`)
	binaryForm  = regexp.MustCompile(`^(grantkeeper|grantkeeper-connect)-(\d.*)-(linux|darwin|windows)-([a-z0-9]+)(?:\.exe)?$`)
	commitForm  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func main() {
	log.SetFlags(0)
	var r release
	flag.StringVar(&r.version, "version", "", "such as 1.2.3 or 1.3.0-rc.1")
	flag.StringVar(&r.commit, "commit", "", "that the binaries were built from")
	flag.StringVar(&r.source, "source", ".", "the `folder` of the source")
	epoch := flag.Int64("epoch", 0, "the commit's time, in Unix `seconds`")
	folder := flag.String("folder", "", "where the binaries are, and the rest goes")
	flag.Parse()
	r.when = time.Unix(*epoch, 0).UTC()
	if err := r.pack(*folder); err != nil {
		log.Fatal(err)
	}
}

// pack writes everything into the folder. It refuses one that holds anything but binaries.
func (r release) pack(folder string) (err error) {
	switch {
	case !versionForm.MatchString(r.version):
		return fmt.Errorf("version %q is not of the form 1.2.3 or 1.2.3-rc.1", r.version)
	case !commitForm.MatchString(r.commit):
		return fmt.Errorf("commit %q is not 40 hex digits", r.commit)
	case r.when.Unix() <= 0:
		return fmt.Errorf("no time of the commit")
	}
	if r.goSum, err = os.ReadFile(filepath.Join(r.source, "go.sum")); err != nil {
		return err
	}
	modules := map[string]bool{} // of all binaries, path@version
	binaries, linux := map[string][]byte{}, map[string][]byte{}
	there, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	prefix := "grantkeeper-" + r.version + "-"
	for _, f := range there {
		m := binaryForm.FindStringSubmatch(f.Name())
		if m == nil || m[2] != r.version {
			return fmt.Errorf("%s is no binary of %s", f.Name(), r.version)
		}
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(b))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		toolchain := strings.TrimPrefix(info.GoVersion, "go")
		if r.toolchain != "" && r.toolchain != toolchain {
			return fmt.Errorf("%s was built by go%s, others by go%s", f.Name(), toolchain, r.toolchain)
		}
		r.toolchain = toolchain
		for _, m := range info.Deps {
			modules[used(m).Path+"@"+used(m).Version] = true
		}
		binaries[f.Name()] = b
		if m[1] == "grantkeeper" && m[3] == "linux" {
			linux[m[4]] = b
		}
	}

	if r.licenses, err = licenses(r, slices.Collect(maps.Keys(modules))); err != nil {
		return err
	}
	made := map[string][]byte{prefix + "licenses.txt": r.licenses}
	for _, arch := range architectures {
		if linux[arch] == nil {
			return fmt.Errorf("no %slinux-%s", prefix, arch)
		}
		if made["grantkeeper_"+r.version+"_"+arch+".deb"], err = debian(r, arch, linux[arch]); err != nil {
			return err
		}
	}
	if made[prefix+"image.tar"], err = image(r, linux); err != nil {
		return err
	}
	if made["grantkeeper-"+r.version+".tgz"], err = chart(r); err != nil {
		return err
	}
	if made[prefix+"sbom.spdx.json"], err = sbom(r, binaries); err != nil {
		return err
	}
	all := maps.Clone(binaries)
	maps.Copy(all, made)
	statement, err := provenance(r, all)
	if err != nil {
		return err
	}
	made[prefix+"provenance.json"], all[prefix+"provenance.json"] = statement, statement
	var sums bytes.Buffer
	for _, name := range sorted(all) {
		fmt.Fprintf(&sums, "%s  %s\n", sum(all[name]), name)
	}
	made["SHA256SUMS"] = sums.Bytes()
	for _, name := range sorted(made) {
		if err := os.WriteFile(filepath.Join(folder, name), made[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart is contrib/helm/grantkeeper as "helm package" packs it, with the release's version.
func chart(r release) ([]byte, error) {
	root := os.DirFS(filepath.Join(r.source, "contrib", "helm", "grantkeeper"))
	var entries []entry
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			content = chartVersion.ReplaceAll(content, []byte(`$1: "`+r.version+`"`))
		}
		entries = append(entries, entry{name: "grantkeeper/" + name, mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := tarball("", entries, r.when)
	if err != nil {
		return nil, err
	}
	return zipped(b)
}

func sorted(m map[string][]byte) []string { return slices.Sorted(maps.Keys(m)) }
