package console

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"

	"github.com/grantkeeper/grantkeeper/page"
)

//go:embed assets/console.css
var consoleStyle []byte

// assets are what pages fetch, the style, the icon and the script of the pages for people,
// and their paths, which have the hash of the content.
type assets struct {
	style, icon, script             []byte
	stylePath, iconPath, scriptPath string
}

func newAssets() assets {
	a := assets{style: append(page.Stylesheet(), consoleStyle...), icon: page.Icon(), script: page.ZoneScript()}
	a.stylePath = "/assets/console." + shortHash(a.style) + ".css"
	a.scriptPath = "/assets/zone." + shortHash(a.script) + ".js"
	a.iconPath = "/assets/mark." + shortHash(a.icon) + ".svg"
	return a
}

func shortHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// asset serves them by their paths with the hash, to everybody.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "/assets/"
	kind, content := "text/css; charset=utf-8", s.assets.style
	switch r.URL.Path {
	case s.assets.stylePath:
	case s.assets.iconPath:
		kind, content = "image/svg+xml", s.assets.icon
	case s.assets.scriptPath:
		kind, content = "text/javascript; charset=utf-8", s.assets.script
	default:
		s.refuse(w, s.API.NewCall(w, r), errNoPage)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(content)
}
