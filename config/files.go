package config

import (
	"errors"
	"os"
)

// WriteNew writes a file that must not exist yet.
func WriteNew(name string, mode os.FileMode, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil { // whatever the umask is
		f.Close()
		return err
	}
	if _, err := f.Write(content); err != nil {
		f.Close()
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
