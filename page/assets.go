package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// An asset has a name with its hash, so it can be kept for ever.
type assetFile struct {
	content, packed []byte
	kind            string
}

var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".png": "image/png",
}

// An assetSet is what pages fetch, by name with the hash, and the paths of it
// by name without.
type assetSet struct {
	files map[string]assetFile
	paths map[string]string
}

var assets = newAssets(embedded())

func embedded() map[string][]byte {
	files := map[string][]byte{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		if files[e.Name()], err = assetFiles.ReadFile("assets/" + e.Name()); err != nil {
			panic(err) // embedded
		}
	}
	return files
}

func newAssets(files map[string][]byte) *assetSet {
	s := &assetSet{map[string]assetFile{}, map[string]string{}}
	for file, content := range files {
		sum := sha256.Sum256(content)
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		s.files[name] = assetFile{content, packed(content), assetKinds[ext]}
		s.paths[file] = "/assets/" + name
	}
	return s
}

// Stylesheet is the pages' style, for pages of others that are to look alike.
func Stylesheet() []byte { return embedded()["app.css"] }

// Icon is the drawing that stands before the pages' titles, as SVG.
func Icon() []byte { return embedded()["mark.svg"] }

// ZoneScript is the script that tells the server in which time zone the reader is,
// by the cookie zone.
func ZoneScript() []byte { return embedded()["zone.js"] }

// asset serves a file under its name with the hash, and no other name.
func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	f, ok := s.look.Load().assets.files[r.PathValue("file")]
	if !ok {
		s.handle(func(*Visit) error { return ErrNoPage })(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox") // of a drawing opened by itself
	h.Set("Vary", "Accept-Encoding")
	body := f.content
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// acceptsGzip reads Accept-Encoding (RFC 9110 section 12.5.3).
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighed := strings.Cut(weight, "=")
		n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !weighed || err == nil && n > 0
	}
	return false
}

var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func packed(body []byte) []byte {
	var b bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&b)
	z.Write(body) // a bytes.Buffer takes everything
	z.Close()
	return b.Bytes()
}
