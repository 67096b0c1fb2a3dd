package config

import (
	"reflect"
	"slices"
	"strings"
)

// rereadSettings are those that SIGHUP changes; a setting of a list goes with
// its list. The others need a restart.
var rereadSettings = []string{
	"base_urls", "http.trusted_proxies", "http.forwarded_header", "http.tls_cert_file", "http.tls_key_file", "limiter.networks", "api.limits", "clients.metadata_documents", "clients.desktop", "clients.preregistered", "log.level", "rules", "service.unlisted",
	"branding.logo_file", "branding.accent", "branding.accent_dark", "branding.support_url", "branding.links",
	"operator.hosts", "operator.password_file", "operator.public_url", "operators", "gateway.keys", "service.key_file", "api.upstream_key_file",
}

// Reread lists the settings that SIGHUP changes, as people read them: clients.* stands for all
// of a table.
func Reread() (keys []string) {
	left := map[string]bool{} // tables with a setting that needs a restart
	for _, s := range settings {
		if table, _, in := strings.Cut(s.key, "."); in && s.list == "" && !slices.Contains(rereadSettings, s.key) {
			left[table] = true
		}
	}
	for _, key := range rereadSettings {
		if table, _, in := strings.Cut(key, "."); in && !left[table] {
			key = table + ".*"
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// NeedRestart lists the settings that differ and are not among those that are
// reread. One that names a file differs when what was read from it does.
func NeedRestart(running, now *Checked) (keys []string) {
	had, has := running.fromFiles(), now.fromFiles()
	for _, s := range settings {
		if s.list != "" || slices.Contains(rereadSettings, s.key) {
			continue
		}
		was, is := reflect.ValueOf(running.Config).FieldByIndex(s.index), reflect.ValueOf(now.Config).FieldByIndex(s.index)
		if !reflect.DeepEqual(was.Interface(), is.Interface()) || !reflect.DeepEqual(had[s.key], has[s.key]) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// fromFiles is what the files of settings held that need a restart, by the
// setting's key.
func (c *Checked) fromFiles() map[string]any {
	held := map[string]any{}
	if c.MailServer != nil {
		held["mail.password_file"] = c.MailServer.Password
	}
	if c.HandOff != nil {
		held["signin.handoff.key_files"] = c.HandOff.Keys
	}
	var secrets []string
	for _, p := range c.Providers {
		secrets = append(secrets, p.ClientSecret)
	}
	held["signin.providers"] = secrets
	return held
}
