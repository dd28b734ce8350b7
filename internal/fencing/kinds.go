package fencing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/salvor-ha/salvor/internal/config"
)

// shared are the keys that stand in `defaults` too.
type shared struct {
	deadline, pause time.Duration
	user            string
	password        config.Secret
	roots           *x509.CertPool // nil: the system's
	insecure        bool
}

// with is s with what stands in f over it.
func (s shared) with(f fields) shared {
	s.deadline = f.span("deadline", s.deadline, time.Second, 10*time.Minute)
	s.pause = f.span("pause", s.pause, 100*time.Millisecond, time.Minute)
	if s.pause > s.deadline/4 {
		f.fail("pause", "longer than a quarter of deadline: there is no time to see the host off twice")
	}
	s.user = f.text("user", s.user)
	if f.has("password") || f.has("password_file") {
		s.password = f.secret("password")
	}
	s.insecure = f.flag("insecure", s.insecure)
	if file := f.text("ca_file", ""); file != "" {
		pem, _, err := readRegular(file, maxFile)
		if s.roots = x509.NewCertPool(); err != nil || !s.roots.AppendCertsFromPEM(pem) {
			f.fail("ca_file", "%s has no certificates that can be read", file)
		}
	}
	return s
}

// method reads one method of a host.
func (r *reader) method(n *yaml.Node, what string, defaults shared) recipe {
	f := r.mapping(n, what)
	if f.node.Kind != yaml.MappingNode {
		return recipe{}
	}
	kind := f.choice("kind", "", "redfish", "ipmi", "agent", "command")
	s := defaults.with(f)
	p := recipe{name: f.text("name", kind), deadline: s.deadline, pause: s.pause}
	switch kind {
	case "redfish":
		p.build = f.redfish(s)
	case "ipmi":
		p.build = f.ipmi(s)
	case "agent":
		p.build = f.agent(s)
	case "command":
		p.build = f.command(s)
	default:
		return p
	}
	f.known()
	if len(r.errs) == 0 {
		if _, err := p.build("example"); err != nil {
			r.fail(f.node, "%s: %v", what, err)
		}
	}
	return p
}

// hostName is what a host's name must be like to become part of an address, or of what a program is told.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// expand puts a host's name in place of {host}, and its first label in place of {short}.
func expand(text, host string) string {
	return strings.NewReplacer("{host}", host, "{short}", shortName(host)).Replace(text)
}

// builder makes the controller of a host, whose name is fit for it.
type builder = func(host string) (Controller, error)

func (f fields) redfish(s shared) builder {
	address, system := f.text("address", ""), f.text("system", "")
	session := f.choice("auth", "basic", "basic", "session") == "session"
	if address == "" {
		f.need("address")
	}
	return func(host string) (Controller, error) {
		base, err := redfishURL(expand(address, host), s.insecure)
		if err != nil {
			return nil, err
		}
		return redfish{
			base: base, system: expand(system, host), user: s.user, password: s.password, session: session, clean: config.NewCleaner(s.user, s.password),
			tls: &tls.Config{RootCAs: s.roots, InsecureSkipVerify: s.insecure, MinVersion: tls.VersionTLS12},
		}, nil
	}
}

// redfishURL reads a controller's address; without a scheme it is https. Its errors do not repeat it: an account may be in it.
func redfishURL(address string, insecure bool) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "", strings.Trim(u.Path, "/") != "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("address: expected https://HOST or https://HOST:PORT")
	case u.User != nil:
		return nil, errors.New("address: set user and password, not an account in the URL")
	case u.Scheme == "http" && !insecure:
		return nil, errors.New("address: http:// sends the account in clear; say insecure: true if that is meant")
	}
	u.Path = "/"
	return u, nil
}

