package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// An entry is a file of an archive, or a folder where its name ends in "/" or is empty.
type entry struct {
	name     string // relative, with slashes
	mode     int64
	uid, gid int
	content  []byte
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// tarball writes the entries in the order of their names, with prefix before each,
// and every time as when: the same entries are the same bytes. Folders that nobody
// listed come first, root's and 0755.
func tarball(prefix string, entries []entry, when time.Time) ([]byte, error) {
	all := slices.Clone(entries)
	have := map[string]bool{}
	for _, e := range entries {
		if have[e.name] {
			return nil, fmt.Errorf("two entries %s", e.name)
		}
		have[e.name] = true
	}
	for _, e := range entries {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); dir != "." && !have[dir+"/"]; dir = path.Dir(dir) {
			have[dir+"/"] = true
			all = append(all, entry{name: dir + "/", mode: 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })

	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		h := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: prefix + e.name, Mode: e.mode, Uid: e.uid, Gid: e.gid, Size: int64(len(e.content)), ModTime: when}
		if e.uid == 0 && e.gid == 0 {
			h.Uname, h.Gname = "root", "root"
		}
		if e.name == "" || strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipped is b through gzip, with neither name nor time in its header.
func zipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// files reads regular files into entries of mode 0644, by the names that they get.
func files(from map[string]string) (entries []entry, err error) {
	for name, file := range from {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: name, mode: 0o644, content: content})
	}
	return entries, nil
}
