package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
