package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
)

const defaultURL = "http://127.0.0.1:15868"

// connection is how a command reaches the API, and how it prints what it got.
type connection struct {
	env     Env
	url     string
	cloud   string
	format  string
	json    bool
	columns []string
}

func addConnection(cmd *cobra.Command, env Env) *connection {
	c := &connection{env: env}
	f := cmd.PersistentFlags()
	where := "the api's URL (default: SALVOR_URL; else, with an account, what Keystone's catalog says; else " + defaultURL + ")"
	f.StringVar(&c.url, "url", "", where)
	f.StringVar(&c.url, "endpoint", "", where)
	_ = f.MarkHidden("endpoint") // the flag is there; it is what OpenStack's clients call it
	f.StringVar(&c.cloud, "os-cloud", "", "the account of this name in clouds.yaml (default: OS_CLOUD; else the variables OS_*)")
	f.StringVarP(&c.format, "output", "o", "table", "table, json or yaml; where --columns is, also value: for shells, without titles, tabs between")
	f.StringVarP(&c.format, "format", "f", "table", "the same as -o, as OpenStack's clients call it")
	f.BoolVar(&c.json, "json", false, "the same as -o json")
	for _, flag := range []string{"output", "format"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return formatsOf(cmd), cobra.ShellCompDirectiveNoFileComp
		})
	}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if c.json {
			c.format = "json"
		}
		return oneFormat(c.format, formatsOf(cmd))
	}
	return c
}

// addColumns lets what a command shows be chosen.
func (c *connection) addColumns(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&c.columns, "columns", "c", nil, "only these, by their names in JSON, such as uuid,name")
}

// document: the output is one of keys and values, without the names that a table has beside.
func (c *connection) document() bool { return c.format == "json" || c.format == "yaml" }

// open finds the api and the account as OpenStack's own clients do.
func (c *connection) open() (*client.Client, error) {
	found, err := client.Find(c.env.Environ, c.cloud)
	if err != nil {
		return nil, err
	}
	conf := client.Config{URL: c.url}
	if conf.URL == "" {
		conf.URL = lookup(c.env.Environ, "SALVOR_URL")
	}
	if conf.URL == "" {
		conf.URL = found.Endpoint
	}
	if conf.HTTP, err = found.TLS.HTTP(time.Minute); err != nil {
		return nil, err
	}
	if found.HasLogin {
		if found.Login.HTTP, err = found.TLS.HTTP(30 * time.Second); err != nil {
			return nil, err
		}
		conf.Auth = client.NewKeystone(found.Login)
	} else if conf.URL == "" {
		conf.URL = defaultURL
	}
	cl, err := client.New(conf)
	if err != nil {
		return nil, &usageError{err}
	}
	return cl, nil
}

// with makes a command of what needs the API.
func (c *connection) with(do func(cmd *cobra.Command, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.open()
		if err != nil {
			return err
		}
		return do(cmd, api, args)
	}
}

func lookup(environ []string, name string) string {
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
