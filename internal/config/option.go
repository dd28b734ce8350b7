package config

import (
	"maps"
	"slices"
	"strings"
)

const groupDefault = "DEFAULT"

// Option is one option of masakari.conf.
type Option struct {
	Group   string
	Name    string
	Type    string   // in words, with bounds
	Default string   // as it would stand in a file; "" is unset
	Shown   string   // what the documents show instead of Default, for a default that depends on the machine
	Help    string   // one paragraph
	Aliases []string // older names: NAME in the same group, or GROUP/NAME
	Ignored bool     // accepted, without effect in salvor; Help says why where that is of interest
	Mutable bool     // taken over by a running process when it reads its configuration again
	Secret  bool     // never shown

	multi  bool
	number bool // an empty text is no value
	plugin bool // a Keystone plugin's: read from [keystone_authtoken] auth_section where that is set
	store  func(c *Config, texts []string) error
}

// define makes an option that acts: its text is read as k into field.
func define[T any](group, name string, k kind[T], def string, field func(*Config) *T, help string, more ...func(*Option)) Option {
	_, secret := any(*new(T)).(Secret)
	o := Option{
		Group: group, Name: name, Type: k.name, Default: def, Help: help, Secret: secret, multi: k.multi, number: k.blank,
		store: func(c *Config, texts []string) error {
			v, err := k.parse(texts)
			if err != nil {
				return err
			}
			*field(c) = v
			return nil
		},
	}
	for _, m := range more {
		m(&o)
	}
	return o
}

// ignored makes an option that is accepted and has no effect. Its text is not checked: it worked with Masakari.
func ignored(group, name, def, help string, more ...func(*Option)) Option {
	o := Option{Group: group, Name: name, Type: "any", Default: def, Help: help, Ignored: true}
	for _, m := range more {
		m(&o)
	}
	return o
}

// unusedOptions makes ignored options without a word on each, from "name=default" (or "name").
func unusedOptions(group string, named ...string) []Option {
	var all []Option
	for _, n := range named {
		name, def, _ := strings.Cut(n, "=")
		all = append(all, ignored(group, name, def, ""))
	}
	return all
}

func mutable(o *Option) { o.Mutable = true }
func hidden(o *Option)  { o.Secret = true }
func plugin(o *Option)  { o.plugin = true }

func alias(names ...string) func(*Option) {
	return func(o *Option) { o.Aliases = append(o.Aliases, names...) }
}

func shown(text string) func(*Option) {
	return func(o *Option) { o.Shown = text }
}

// aliasOf splits an alias of the option into its group and name.
func (o *Option) aliasOf(a string) (group, name string) {
	if g, n, ok := strings.Cut(a, "/"); ok {
		return normalGroup(g), n
	}
	return o.Group, a
}

// Options returns the table, in the order in which documents show it.
func Options() []Option {
	var all []Option
	for _, part := range [][]Option{
		apiOptions(), engineOptions(), novaOptions(), logOptions(), otherDefaultOptions(),
		keystoneOptions(), databaseOptions(), failureOptions(), flowOptions(), messagingOptions(), httpOptions(),
		salvorOptions(), agentOptions(), unusedGroupOptions(),
	} {
		all = append(all, part...)
	}
	return all
}

// closedGroups are groups of libraries whose every option is without effect here; their names are not checked.
var closedGroups = map[string]bool{
	"oslo_messaging_amqp": true, "oslo_messaging_kafka": true, "oslo_messaging_metrics": true, "oslo_reports": true,
	"oslo_versionedobjects": true, "oslo_limit": true, "cache": true, "profiler": true, "profiler_jaeger": true,
	"profiler_otlp": true, "audit_middleware_notifications": true, "service_user": true,
}

func closedGroupNames() []string {
	return slices.Sorted(maps.Keys(closedGroups))
}
