package main

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/server"
)

func operatorCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:         "operator COMMAND",
		Short:       "Prepare the sign-in of named operators",
		Example:     `  grantkeeper operator hash-password`,
		Annotations: map[string]string{"next": "grantkeeper operator hash-password"},
	}, operatorHash(g))
}

func operatorHash(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password",
		Short: "Hash the password on standard input, for [[operators]] of the configuration",
		Example: `  grantkeeper operator hash-password                     # asks, without echo
  (umask 077; grantkeeper operator hash-password < password.txt > ingrid.hash)`,
		Long: `It writes the hash (Argon2id, as a PHC string), which is password_hash of an operator,
or the content of password_hash_file. The password has 12 characters or more.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper config check"},
		RunE: func(c *cobra.Command, _ []string) error {
			password, err := secretFromInput(c, "Password: ")
			if err != nil {
				return err
			}
			if utf8.RuneCountInString(password) < operator.MinPassword || len(password) > operator.MaxPassword {
				return fault.WrongUse("take a longer one, of several words", "a password has %d characters or more, and at most %d bytes", operator.MinPassword, operator.MaxPassword)
			}
			hash := server.HashPassword(password)
			if g.json {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]string{"password_hash": hash})
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), hash)
			return err
		},
	}
}
