package main

import (
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/token"
)

// signIn is how people sign in to the pages of a site.
func (h *house) signIn(site *page.Site) *signin.Server {
	s := &signin.Server{Site: site, HandOff: h.HandOff, Fresh: time.Duration(h.SignIn.Fresh), Forgotten: h.forgotten()}
	if h.SignIn.Strong != "off" {
		s.Strong = signin.Strength(h.SignIn.Strong)
	}
	for _, c := range h.Providers {
		s.Providers = append(s.Providers, provider.New(c, func() time.Time { return h.store.Now() }))
	}
	return s
}

// readKeys gives the key file of this process as it is now.
func (h *house) readKeys() ([]*token.Key, error) {
	if h.SecretKeyFile == "" {
		return nil, nil // dev in memory has none
	}
	return config.ReadKeys(h.SecretKeyFile)
}
