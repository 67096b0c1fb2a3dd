package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

var madeIn string // the folder of the release that the tests share

func TestMain(m *testing.M) {
	var err error
	if madeIn, err = os.MkdirTemp("", "release"); err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	if err := os.RemoveAll(madeIn); err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

// packed is a release of small binaries, which are this program and not the server. It
// is only to be read.
func packed(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(madeIn, "folder")
	if _, err := os.Stat(filepath.Join(folder, "SHA256SUMS")); err == nil {
		return folder
	}
	program := filepath.Join(madeIn, "program")
	run(t, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", program, ".")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := read(t, program)
	for _, name := range []string{"grantkeeper-1.2.3-rc.1-linux-amd64", "grantkeeper-1.2.3-rc.1-linux-arm64", "grantkeeper-connect-1.2.3-rc.1-windows-amd64.exe"} {
		// Bytes behind its end make each another one.
		write(t, filepath.Join(folder, name), append(slices.Clip(binary), name...), 0o755)
	}
	pack(t, folder)
	return folder
}

// copied is the same in a folder of the test's own.
func copied(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(packed(t))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// pack runs this program as make release does: compiled without the race detector,
// under which to compress takes ten times as long.
func pack(t *testing.T, folder string) {
	t.Helper()
	run(t, filepath.Join(madeIn, "program"), "-version", "1.2.3-rc.1", "-commit", testCommit, "-epoch", "1790000001", "-source", "../..", "-folder", folder)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, b []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, b, mode); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// names are those of the files in a folder.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

// The same binaries are the same release, at another time and in another place.
func TestTheSameBytes(t *testing.T) {
	folder, again := packed(t), t.TempDir()
	for _, name := range names(t, folder) {
		if binaryForm.MatchString(name) {
			write(t, filepath.Join(again, name), read(t, filepath.Join(folder, name)), 0o600)
		}
	}
	t.Setenv("TZ", "Asia/Kathmandu")
	pack(t, again)
	if got, want := names(t, again), names(t, folder); !slices.Equal(got, want) || len(got) != 11 {
		t.Fatalf("%q and %q", got, want)
	}
	for _, name := range names(t, folder) {
		if !bytes.Equal(read(t, filepath.Join(again, name)), read(t, filepath.Join(folder, name))) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	good := release{version: "1.2.3", commit: testCommit, when: time.Unix(1, 0), source: "../.."}
	tests := []struct {
		name, want string
		change     func(*release)
		file       string
	}{
		{"no version", "version", func(r *release) { r.version = "" }, ""},
		{"a version with metadata, which no tag of an image has", "version", func(r *release) { r.version = "1.2.3+x" }, ""},
		{"half a commit", "commit", func(r *release) { r.commit = "0123456" }, ""},
		{"no time", "no time", func(r *release) { r.when = time.Unix(0, 0) }, ""},
		{"a stray file", "notes is no binary", func(*release) {}, "notes"},
		{"no program", "grantkeeper-1.2.3-linux-amd64", func(*release) {}, "grantkeeper-1.2.3-linux-amd64"},
		{"nothing", "no grantkeeper-1.2.3-linux-amd64", func(*release) {}, ""},
	}
	for _, tt := range tests {
		folder, r := t.TempDir(), good
		if tt.file != "" {
			write(t, filepath.Join(folder, tt.file), []byte("text"), 0o644)
		}
		before := names(t, folder)
		tt.change(&r)
		if err := r.pack(folder); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := names(t, folder); !slices.Equal(got, before) {
			t.Errorf("%s: left %q", tt.name, got)
		}
	}
}

// dpkg reads the package, and it has these files, with these rights, all root's.
func TestDebianPackage(t *testing.T) {
	folder := packed(t)
	file := filepath.Join(folder, "grantkeeper_1.2.3-rc.1_arm64.deb")
	list := regexp.MustCompile(`(?m)^(\S+) (\S+) .* (\./\S*)$`).FindAllStringSubmatch(run(t, "dpkg-deb", "--contents", file), -1)
	got := map[string]string{}
	for _, m := range list {
		got[m[3]] = m[1] + " " + m[2]
	}
	want := map[string]string{
		"./usr/bin/grantkeeper":                               "-rwxr-xr-x root/root",
		"./etc/grantkeeper/":                                  "drwxr-x--- root/root",
		"./usr/lib/systemd/system/grantkeeper.service":        "-rw-r--r-- root/root",
		"./usr/lib/systemd/system/grantkeeper-backup.service": "-rw-r--r-- root/root",
		"./usr/lib/systemd/system/grantkeeper-backup.timer":   "-rw-r--r-- root/root",
		"./usr/share/doc/grantkeeper/copyright":               "-rw-r--r-- root/root",
		"./usr/share/doc/grantkeeper/CHANGELOG.md":            "-rw-r--r-- root/root",
		"./usr/share/doc/grantkeeper/licenses.txt":            "-rw-r--r-- root/root",
	}
	for _, dir := range strings.Fields("./ ./etc/ ./usr/ ./usr/bin/ ./usr/lib/ ./usr/lib/systemd/ ./usr/lib/systemd/system/ ./usr/share/ ./usr/share/doc/ ./usr/share/doc/grantkeeper/") {
		want[dir] = "drwxr-xr-x root/root"
	}
	if !maps.Equal(got, want) {
		t.Errorf("it has\n%v\nwant\n%v", got, want)
	}
	for field, value := range map[string]string{"Package": "grantkeeper", "Version": "1.2.3~rc.1", "Architecture": "arm64", "Depends": "passwd"} {
		if got := strings.TrimSpace(run(t, "dpkg-deb", "--field", file, field)); got != value {
			t.Errorf("%s is %q, want %q", field, got, value)
		}
	}

	at := t.TempDir()
	run(t, "dpkg-deb", "--extract", file, at)
	run(t, "dpkg-deb", "--control", file, filepath.Join(at, "DEBIAN"))
	if !bytes.Equal(read(t, at+"/usr/bin/grantkeeper"), read(t, filepath.Join(folder, "grantkeeper-1.2.3-rc.1-linux-arm64"))) {
		t.Error("another binary")
	}
	unit := string(read(t, at+"/usr/lib/systemd/system/grantkeeper.service"))
	if !strings.HasPrefix(unit, "[Unit]\n") || !strings.Contains(unit, "\nExecStart=/usr/bin/grantkeeper serve\n") {
		t.Errorf("the unit is\n%s", unit)
	}
	for _, name := range []string{"grantkeeper.service", "grantkeeper-backup.service"} {
		if strings.Contains(string(read(t, at+"/usr/lib/systemd/system/"+name)), "/usr/local/") {
			t.Errorf("%s runs what the package has not", name)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		run(t, "sh", "-n", filepath.Join(at, "DEBIAN", script))
	}
	c := exec.Command("md5sum", "--check", "--strict", "--quiet", "DEBIAN/md5sums")
	c.Dir = at
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("md5sums: %v\n%s", err, out)
	}
}

// untar returns the files of a tar, by their names, and the headers of all in it.
func untar(t *testing.T, b []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	files, headers := map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		if headers[h.Name] = h; h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The layout leads from its index to every blob, each under its own hash, and the
// image runs the binary as nobody's user.
func TestImage(t *testing.T) {
	folder := packed(t)
	files, _ := untar(t, read(t, filepath.Join(folder, "grantkeeper-1.2.3-rc.1-image.tar")))
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", got)
	}
	blobs := map[string]bool{}
	follow := func(d descriptor) []byte {
		t.Helper()
		name := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
		b, ok := files[name]
		if !ok || "sha256:"+sum(b) != d.Digest || len(b) != d.Size {
			t.Fatalf("%+v is not there, or another", d)
		}
		blobs[name] = true
		return b
	}
	decode := func(b []byte, v any) {
		t.Helper()
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatal(err)
		}
	}
	var top, index struct{ Manifests []descriptor }
	decode(files["index.json"], &top)
	decode(follow(top.Manifests[0]), &index)
	if len(top.Manifests) != 1 || len(index.Manifests) != 2 {
		t.Fatalf("%+v and %+v", top, index)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		var config struct {
			OS, Architecture string
			RootFS           struct {
				DiffIDs []string `json:"diff_ids"`
			}
			Config struct {
				User            string
				Entrypoint, Cmd []string
			}
		}
		if got := index.Manifests[i].Platform; got["architecture"] != arch || got["os"] != "linux" {
			t.Errorf("platform %v", got)
		}
		decode(follow(index.Manifests[i]), &manifest)
		decode(follow(manifest.Config), &config)
		z, err := gzip.NewReader(bytes.NewReader(follow(manifest.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if got := config.RootFS.DiffIDs; len(manifest.Layers) != 1 || !slices.Equal(got, []string{"sha256:" + sum(layer)}) {
			t.Errorf("%d layers, diff_ids %q", len(manifest.Layers), got)
		}
		if c := config.Config; config.OS != "linux" || config.Architecture != arch || c.User != "10001:10001" || !slices.Equal(slices.Concat(c.Entrypoint, c.Cmd), []string{"/grantkeeper", "serve"}) {
			t.Errorf("%s: %+v", arch, config)
		}
		inside, headers := untar(t, layer)
		if !bytes.Equal(inside["grantkeeper"], read(t, filepath.Join(folder, "grantkeeper-1.2.3-rc.1-linux-"+arch))) {
			t.Error("another binary")
		}
		if got := bytes.Count(inside["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")); got < 50 {
			t.Errorf("%d roots of trust", got)
		}
		for name, want := range map[string]string{
			"grantkeeper": "755 0:0", "etc/grantkeeper/": "755 10001:10001", "var/lib/grantkeeper/": "700 10001:10001",
			"etc/ssl/certs/ca-certificates.crt": "644 0:0", "etc/": "755 0:0", "var/lib/": "755 0:0",
		} {
			h := headers[name]
			if h == nil {
				t.Errorf("no %s", name)
			} else if got := fmt.Sprintf("%o %d:%d", h.Mode, h.Uid, h.Gid); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		if !bytes.Contains(inside["licenses.txt"], []byte("\n== golang.org/x/crypto/x509roots/fallback@v")) || len(inside) != 3 {
			t.Errorf("%d files in the layer, or another licence", len(inside))
		}
	}
	if len(files) != len(blobs)+2 {
		t.Errorf("%d files, %d of them blobs that something leads to", len(files), len(blobs))
	}
}

// The bill of materials names every module that the toolchain lists for a build, with
// the hash of go.sum, in a document that has what SPDX 2.3 demands.
func TestBillOfMaterials(t *testing.T) {
	folder := packed(t)
	var bill struct {
		SPDXVersion, DataLicense, SPDXID, Name, DocumentNamespace string
		CreationInfo                                              struct{ Created string }
		Packages                                                  []spdxPackage
		Relationships                                             []spdxRelationship
	}
	if err := json.Unmarshal(read(t, filepath.Join(folder, "grantkeeper-1.2.3-rc.1-sbom.spdx.json")), &bill); err != nil {
		t.Fatal(err)
	}
	if bill.SPDXVersion != "SPDX-2.3" || bill.DataLicense != "CC0-1.0" || bill.SPDXID != "SPDXRef-DOCUMENT" || bill.Name == "" || !strings.HasPrefix(bill.DocumentNamespace, "https://") || bill.CreationInfo.Created != "2026-09-21T14:13:21Z" {
		t.Errorf("%+v", bill)
	}
	byID, form := map[string]spdxPackage{}, regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	for _, p := range bill.Packages {
		if _, twice := byID[p.ID]; twice || !form.MatchString(p.ID) {
			t.Errorf("ID %s", p.ID)
		}
		byID[p.ID] = p
	}
	linked := run(t, "go", "list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Sum}}{{end}}{{end}}`, ".")
	want := slices.Compact(slices.Sorted(slices.Values(strings.FieldsFunc(linked, func(c rune) bool { return c == '\n' }))))
	if len(want) == 0 {
		t.Fatal("no module to look for")
	}
	binaries := 0
	for _, p := range bill.Packages {
		if p.Purpose != "APPLICATION" {
			continue
		}
		binaries++
		if got := p.Checksums[0].Value; got != sum(read(t, filepath.Join(folder, p.FileName))) {
			t.Errorf("%s: %s", p.FileName, got)
		}
		var got []string
		for _, r := range bill.Relationships {
			if r.From != p.ID || r.Type != "DEPENDS_ON" {
				continue
			}
			if m := byID[r.To]; m.Name != "stdlib" {
				got = append(got, m.Name+"@"+m.Version+" "+strings.TrimPrefix(m.Comment, "go.sum: "))
			} else if m.Version == "" || strings.HasPrefix(m.Version, "go") {
				t.Errorf("standard library %q", m.Version)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", p.FileName, got, want)
		}
	}
	if binaries != 3 {
		t.Errorf("%d binaries", binaries)
	}
}

// verify runs the script that strangers run, and returns its last line.
func verify(t *testing.T, folder string, args ...string) (last string, good bool) {
	t.Helper()
	out, err := exec.Command("bash", append(append([]string{"../release-verify.sh"}, args...), folder)...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], err == nil
}

// signed signs the folder's sums with a new key, and returns the file of signers.
func signed(t *testing.T, folder string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	sums := filepath.Join(folder, "SHA256SUMS")
	if err := os.RemoveAll(sums + ".sig"); err != nil {
		t.Fatal(err)
	}
	run(t, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "grantkeeper-release", sums)
	signers := key + ".signers"
	write(t, signers, append([]byte(`release@grantkeeper namespaces="grantkeeper-release" `), read(t, key+".pub")...), 0o644)
	return signers
}

// What was released passes; with one byte of anything changed it does not, nor with a
// file more or less, nor signed by another key.
func TestVerifyNoticesEachByte(t *testing.T) {
	folder := copied(t)
	signers := signed(t, folder)
	if last, good := verify(t, folder, "--signers", signers); !good || !strings.HasPrefix(last, "ok ") {
		t.Fatalf("the release itself: %s", last)
	}
	if last, good := verify(t, folder, "--unsigned"); !good || !strings.HasPrefix(last, "NOT CHECKED") {
		t.Errorf("unsigned: %s", last)
	}
	for _, name := range names(t, folder) {
		file := filepath.Join(folder, name)
		whole := read(t, file)
		places := []int{0, len(whole) / 2, len(whole) - 1}
		if name == "SHA256SUMS.sig" {
			places = nil
			for at := 0; at < len(whole); at += 29 {
				places = append(places, at)
			}
			places = append(places, bytes.IndexByte(whole, '\n'), len(whole)-1)
		}
		for _, at := range places {
			changed := bytes.Clone(whole)
			changed[at] ^= 1
			write(t, file, changed, 0o644)
			if last, good := verify(t, folder, "--signers", signers); good || !strings.HasPrefix(last, "NOT AS RELEASED") {
				t.Errorf("%s with byte %d changed: %s", name, at, last)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if last, good := verify(t, folder, "--signers", signers); good {
			t.Errorf("without %s: %s", name, last)
		}
		write(t, file, whole, 0o644)
	}
	write(t, filepath.Join(folder, "grantkeeper-more"), nil, 0o644)
	if last, good := verify(t, folder, "--signers", signers); good {
		t.Errorf("with a file more: %s", last)
	}
	if err := os.Remove(filepath.Join(folder, "grantkeeper-more")); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(folder, "grantkeeper-1.2.3-rc.1.tgz")
	whole, elsewhere := read(t, chart), filepath.Join(t.TempDir(), "chart")
	write(t, elsewhere, whole, 0o644)
	if err := errors.Join(os.Remove(chart), os.Symlink(elsewhere, chart)); err != nil {
		t.Fatal(err)
	}
	if last, good := verify(t, folder, "--signers", signers); good || !strings.Contains(last, "not a plain file: grantkeeper-1.2.3-rc.1.tgz") {
		t.Errorf("with a link: %s", last)
	}
	if err := os.Remove(chart); err != nil {
		t.Fatal(err)
	}
	write(t, chart, whole, 0o644)
	mine := read(t, filepath.Join(folder, "SHA256SUMS.sig"))
	other := signed(t, folder) // whose own signature gives way to the first
	write(t, filepath.Join(folder, "SHA256SUMS.sig"), mine, 0o644)
	if last, good := verify(t, folder, "--signers", other); good {
		t.Errorf("signed by another key: %s", last)
	}
}

// What is checked is the folder that was named, whatever else is called so, and what is not
// there is said.
func TestVerifyNamesWhatIsMissing(t *testing.T) {
	folder, empty := copied(t), t.TempDir()
	name := filepath.Base(folder)
	if err := os.Mkdir(filepath.Join(empty, name), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../release-verify.sh")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", script, "--unsigned", name)
	c.Dir, c.Env = filepath.Dir(folder), append(os.Environ(), "CDPATH="+empty)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("another folder: %s", out)
	}
	statement := filepath.Join(folder, "grantkeeper-1.2.3-rc.1-provenance.json")
	sums := filepath.Join(folder, "SHA256SUMS")
	write(t, sums, regexp.MustCompile(`(?m)^.*provenance\.json\n`).ReplaceAll(read(t, sums), nil), 0o644)
	if err := os.Remove(statement); err != nil {
		t.Fatal(err)
	}
	if last, good := verify(t, folder, "--unsigned"); good || !strings.Contains(last, "no statement of provenance") {
		t.Error(last)
	}
	if err := os.Remove(sums); err != nil {
		t.Fatal(err)
	}
	if last, good := verify(t, folder, "--unsigned"); good || !strings.Contains(last, "no SHA256SUMS") {
		t.Error(last)
	}
}

// Neither what go env -w has written nor what git is told to overlook gets into a release.
func TestReleaseGoesByTheCommitAlone(t *testing.T) {
	source, tools := t.TempDir(), t.TempDir()
	for _, name := range []string{"scripts", "cmd/grantkeeper"} {
		if err := os.MkdirAll(filepath.Join(source, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(source, "scripts/release.sh"), read(t, "../release.sh"), 0o644)
	write(t, filepath.Join(source, "cmd/grantkeeper/version.go"), []byte(`var version = "1.2.3"`), 0o644)
	write(t, filepath.Join(source, ".gitignore"), []byte("/out/\n"), 0o644)
	git := func(args ...string) {
		t.Helper()
		run(t, "git", append([]string{"-C", source, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	git("config", "status.showUntrackedFiles", "no")
	// It says under what it would build, and builds nothing.
	write(t, filepath.Join(tools, "go"), []byte("#!/bin/sh\n[ \"$1\" = env ] && exit\necho \"$GOENV|$GOEXPERIMENT|$GOFLAGS|$GOOS|$1\" >>"+filepath.Join(tools, "log")+"\n: >"+filepath.Join(source, "out/SHA256SUMS")+"\n"), 0o755)
	release := func() (string, error) {
		c := exec.Command("bash", filepath.Join(source, "scripts/release.sh"), filepath.Join(source, "out"))
		c.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "GOOS=plan9", "GOFLAGS=-race", "GOEXPERIMENT=jsonv2", "GIT_DIR="+tools)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := release(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := string(read(t, filepath.Join(tools, "log")))
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "off||-trimpath -buildvcs=false -mod=readonly|") || strings.Contains(line, "plan9") {
			t.Errorf("built under %s", line)
		}
	}
	if !strings.HasSuffix(said, "||run\n") {
		t.Errorf("got %s", said)
	}
	write(t, filepath.Join(source, "cmd/grantkeeper/more.go"), nil, 0o644)
	if out, err := release(); err == nil || !strings.Contains(out, "cmd/grantkeeper/more.go") {
		t.Errorf("with a file that is in no commit: %v\n%s", err, out)
	}
}

// Whoever signs what does not belong together is found out as well: each file is
// looked into, and not only its sum.
func TestVerifyLooksInside(t *testing.T) {
	folder := copied(t)
	prefix := "grantkeeper-1.2.3-rc.1-"
	replace := func(old, by string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("no %q", old)
			}
			return bytes.Replace(b, []byte(old), []byte(by), 1)
		}
	}
	tests := []struct {
		file   string
		change func([]byte) []byte
		want   string
	}{
		{prefix + "linux-amd64", func(b []byte) []byte { return append(b, 'x') }, "about other binaries"},
		{"grantkeeper_1.2.3-rc.1_amd64.deb", func([]byte) []byte { return read(t, filepath.Join(folder, "grantkeeper_1.2.3-rc.1_arm64.deb")) }, "of another version"},
		{prefix + "image.tar", replace("10001:10001", "0:0        "), "image.tar: "},
		{prefix + "sbom.spdx.json", replace("golang.org/x/crypto/x509roots/fallback", "golang.org/x/crypto/x509roots/fallbacc"), "other modules"},
		{prefix + "licenses.txt", replace("\n== golang.org/x/crypto/x509roots", "\n== golang.org/x/cripto/x509roots"), "other modules"},
		{"grantkeeper-1.2.3-rc.1.tgz", func([]byte) []byte { return nil }, "could not be read"},
	}
	for _, tt := range tests {
		whole, sums := read(t, filepath.Join(folder, tt.file)), read(t, filepath.Join(folder, "SHA256SUMS"))
		statement := read(t, filepath.Join(folder, prefix+"provenance.json"))
		changed := tt.change(bytes.Clone(whole))
		write(t, filepath.Join(folder, tt.file), changed, 0o644)
		// Its sum is right again, in the statement and in the list.
		told := bytes.ReplaceAll(statement, []byte(sum(whole)), []byte(sum(changed)))
		write(t, filepath.Join(folder, prefix+"provenance.json"), told, 0o644)
		listed := bytes.ReplaceAll(bytes.ReplaceAll(sums, []byte(sum(whole)), []byte(sum(changed))), []byte(sum(statement)), []byte(sum(told)))
		write(t, filepath.Join(folder, "SHA256SUMS"), listed, 0o644)
		if last, good := verify(t, folder, "--unsigned"); good || !strings.Contains(last, tt.want) {
			t.Errorf("%s: %s", tt.file, last)
		}
		write(t, filepath.Join(folder, tt.file), whole, 0o644)
		write(t, filepath.Join(folder, prefix+"provenance.json"), statement, 0o644)
		write(t, filepath.Join(folder, "SHA256SUMS"), sums, 0o644)
	}
	if last, good := verify(t, folder, "--unsigned"); !good {
		t.Error(last)
	}
}

// make vuln says what a database knows, and never that all is well when it was not asked.
func TestVulnerabilitiesAreAskedFor(t *testing.T) {
	packed(t)
	known := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(known, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, file, []byte(text), 0o644)
	}
	const module, id, day = "golang.org/x/crypto/x509roots/fallback", "GO-2099-0001", "2026-01-01T00:00:00Z"
	put("index/db.json", `{"modified":"`+day+`"}`)
	put("ID/"+id+".json", `{"schema_version":"1.3.1","id":"`+id+`","modified":"`+day+`","published":"`+day+`","summary":"planted","details":"planted",`+
		`"affected":[{"package":{"name":"`+module+`","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],`+
		`"ecosystem_specific":{"imports":[{"path":"`+module+`/bundle"}]}}],"database_specific":{"url":"https://pkg.go.dev/vuln/`+id+`"}}`)
	tests := []struct {
		database, index string
		status          int
		last            string
	}{
		{"file://" + known, `[{"path":"` + module + `","vulns":[{"id":"` + id + `","modified":"` + day + `"}]}]`, 3, "NOT GOOD: "},
		{"file://" + known, `[]`, 0, "file://" + known + " knows of nothing."},
		{"http://127.0.0.1:9", `[]`, 4, "NOT CHECKED: "},
		{"file://" + known + "/none", `[]`, 4, "NOT CHECKED: "},
	}
	for _, tt := range tests {
		put("index/modules.json", tt.index)
		c := exec.Command("bash", "../vuln.sh", "-mode", "binary", filepath.Join(madeIn, "program"))
		c.Env = append(os.Environ(), "GOVULNDB="+tt.database)
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if got := c.ProcessState.ExitCode(); got != tt.status || !strings.HasPrefix(lines[len(lines)-1], tt.last) {
			t.Errorf("%s with %s: exit code %d, want %d\n%s", tt.database, tt.index, got, tt.status, out)
		}
	}
}

// The forge's workflow runs no code of others but by the hash of a commit.
func TestWorkflowsPinWhatTheyUse(t *testing.T) {
	workflows, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(workflows) == 0 {
		t.Fatal(workflows, err)
	}
	for _, name := range workflows {
		for line := range strings.Lines(string(read(t, name))) {
			if strings.Contains(line, "uses:") && !regexp.MustCompile(`uses: \S+@[0-9a-f]{40}\b`).MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
