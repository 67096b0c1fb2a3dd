package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever setting names a file: a FIFO, which would keep whoever opens it waiting, is refused,
// and so is a device, which has no end.
func TestFilesOfSettingsAreRegular(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	regular := write(t, "regular", "x", 0o600)
	named := map[string]func(l *Loaded, name string){
		"secret_key_file":        func(l *Loaded, name string) { l.SecretKeyFile = name },
		"service.key_file":       func(l *Loaded, name string) { l.Service.KeyFile = name },
		"branding.logo_file":     func(l *Loaded, name string) { l.Branding.LogoFile = name },
		"http.tls_cert_file":     func(l *Loaded, name string) { l.HTTP.TLSCertFile, l.HTTP.TLSKeyFile = name, regular },
		"http.tls_key_file":      func(l *Loaded, name string) { l.HTTP.TLSCertFile, l.HTTP.TLSKeyFile = regular, name },
		"operator.password_file": func(l *Loaded, name string) { l.Operator.PasswordFile = name },
		"gateway.keys.key_file":  func(l *Loaded, name string) { l.Gateway.Keys[0].KeyFile = name },
		"database.url_file":      func(l *Loaded, name string) { l.Database.URLFile = name },
		"mail.password_file": func(l *Loaded, name string) {
			l.Mail = Mail{URL: "smtp://user@mail.example", From: "x@mail.example", PasswordFile: name}
		},
		"signin.handoff.key_files": func(l *Loaded, name string) {
			l.SignIn.HandOff = HandOff{URL: "https://app.example/in", KeyFiles: []string{name}}
		},
		"signin.providers.client_secret_file": func(l *Loaded, name string) {
			l.SignIn.Providers = []Provider{{ID: "p", Name: "P", Issuer: "https://id.example", ClientID: "c", ClientSecretFile: name}}
		},
		"api.upstream_key_file": func(l *Loaded, name string) { l.API.UpstreamKeyFile, l.API.Upstream = name, "http://127.0.0.1:9000" },
		"operators.password_hash_file": func(l *Loaded, name string) {
			l.Operators = []NamedOperator{{Name: "anna", Email: "anna@app.example", Rights: "read", PasswordHashFile: name}}
		},
	}
	for _, s := range settings {
		last := s.key[strings.LastIndexByte(s.key, '.')+1:]
		if !strings.HasSuffix(last, "_file") && !strings.HasSuffix(last, "_files") {
			continue
		}
		change := named[s.key]
		if change == nil {
			t.Errorf("%s names a file, and is not tried", s.key)
			continue
		}
		for _, name := range []string{fifo, "/dev/zero"} {
			l := good(t)
			change(&l, name)
			_, err := l.Check()
			if text, _ := refused(t, err); !strings.Contains(text, name) || !strings.Contains(text, "regular file") {
				t.Errorf("%s = %s: %s", s.key, name, text)
			}
		}
	}
	for name, read := range map[string]func(string) error{
		"a variable": func(name string) error {
			_, err := Load(write(t, "empty.toml", "", 0o600), []string{"GRANTKEEPER_LIMITER_URL_FILE=" + name}, nil)
			return err
		},
		"rules": func(name string) error { _, err := ReadRules(name); return err },
	} {
		if text, _ := refused(t, read(fifo)); !strings.Contains(text, fifo+": it is not a regular file") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A file has a greatest size, which it may have.
func TestFilesAreBounded(t *testing.T) {
	name := write(t, "text", "12345", 0o600)
	if b, err := readRegular(name, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := readRegular(name, 4); err == nil || !strings.Contains(err.Error(), "it has more than 4 bytes") {
		t.Error(err)
	}
}

// A configuration may come through a pipe, or be the empty device; it has an end, and from a
// pipe it comes once.
func TestConfigurationThroughAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(fifo, []byte("log.level = \"warn\"\n"), 0o600) }()
	if l, err := Load(fifo, nil, nil); err != nil || l.Log.Level != "warn" {
		t.Errorf("%+v, %v", l.Log, err)
	}
	if err := ReadableAgain(fifo); err == nil || !strings.Contains(err.Error(), fifo) {
		t.Errorf("again: %v", err)
	}
	if _, err := Load("/dev/null", nil, nil); err != nil {
		t.Error(err)
	}
	for _, file := range []string{"", "/dev/null", write(t, "regular", "x", 0o600), filepath.Join(t.TempDir(), "none")} {
		if err := ReadableAgain(file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if text, _ := refused(t, func() error { _, err := Load("/dev/zero", nil, nil); return err }()); !strings.Contains(text, "/dev/zero") {
		t.Error(text)
	}
}
