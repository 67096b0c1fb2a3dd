// Package configtest writes configurations for tests.
package configtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
)

// GatewayKey is the secret of the gateway nginx, and in capitals of billing.
const GatewayKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"

// Write writes a file into a folder of its own, and gives its name.
func Write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return at
}

// Refused gives an error as a command prints it, and its exit code. It fails of
// an error that has none.
func Refused(t *testing.T, err error) (text string, code int) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("not refused with an exit code: %v", err)
	}
	return e.What + "\n" + e.Hint, e.Code
}

// File writes a configuration that passes, with the files that it names.
func File(t *testing.T) string {
	t.Helper()
	return Write(t, "grantkeeper.toml", fmt.Sprintf(`base_urls = ["https://app.example"]
secret_key_file = %q
operator.password_file = %q
http.trusted_proxies = ["10.0.0.0/8"]
limiter.networks = [{cidr = "192.0.2.0/24", multiple = 10}]
api.limits = [{organization = "nordlys", rate = "6000/10m"}]
clients = [{id = "connector", name = "Connector", redirect_uris = ["https://assistant.example/cb"]}]
[gateway]
listen = "127.0.0.1:8082"
keys = [
	{name = "nginx", key_file = %q, scopes = ["forward-auth"]},
	{name = "billing", key_file = %q, scopes = ["decisions", "forward-auth", "directory"]},
]
`, Write(t, "secret.key", strings.Repeat("0f1e2d3c", 8)+"\n", 0o600), Write(t, "password", "long enough\n", 0o600),
		Write(t, "nginx.key", GatewayKey+"\n", 0o600), Write(t, "billing.key", strings.ToUpper(GatewayKey), 0o400)), 0o644)
}
