package config

import (
	"strings"
	"syscall"
	"testing"
)

// A key of the hand-off is read once, whichever kind it is: of two reads the second could
// be of another file.
func TestAssertionKeyIsReadOnce(t *testing.T) {
	for _, text := range []string{strings.Repeat("k", 40), "-----BEGIN PUBLIC KEY-----\n"} {
		name := write(t, "key", text, 0o600)
		watch, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(watch)
		// Two equal events in a row would be one: a close stands between two of these.
		if _, err := syscall.InotifyAddWatch(watch, name, syscall.IN_OPEN|syscall.IN_CLOSE); err != nil {
			t.Fatal(err)
		}
		readAssertionKey(name)
		events := make([]byte, 4096)
		if n, err := syscall.Read(watch, events); err != nil || n != 2*syscall.SizeofInotifyEvent {
			t.Errorf("%q: %d bytes of events, %v; want those of one open and one close", text, n, err)
		}
	}
}
