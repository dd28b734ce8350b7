package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/fencing"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/keystone"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/store"
)

// Finding is what a check of the configuration found.
type Finding struct {
	What string `json:"what"` // database, keystone, …
	OK   bool   `json:"ok"`
	Text string `json:"text"`
	Do   string `json:"do"` // "" when nothing is to be done
}

// ExplainPolicy asks the rules that the configuration names about an identity; see policy.Explain.
func ExplainPolicy(c *config.Config, id policy.Identity) ([]policy.Answer, []string, error) {
	return policy.Explain(policyConfig(c), id)
}

// Check tries what the configuration names, as a process would at its start and after: database, Keystone, the api's address, Nova,
// RabbitMQ, certificates, policy, the fencing file. It writes nothing. Each try ends within limit; all run at once.
func Check(ctx context.Context, c *config.Config, limit time.Duration) []Finding {
	tries := []func(context.Context, *config.Config) []Finding{checkDatabase, checkKeystone, checkBind, checkNova, checkRabbit, checkTLS, checkPolicy, checkFencing}
	found := make([][]Finding, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			found[i] = try(ctx, c)
		})
	}
	all.Wait()
	return slices.Concat(found...)
}

func good(what, format string, args ...any) []Finding {
	return []Finding{{What: what, OK: true, Text: fmt.Sprintf(format, args...)}}
}

func bad(what, do string, err error) []Finding {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time: " + text
	}
	return []Finding{{What: what, Text: text, Do: do}}
}

func checkDatabase(ctx context.Context, c *config.Config) []Finding {
	const what = "database"
	u, err := config.ParseDatabaseURL(c.Database.Connection)
	if err != nil {
		return bad(what, "mend [database] connection", err)
	}
	alone := ""
	if u.Dialect == dialectSQLite {
		alone = "; good for one process"
		if found := checkFile(u.Path); found != nil {
			return found
		}
	}
	s, err := store.Open(ctx, storeConfig(c, 0))
	if err != nil {
		return bad(what, "check host, port, account and name in [database] connection, and that the server runs", err)
	}
	defer func() { _ = s.Close() }()
	have, err := s.Version(ctx)
	if err != nil {
		return bad(what, "check the account's rights on the database", err)
	}
	want, err := s.Newest()
	switch {
	case err != nil:
		return bad(what, "", err)
	case have == "":
		return bad(what, "salvor db sync, with the same configuration", fmt.Errorf("%s has no tables of salvor's", s))
	case have < want:
		return bad(what, "salvor db sync, with the same configuration", fmt.Errorf("the tables of %s are of version %s, this salvor needs %s", s, have, want))
	}
	return good(what, "%s, tables of version %s%s", s, have, alone)
}

// checkFile looks at SQLite's file, which opening it would make; nil when there is one that can be opened.
func checkFile(path string) []Finding {
	const what = "database"
	if path == "" {
		return bad(what, "name a file in [database] connection", errors.New("SQLite in memory: everything is forgotten at each stop"))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return good(what, "sqlite %s, which salvor serve makes; good for one process", path)
	case err != nil:
		return bad(what, "let salvor's user write there, or set state_path or [database] connection", err)
	}
	if err := f.Close(); err != nil {
		return bad(what, "", err)
	}
	return nil
}

func checkKeystone(ctx context.Context, c *config.Config) []Finding {
	const what = "keystone"
	if c.API.AuthStrategy == "noauth2" {
		return good(what, "not used: auth_strategy = noauth2, so the api believes everybody, and listens on loopback only")
	}
	if missing := c.MissingKeystone(); len(missing) > 0 {
		return bad(what, "set it; without, the api cannot validate tokens (or auth_strategy = noauth2, on loopback)",
			errors.New("not set: "+strings.Join(missing, ", ")))
	}
	v, err := keystone.New(keystoneConfig(c))
	if err == nil {
		err = v.Check(ctx)
	}
	if err != nil {
		return bad(what, "check auth_url and the account in [keystone_authtoken], its domains and project, and cafile", err)
	}
	return good(what, "%s takes the account of [keystone_authtoken]", c.Keystone.AuthURL)
}

// checkListen does not listen: where only an engine runs, the address may be another machine's.
func checkListen(ctx context.Context, c *config.Config) []Finding {
	const what = "listen"
	address, err := listenAddress(ctx, c, "", withoutAuth(c, roleServe))
	if err != nil {
		return bad(what, "until then neither salvor serve nor salvor api starts", err)
	}
	return good(what, "the api's address is %s", address)
}

// checkBind listens for a moment at the api's address. What is in use is well: salvor runs already, most likely.
func checkBind(ctx context.Context, c *config.Config) []Finding {
	found := checkListen(ctx, c)
	if !found[0].OK {
		return found
	}
	address, err := listenAddress(ctx, c, "", withoutAuth(c, roleServe))
	if err != nil {
		return found // it was one just now
	}
	what := found[0].What
	l, err := openListener(ctx, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return good(what, "the api's address is %s; not tried: it is in use, perhaps by salvor itself", address)
	case err != nil:
		return bad(what, "where the api runs, mend masakari_api_listen (an address of this machine; 0.0.0.0: all of them) and "+
			"masakari_api_listen_port; where only an engine runs it does no harm", err)
	}
	if err := l.Close(); err != nil {
		return bad(what, "", err)
	}
	return found
}

