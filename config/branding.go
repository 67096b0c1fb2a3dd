package config

import (
	"io"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/page"
)

// Branding makes the pages look like the service's own.
type Branding struct {
	LogoFile   string `toml:"logo_file" env:"BRANDING_LOGO_FILE" doc:"the file with the service's logo, an SVG or PNG of at most 10 KiB; without one a shield"`
	Accent     string `toml:"accent" env:"BRANDING_ACCENT" doc:"the colour of links and buttons on light pages, such as #0a6557; text in it must be easy to read"`
	AccentDark string `toml:"accent_dark" env:"BRANDING_ACCENT_DARK" doc:"the same on dark pages, such as #5cc9b5; both or none"`
	SupportURL string `toml:"support_url" env:"BRANDING_SUPPORT_URL" doc:"where people get help, an https or mailto URL: a link at the foot of every page, and where a password was forgotten if no mail is sent"`
	Links      []Link `toml:"links" doc:"links at the foot of every page, such as to an imprint and a privacy notice"`
}

// Link is one link at the foot of every page.
type Link struct {
	Name string `toml:"name" doc:"what it is called, the same in every language"`
	URL  string `toml:"url" doc:"where it leads, an https URL"`
}

// checkBranding reads the logo and checks that the pages stay safe and easy to
// read.
func (c *Checked) checkBranding() error {
	b := c.Branding
	c.Brand = page.Branding{Accent: b.Accent, AccentDark: b.AccentDark, Support: b.SupportURL}
	for _, l := range b.Links {
		c.Brand.Links = append(c.Brand.Links, page.Link{Name: l.Name, URL: l.URL})
	}
	if b.LogoFile != "" {
		f, _, err := openRegular(b.LogoFile)
		if err != nil {
			return fault.CannotOpen("correct branding.logo_file, or take it out", "branding.logo_file: %v", err)
		}
		defer f.Close()
		if c.Brand.Logo, err = io.ReadAll(io.LimitReader(f, page.MaxLogo+1)); err != nil {
			return fault.CannotOpen("correct branding.logo_file, or take it out", "branding.logo_file: %v", err)
		}
		if len(c.Brand.Logo) == 0 {
			return fault.BadConfig("correct branding.logo_file, or take it out", "branding.logo_file: %s is empty", b.LogoFile)
		}
	}
	if err := c.Brand.Check(); err != nil {
		return fault.BadConfig("see [branding] in docs/configuration.md", "branding.%v", err)
	}
	return nil
}
