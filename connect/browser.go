package connect

import (
	"os/exec"
	"runtime"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
)

// OpenBrowser has the system open an address, by the program that each has for it.
func OpenBrowser(address string) error {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return fault.CannotOpen("", "%q is no address of a page", address)
	}
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", address}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	c := exec.Command(command[0], command[1:]...)
	if err := c.Start(); err != nil {
		return fault.CannotOpen("", "no browser: %v", err)
	}
	go c.Wait()
	return nil
}
