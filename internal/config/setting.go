package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Setting is one option as it is in effect.
type Setting struct {
	Group   string
	Option  string
	Value   string // as in a file; secrets are masked
	Source  string // "default", file:line, or "environment NAME"
	Set     bool   // somebody set it
	Ignored bool   // accepted without effect
	Mutable bool

	text   Secret   // Value, not masked
	texts  []string // of Value: several for a repeated option
	masked bool     // Value is not what was set
}

// Lines are the setting as a masakari.conf has it: one line for each text, in quotes where it would lose blanks or quotes of its own, with $$
// for a dollar sign. What cannot be read back, as a secret that is masked, is a comment.
func (s Setting) Lines() []string {
	var lines []string
	for _, text := range s.texts {
		line, whole := assign(s.Option, text)
		if s.masked || !whole {
			line = "#" + strings.ReplaceAll(line, "\n", "\n#")
		}
		lines = append(lines, line)
		if !whole && !s.masked {
			lines = append(lines, "# the value above has an empty line or one that ends in a blank: no file can hold it")
		}
	}
	return lines
}

// Masked reports whether Value is not what was set, as that is a secret.
func (s Setting) Masked() bool { return s.masked }

// assign writes a text as the value of an option; whole says that it would be read back as it is.
func assign(option, text string) (line string, whole bool) {
	values := strings.Split(strings.ReplaceAll(text, "$", "$$"), "\n")
	for i, v := range values {
		if i == 0 {
			if v != strings.TrimSpace(v) || v != unquote(v) {
				values[0] = `"` + v + `"`
			}
			continue
		}
		values[i] = "    " + v
	}
	line = strings.TrimRightFunc(option+" = "+strings.Join(values, "\n"), unicode.IsSpace)
	found, err := parse("", "[DEFAULT]\n"+line)
	if err != nil || len(found) != 1 {
		return line, false
	}
	back, err := interpolate(found[0].value, func(string, string) (string, error) { return "", errors.New("a reference") })
	return line, err == nil && back == text
}

// Change is an option that two configurations have with different values.
type Change struct {
	Group, Option string
	Old, New      string // as they may be seen: two secrets look the same
	Mutable       bool   // a running process can take it over
}

func (c Change) String() string {
	return fmt.Sprintf("[%s] %s = %s (was %s)", c.Group, c.Option, c.New, c.Old)
}

// Changes lists what another configuration has otherwise, in the order of the reference; options without effect are left out.
func (c *Config) Changes(other *Config) []Change {
	var all []Change
	for _, s := range c.settings {
		i, ok := other.index[[2]string{s.Group, s.Option}]
		if !ok || s.Ignored {
			continue
		}
		if o := other.settings[i]; !o.text.Equal(s.text) {
			all = append(all, Change{Group: s.Group, Option: s.Option, Old: s.Value, New: o.Value, Mutable: s.Mutable})
		}
	}
	return all
}

// Effective lists every option with its value and where that comes from, in the order of the reference.
func (c *Config) Effective() []Setting { return append([]Setting(nil), c.settings...) }

// IsSet reports whether somebody set the option, be it to its default.
func (c *Config) IsSet(group, option string) bool {
	i, ok := c.index[[2]string{group, option}]
	return ok && c.settings[i].Set
}

func (c *Config) sourceOf(group, option string) string {
	if i, ok := c.index[[2]string{group, option}]; ok {
		return c.settings[i].Source
	}
	return "default"
}

// show returns the option's text as it may be seen.
func (o *Option) show(texts []string) string { return strings.Join(o.mask(texts), ", ") }

// mask returns texts as they may be seen.
func (o *Option) mask(texts []string) []string {
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = t
		if o.Secret {
			shown[i] = maskSecret(t)
		}
	}
	return shown
}

var urlParts = regexp.MustCompile(`^([a-z][a-z0-9+.-]*://)`)

// maskSecret masks a text but, of a URL, what stands between the scheme and the last @, and behind the question mark:
// host and database are what an operator wants to see.
func maskSecret(t string) string {
	if t == "" {
		return ""
	}
	m := urlParts.FindString(t)
	if m == "" {
		return masked
	}
	rest := t[len(m):]
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = masked + rest[at:]
	} else if strings.ContainsAny(rest, "?;") {
		return m + masked
	}
	if at := strings.IndexByte(rest, '?'); at >= 0 {
		rest = rest[:at+1] + masked
	}
	return m + rest
}

// isMasked reports whether a text is what maskSecret makes of a secret.
func isMasked(t string) bool { return strings.Contains(t, masked) && maskSecret(t) == t }

// MissingNova names the options without which salvor cannot work on Nova.
func (c *Config) MissingNova() []string {
	n := &c.Nova
	return missing(groupDefault, map[string]bool{
		"os_privileged_user_auth_url": n.AuthURL == "",
		"os_privileged_user_name":     n.User == "",
		"os_privileged_user_password": n.Password.IsZero(),
		"os_privileged_user_tenant":   n.Project == "" && n.SystemScope == "",
	})
}

// MissingKeystone names the options without which callers' tokens cannot be validated.
func (c *Config) MissingKeystone() []string {
	k := &c.Keystone
	group := "keystone_authtoken"
	if k.AuthSection != "" {
		group = k.AuthSection
	}
	credential := k.ApplicationCredentialID != "" || k.ApplicationCredentialName != ""
	return missing(group, map[string]bool{
		"auth_url":                      k.AuthURL == "",
		"username":                      !credential && k.Username == "" && k.UserID == "",
		"password":                      !credential && k.Password.IsZero(),
		"application_credential_secret": credential && k.ApplicationCredential.IsZero(),
	})
}

func missing(group string, wanting map[string]bool) []string {
	var all []string
	for _, o := range Options() {
		if wanting[o.Name] && (o.Group == group || o.plugin) {
			all = append(all, "["+group+"] "+o.Name)
		}
	}
	return all
}
