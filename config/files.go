package config

import (
	"errors"
	"os"
)

// WriteNew writes a file that must not exist yet. Where that fails there is none: an empty
// one would be taken for one that was made.
func WriteNew(name string, mode os.FileMode, content []byte) error {
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
