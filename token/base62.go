package token

import "encoding/binary"

// Base62 in fixed blocks: 8 bytes are 11 characters, the last 4 bytes are 6.
// One string per value and no big integers, so it is exact and quick.
const (
	alphabet  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	blockText = 11
	blockRest = 6
)

var digits = func() (d [256]byte) {
	for i := range d {
		d[i] = 0xff
	}
	for i := range len(alphabet) {
		d[alphabet[i]] = byte(i)
	}
	return d
}()

// encode appends raw, whose length is 4 over a multiple of 8.
func encode(out, raw []byte) []byte {
	for ; len(raw) >= 8; raw = raw[8:] {
		out = appendBlock(out, binary.BigEndian.Uint64(raw), blockText)
	}
	return appendBlock(out, uint64(binary.BigEndian.Uint32(raw)), blockRest)
}

func appendBlock(out []byte, v uint64, n int) []byte {
	var b [blockText]byte
	for i := n - 1; i >= 0; i-- {
		b[i] = alphabet[v%62]
		v /= 62
	}
	return append(out, b[:n]...)
}

// decode fills raw from s and refuses foreign characters and blocks that no
// value encodes to.
func decode(raw []byte, s string) bool {
	for ; len(raw) >= 8; raw, s = raw[8:], s[blockText:] {
		v, ok := readBlock(s[:blockText])
		if !ok {
			return false
		}
		binary.BigEndian.PutUint64(raw, v)
	}
	v, ok := readBlock(s[:blockRest])
	if !ok || v > 1<<32-1 {
		return false
	}
	binary.BigEndian.PutUint32(raw, uint32(v))
	return true
}

func readBlock(s string) (v uint64, ok bool) {
	for i := range len(s) {
		d := uint64(digits[s[i]])
		if d == 0xff || v > (1<<64-1-d)/62 {
			return 0, false
		}
		v = v*62 + d
	}
	return v, true
}
