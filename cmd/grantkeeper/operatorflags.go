package main

import (
	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
)

func operatorFlags(g *global, c *cobra.Command) *remote.At {
	o := &remote.At{}
	f := c.Flags()
	f.StringVar(&o.URL, "operator", "", "URL of the operators' listener (default: that of the configuration, or http://"+remote.DevOperators+")")
	f.StringVar(&o.PasswordFile, "password-file", "", "file with the operators' password (default: that of the configuration; dev's own needs none)")
	return o
}
