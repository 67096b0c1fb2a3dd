package signin

import (
	"fmt"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quiet is the empty margin around a QR code, in modules (ISO/IEC 18004 section
// 5.3.8).
const quiet = 4

// A picture is a QR code for the camera of another device. Those who cannot see
// it have what it says beside it, in text.
type picture struct {
	Side int    // with the margin, in modules
	Path string // of the dark modules, as an SVG path
}

// pictureOf gives nil for what no QR code can hold.
func pictureOf(text string) *picture {
	code, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return nil
	}
	var path strings.Builder
	side := code.Bounds().Dx()
	dark := func(x, y int) bool {
		if x >= side {
			return false
		}
		r, _, _, _ := code.At(x, y).RGBA()
		return r == 0
	}
	for y := range side {
		for x := 0; x < side; x++ {
			if begin := x; dark(x, y) {
				for dark(x, y) {
					x++
				}
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", begin+quiet, y+quiet, x-begin, x-begin)
			}
		}
	}
	return &picture{side + 2*quiet, path.String()}
}
