package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
)

// defaultURL is where an api without any configuration listens.
const defaultURL = "http://127.0.0.1:15868"

// connection are the flags of every command that speaks to an api.
type connection struct {
	env  Env
	url  string
	json bool
}

func addConnection(cmd *cobra.Command, env Env) *connection {
	c := &connection{env: env}
	cmd.PersistentFlags().StringVar(&c.url, "url", "", "the api's URL (default: SALVOR_URL; else, with OS_AUTH_URL, what Keystone's "+
		"catalog says; else "+defaultURL+")")
	cmd.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
	return c
}

// open makes a client: with the account of the variables OS_* where they are set, as for OpenStack's own clients.
func (c *connection) open() (*client.Client, error) {
	conf := client.Config{URL: c.url}
	if conf.URL == "" {
		conf.URL = lookup(c.env.Environ, "SALVOR_URL")
	}
	if login, ok := client.LoginFrom(c.env.Environ); ok {
		conf.Auth = client.NewKeystone(login)
	} else if conf.URL == "" {
		conf.URL = defaultURL
	}
	return client.New(conf)
}

func lookup(environ []string, name string) string {
	for _, e := range environ {
		if len(e) > len(name) && e[:len(name)] == name && e[len(name)] == '=' {
			return e[len(name)+1:]
		}
	}
	return ""
}

// print writes v as JSON, or by text.
func (c *connection) print(cmd *cobra.Command, v any, text func() string) error {
	if !c.json {
		_, err := fmt.Fprint(cmd.OutOrStdout(), text())
		return err
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