var ipmiAddress = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9_.:-]*$`)

func (f fields) ipmi(s shared) builder {
	address, tool := f.text("address", ""), f.program("tool", "ipmitool")
	if address == "" {
		f.need("address")
	}
	fixed := []string{"-I", f.choice("interface", "lanplus", "lanplus", "lan"), "-p", strconv.Itoa(f.number("port", 623, 1, 65535))}
	if f.has("cipher") {
		fixed = append(fixed, "-C", strconv.Itoa(f.number("cipher", 17, 0, 17)))
	}
	if f.has("privilege") {
		fixed = append(fixed, "-L", strings.ToUpper(f.choice("privilege", "operator", "operator", "administrator", "user")))
	}
	if s.user != "" {
		fixed = append(fixed, "-U", s.user)
	}
	if s.password.IsZero() {
		fixed = append(fixed, "-P", "") // none, and it is not asked for
	} else {
		fixed = append(fixed, "-E") // from the environment
	}
	return func(host string) (Controller, error) {
		at := expand(address, host)
		if !ipmiAddress.MatchString(at) {
			return nil, errors.New("address: expected a name or an IP address")
		}
		return ipmi{tool: tool, args: append([]string{"-H", at}, fixed...), password: s.password, clean: config.NewCleaner(s.user, s.password)}, nil
	}
}

// notForAgents are options that salvor sets itself, or that make an agent write its secrets somewhere.
var notForAgents = []string{"action", "option", "debug", "debug_file", "debug-file", "verbose", "verbose_level", "verbose-level"}

// argvAgents are agents that put the password on the command line of a child (fence-agents 4.12), where everybody can read it
// until ipmitool has masked it, and where it stays in audit logs.
var argvAgents = []string{"fence_ipmilan", "fence_ipmilanplus", "fence_ilo3", "fence_ilo4", "fence_ilo5", "fence_imm", "fence_idrac"}

func (f fields) agent(s shared) builder {
	path := f.program("agent", "")
	options, secrets := f.options(s)
	name := filepath.Base(path)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		name = filepath.Base(target)
	}
	if slices.Contains(argvAgents, name) && len(secrets) > 0 {
		f.fail("agent", "%s puts the password on the command line of ipmitool, where others can read it; use kind: ipmi", name)
	}
	for _, o := range options {
		if slices.Contains(notForAgents, o.name) {
			f.fail("options", "%s is not for the file", o.name)
		}
	}
	clean := config.NewCleaner(s.user, secrets...)
	return func(host string) (Controller, error) {
		return agent{path: path, options: expandAll(options, host), clean: clean}, nil
	}
}

func (f fields) command(s shared) builder {
	var argv []string
	if n := f.need("command"); n != nil && n.Kind == yaml.SequenceNode {
		for _, word := range n.Content {
			argv = append(argv, resolve(word).Value)
		}
	} else {
		argv = []string{f.text("command", "")}
	}
	switch {
	case len(argv) == 0 || f.has("command") && !filepath.IsAbs(argv[0]):
		f.fail("command", "expected the absolute path of a program, or a list of it and its arguments")
		argv = []string{""}
	case f.has("command") && !executable(argv[0]):
		f.fail("command", "there is no file of that name that may be executed")
		argv = []string{""}
	}
	options, secrets := f.options(s)
	clean := config.NewCleaner(s.user, secrets...)
	return func(host string) (Controller, error) {
		full := []string{argv[0]}
		for _, word := range argv[1:] {
			full = append(full, expand(word, host))
		}
		return command{host: host, argv: full, options: expandAll(options, host), clean: clean}, nil
	}
}

func expandAll(options []option, host string) []option {
	out := slices.Clone(options)
	for i := range out {
		if !out[i].secret {
			out[i].value = expand(out[i].value, host)
		}
	}
	return out
}

// secretNames are names of options whose values are secrets, also inline.
var secretNames = regexp.MustCompile(`(?i)pass|secret|community|token|key$|_kg$`)

// options are address, user and password by the names that agents have for them, and what stands in `options`.
func (f fields) options(s shared) (options []option, secrets []config.Secret) {
	if at := f.text("address", ""); at != "" {
		options = append(options, option{name: "ip", value: at})
	}
	if s.user != "" {
		options = append(options, option{name: "username", value: s.user})
	}
	if !s.password.IsZero() {
		options = append(options, option{"password", s.password.Reveal(), true})
		secrets = append(secrets, s.password)
	}
	more := f.r.mapping(f.take("options"), f.what+", options")
	for _, key := range more.order {
		text := more.text(key.Value, "")
		value := more.hidden(key.Value, text)
		secret := strings.HasPrefix(text, "env:") || secretNames.MatchString(key.Value)
		if secret {
			secrets = append(secrets, value)
		}
		if strings.ContainsAny(key.Value, "=\r\n") || key.Value == "" {
			f.r.fail(key, "%s: options: a name has no equals sign", f.what)
		}
		options = append(options, option{key.Value, value.Reveal(), secret})
	}
	return options, secrets
}

// programDirs are where programs are looked for; the same for every user, as none of these depends on PATH.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// program reads the name, or the absolute path, of a program that is there.
func (f fields) program(key, def string) string {
	name := f.text(key, def)
	if !strings.Contains(name, "/") && name != "" {
		for _, dir := range programDirs {
			if p := filepath.Join(dir, name); executable(p) {
				return p
			}
		}
	} else if executable(name) {
		return name
	}
	f.fail(key, "there is no program %q in %s; install it, or write its absolute path", name, strings.Join(programDirs, ", "))
	return name
}

func executable(path string) bool {
	is, err := os.Stat(path)
	return err == nil && filepath.IsAbs(path) && is.Mode().IsRegular() && is.Mode().Perm()&0o111 != 0
}
