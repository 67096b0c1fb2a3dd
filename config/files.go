package config

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/grantkeeper/grantkeeper/fault"
)

// mostText bounds files of text that settings name, in bytes: certificates, and rules, of which
// ten thousand tools may stand in comments.
const mostText = 32 << 20

// mostConfiguration bounds the configuration, which can have lists of organizations.
const mostConfiguration = 64 << 20

// openRegular opens a file that a setting names, to read. What is no regular file is refused:
// a FIFO keeps whoever reads it waiting, and a device has no end.
func openRegular(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a FIFO, do not wait for who writes it
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readRegular reads such a file of at most so many bytes.
func readRegular(name string, most int64) ([]byte, error) {
	f, _, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// readAll reads a file of at most so many bytes, and closes it.
func readAll(f *os.File, most int64) ([]byte, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("it has more than %d bytes", most)}
	}
	return b, err
}

// readConfiguration reads the configuration, which may come through a pipe: once.
func readConfiguration(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, mostConfiguration)
}

// ReadableAgain refuses a configuration that came through a pipe: whoever reads it again waits.
// It has none to look at where file is "".
func ReadableAgain(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return fault.BadConfig("start with a regular file", "configuration: %s is a pipe, and cannot be read again", file)
	}
	return nil
}

// ReadText reads a file of text that a setting names.
func ReadText(name string) ([]byte, error) { return readRegular(name, mostText) }

// ReadKeyPair reads a certificate chain and its key, PEM.
func ReadKeyPair(certificate, key string) (tls.Certificate, error) {
	chain, err := ReadText(certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := ReadText(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, secret)
}

// WriteNew writes a file that must not exist yet, and is there for good when it returns. Where that
// fails there is none: an empty one would be taken for one that was made.
func WriteNew(name string, mode fs.FileMode, content []byte) error {
	err := writeFile(name, mode, content)
	if err == nil {
		SyncFolder(filepath.Dir(name))
	}
	return err
}

func writeFile(name string, mode fs.FileMode, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = f.Chmod(mode); err == nil { // whatever the umask is
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}

// SyncFolder has what was put into a folder stay there when the power fails: a key that has sealed
// tokens is not to be gone with it. Where folders cannot be synchronized it stays without.
func SyncFolder(name string) { syncFolder(name) }

var syncFolder = func(name string) {
	if f, err := os.Open(name); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// Replace puts a file in the place of the one that is there, if any: that one, or the whole
// new one, is there at any time.
func Replace(name string, mode fs.FileMode, content []byte) error {
	return writeBeside(name, mode, content, os.Rename)
}

// writeBeside writes a file beside its place, where put brings it once it is on disk. None is
// left beside it.
func writeBeside(name string, mode fs.FileMode, content []byte, put func(part, name string) error) error {
	part := name + "." + rand.Text()
	err := writeFile(part, mode, content)
	if err == nil {
		err = put(part, name)
		os.Remove(part) // unless it is in its place
		SyncFolder(filepath.Dir(name))
	}
	return err
}
