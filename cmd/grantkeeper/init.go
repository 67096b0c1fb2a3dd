package main

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/setup"
)

func initCommand(g *global) *cobra.Command {
	var o setup.Options
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration, a secret key and the operators' password",
		Example: `  grantkeeper init --base-url https://app.example.com
  grantkeeper init --base-url http://127.0.0.1:8080 --dir ./here     # to try serve
  grantkeeper init --base-url https://app.example.com --database-url-file /etc/grantkeeper/database.url
  grantkeeper init --base-url https://app.example.com --key-file gk.key --rules rules.toml \
    --upstream http://127.0.0.1:9000 --mcp http://127.0.0.1:9000/mcp   # before your service`,
		Args: cobra.NoArgs,
		Long: `Nothing is written over. With --force the configuration and the password are
written anew, and a secret key that is there stays: it seals what is in the database.
One that serve would refuse is refused.`,
		Annotations: map[string]string{"next": "grantkeeper config check, then grantkeeper serve"},
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o.Config = g.config
			if o.Config != "" && !c.Flag("dir").Changed {
				o.Dir = filepath.Dir(o.Config)
			}
			if err := o.OneDatabase(g.data); err != nil {
				return err
			}
			if g.data != "" {
				if o.Database, err = dataURL(g.data); err != nil {
					return err
				}
			}
			written, err := o.Write()
			if err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), written)
			}
			_, err = io.WriteString(c.OutOrStdout(), written.String())
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", filepath.Dir(config.DefaultFile), "folder to write into")
	f.StringVar(&o.BaseURL, "base-url", "", "the host that is served, as a URL (required)")
	f.StringVar(&o.Name, "name", "", "the service's name, which people read on every page (default: made of the host)")
	f.StringVar(&o.Database, "database", "", "sqlite:///path or postgres://user@host/database (default: a file in /var/lib/grantkeeper; with --dir, in that folder)")
	f.StringVar(&o.DatabaseURLFile, "database-url-file", "", "the file with that URL, where a password is in it; nobody but its owner may read it")
	f.StringVar(&o.Behind.Upstream, "upstream", "", "`URL` of your service, scheme and host, which answers API v5")
	f.StringVar(&o.Behind.MCP, "mcp", "", "whole `URL` of your MCP server")
	f.StringVar(&o.Behind.KeyFile, "key-file", "", "`FILE` with the key that signs what your service is told; it is made when it is not there")
	f.StringVar(&o.Behind.Rules, "rules", "", "`FILE` with [[rules]], which are copied into the configuration")
	f.BoolVar(&o.Force, "force", false, "write over a configuration and a password, never over a secret key")
	return c
}
