package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	_ "embed"
)

var (
	//go:embed deb/postinst
	postinst []byte
	//go:embed deb/prerm
	prerm []byte
	//go:embed deb/postrm
	postrm []byte
	//go:embed deb/control
	controlText string
	control     = template.Must(template.New("control").Parse(controlText))
)

// debian is a package of the binary for architecture arch, as deb(5) has it. The
// units are those of contrib/systemd. It has no conffiles: what is in
// /etc/grantkeeper was written by "grantkeeper init", and the package leaves it alone.
func debian(r release, arch string, binary []byte) ([]byte, error) {
	entries := []entry{
		{name: "usr/bin/grantkeeper", mode: 0o755, content: binary},
		// postinst gives it to the service's user.
		{name: "etc/grantkeeper/", mode: 0o750},
		{name: "usr/share/doc/grantkeeper/licenses.txt", mode: 0o644, content: r.licenses},
	}
	docs, err := files(map[string]string{
		"usr/share/doc/grantkeeper/copyright":    r.source + "/LICENSE",
		"usr/share/doc/grantkeeper/CHANGELOG.md": r.source + "/CHANGELOG.md",
	})
	if err != nil {
		return nil, err
	}
	units, err := files(map[string]string{
		"usr/lib/systemd/system/grantkeeper.service":        r.source + "/contrib/systemd/grantkeeper.service",
		"usr/lib/systemd/system/grantkeeper-backup.service": r.source + "/contrib/systemd/grantkeeper-backup.service",
		"usr/lib/systemd/system/grantkeeper-backup.timer":   r.source + "/contrib/systemd/grantkeeper-backup.timer",
	})
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		// What stands before it says how to install it by hand.
		_, unit, found := bytes.Cut(u.content, []byte("[Unit]\n"))
		if !found {
			return nil, fmt.Errorf("%s has no [Unit]", u.name)
		}
		u.content = bytes.ReplaceAll(append([]byte("[Unit]\n"), unit...), []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		entries = append(entries, u)
	}
	entries = append(entries, docs...)
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })

	var sums, head bytes.Buffer
	size := 0 // KiB, each file rounded up
	for _, e := range entries {
		size += (len(e.content) + 1023) / 1024
		if !strings.HasSuffix(e.name, "/") {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(e.content), e.name) // what dpkg --verify reads
		}
	}
	version := strings.Replace(r.version, "-", "~", 1) // 1.0.0~rc.1 is older than 1.0.0
	if err := control.Execute(&head, map[string]any{"Version": version, "Arch": arch, "Size": size}); err != nil {
		return nil, err
	}
	data, err := tarball("./", append(entries, entry{name: "", mode: 0o755}), r.when)
	if err != nil {
		return nil, err
	}
	about, err := tarball("./", []entry{
		{name: "control", mode: 0o644, content: head.Bytes()},
		{name: "md5sums", mode: 0o644, content: sums.Bytes()},
		{name: "postinst", mode: 0o755, content: postinst},
		{name: "prerm", mode: 0o755, content: prerm},
		{name: "postrm", mode: 0o755, content: postrm},
	}, r.when)
	if err != nil {
		return nil, err
	}
	if data, err = zipped(data); err != nil {
		return nil, err
	}
	if about, err = zipped(about); err != nil {
		return nil, err
	}

	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	member := func(name string, content []byte, when time.Time) {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, when.Unix(), 0, 0, "100644", len(content))
		out.Write(content)
		if len(content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	member("debian-binary", []byte("2.0\n"), r.when)
	member("control.tar.gz", about, r.when)
	member("data.tar.gz", data, r.when)
	return out.Bytes(), nil
}