func checkNova(ctx context.Context, c *config.Config) []Finding {
	const what = "nova"
	if missing := c.MissingNova(); len(missing) > 0 {
		return bad(what, "set it; without, no engine starts", errors.New("not set: "+strings.Join(missing, ", ")))
	}
	client, err := nova.New(novaConfig(c))
	if err != nil {
		return bad(what, "check os_privileged_user_auth_url, nova_catalog_admin_info, nova_ca_certificates_file", err)
	}
	defer client.Close()
	services, err := client.Services(ctx)
	if err != nil {
		return bad(what, "check the account os_privileged_user_*, its domains and its role admin, os_region_name, and nova_catalog_admin_info", err)
	}
	computes := 0
	for _, s := range services {
		if s.Binary == ha.BinaryCompute {
			computes++
		}
	}
	return good(what, "found by Keystone's catalog; %d compute services", computes)
}

// checkRabbit only asks whether somebody listens: an account is tried when the first event is sent.
func checkRabbit(ctx context.Context, c *config.Config) []Finding {
	const what = "rabbitmq"
	var found []Finding
	used := false
	for _, driver := range c.Notifications.Drivers {
		switch driver {
		case "messagingv2", "messaging":
			used = true
		case "log", "noop", "test":
		default:
			found = append(found, bad("drivers", "name messagingv2, messaging, log or noop in [oslo_messaging_notifications] driver",
				fmt.Errorf("driver = %s is unknown: by it nobody is told", driver))...)
		}
	}
	if !used && c.Notifications.TransportURL.IsZero() {
		return append(found, good(what, "not used: [oslo_messaging_notifications] driver names no messaging")...)
	}
	u, err := config.ParseTransportURL(c.Notifications.TransportURL)
	if err == nil {
		_, err = rabbitConfig(c, true)
	}
	if err != nil {
		return append(found, bad(what, "mend transport_url and [oslo_messaging_rabbit], or remove what is not used", err)...)
	}
	if !used {
		return append(found, good(what, "transport_url can be read, and is not used: [oslo_messaging_notifications] driver names no messaging")...)
	}
	for _, n := range u.Nodes {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.Address)
		if err != nil {
			found = append(found, bad(what, "check host and port in transport_url, and that RabbitMQ runs", err)...)
			continue
		}
		_ = conn.Close()
		found = append(found, good(what, "%s listens", n.Address)...)
	}
	return found
}

func checkTLS(_ context.Context, c *config.Config) []Finding {
	const what = "tls"
	if !c.API.UseSSL {
		return good(what, "not used: use_ssl = false")
	}
	conf, err := tlsConfig(c.WSGI)
	if err != nil {
		return bad(what, "mend ssl_cert_file, ssl_key_file, ssl_ca_file in [wsgi]", err)
	}
	if leaf := conf.Certificates[0].Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		return bad(what, "renew the certificate", fmt.Errorf("%s has expired on %s", c.WSGI.CertFile, leaf.NotAfter.Format(time.DateOnly)))
	}
	return good(what, "%s can be used", c.WSGI.CertFile)
}

// PolicyFaults says why the api does not start with the policy files, "" when it does, and what in them is likely a mistake.
func PolicyFaults(c *config.Config) (broken string, doubtful []string) {
	conf := policyConfig(c)
	_, doubtful, err := policy.Explain(conf, policy.Identity{})
	if err != nil {
		return err.Error(), nil
	}
	if c.IsSet("oslo_policy", "policy_file") && c.Policy.File != config.DefaultPolicyFile && conf.Found() == "" {
		doubtful = append(doubtful, fmt.Sprintf("[oslo_policy] policy_file = %s is not found: as it is, the default rules hold", c.Policy.File))
	}
	return "", doubtful
}

func checkPolicy(_ context.Context, c *config.Config) []Finding {
	const what = "policy"
	broken, doubtful := PolicyFaults(c)
	if broken != "" {
		return bad(what, "mend the file; until then the api does not start", errors.New(broken))
	}
	var found []Finding
	for _, d := range doubtful {
		found = append(found, Finding{What: what, Text: d, Do: "mend the name, or remove the line; salvor policy check --role ROLE shows every rule"})
	}
	if found != nil {
		return found
	}
	file := policyConfig(c).Found()
	if file == "" {
		return good(what, "no file %s: the default rules hold", c.Policy.File)
	}
	return good(what, "%s can be used", file)
}

// checkFencing only reads the file: `salvor fence test` tries what it names. Without a file there is nothing to tell.
func checkFencing(_ context.Context, c *config.Config) []Finding {
	const what = "fencing"
	if c.Salvor.FencingFile == "" {
		return nil
	}
	if _, err := fencing.Load(c.Salvor.FencingFile, os.Environ()); err != nil {
		return bad(what, "mend [salvor] fencing_file; until then neither engine nor api starts", err)
	}
	return good(what, "%s can be read; salvor fence test --all tries it", c.Salvor.FencingFile)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
