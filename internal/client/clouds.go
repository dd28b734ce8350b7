package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// maxClouds bounds a clouds.yaml, in bytes.
const maxClouds = 1 << 20

// Settings is what the environment, or a clouds.yaml, says about the way to the API.
type Settings struct {
	Login    Login
	HasLogin bool   // there is an account, or at least a Keystone to give one to
	Endpoint string // of the API, instead of the catalog's; "" when nothing says so
	TLS      TLS
}

// TLS says how servers' certificates are checked, and what is shown to them.
type TLS struct {
	CAFile, CertFile, KeyFile string
	Insecure                  bool // certificates are not checked
}

// Find reads the account as OpenStack's own clients do. With a cloud's name (cloud, else OS_CLOUD) it is read from
// clouds.yaml and, laid over it, secure.yaml: the first of each in the working directory, ~/.config/openstack and
// /etc/openstack; OS_CLIENT_CONFIG_FILE and OS_CLIENT_SECURE_FILE come before them. As with the openstack client, OS_REGION_NAME,
// OS_INTERFACE, OS_CACERT, OS_CERT and OS_KEY win over a cloud. Without a cloud's name all is from the variables OS_*.
func Find(environ []string, cloud string) (Settings, error) {
	env := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	if cloud == "" {
		cloud = env["OS_CLOUD"]
	}
	if cloud != "" {
		return fromClouds(env, cloud)
	}
	s := Settings{
		Endpoint: env["OS_ENDPOINT"],
		TLS:      TLS{CAFile: env["OS_CACERT"], CertFile: env["OS_CERT"], KeyFile: env["OS_KEY"], Insecure: truth(env["OS_INSECURE"])},
	}
	s.Login, s.HasLogin = LoginFrom(environ)
	s.HasLogin = s.HasLogin && !noAuth(env["OS_AUTH_TYPE"])
	return s, nil
}

func noAuth(kind string) bool { return kind == "none" || kind == "noauth" }

func truth(text string) bool {
	on, err := strconv.ParseBool(text)
	return on && err == nil
}

// tree is a mapping of a YAML document.
type tree map[string]any

func fromClouds(env map[string]string, name string) (Settings, error) {
	path, clouds, err := readClouds(env, "OS_CLIENT_CONFIG_FILE", "clouds")
	if err != nil {
		return Settings{}, err
	}
	if path == "" {
		return Settings{}, fmt.Errorf("cloud %s: there is no clouds.yaml in %s", name, strings.Join(cloudDirs(env), ", "))
	}
	cloud, ok := clouds[name].(tree)
	if !ok {
		known := slices.Sorted(maps.Keys(clouds))
		return Settings{}, fmt.Errorf("%s has no cloud named %q; it has %s", path, name, strings.Join(known, ", "))
	}
	securePath, secrets, err := readClouds(env, "OS_CLIENT_SECURE_FILE", "secure")
	if err != nil {
		return Settings{}, err
	}
	if secret, ok := secrets[name].(tree); ok && securePath != "" {
		cloud = over(cloud, secret)
	}
	s := settingsOf(cloud, env)
	if s.HasLogin && s.Login.AuthURL == "" {
		return Settings{}, fmt.Errorf("%s: cloud %s has no auth.auth_url", path, name)
	}
	return s, nil
}

// over lays b over a, mapping by mapping.
func over(a, b tree) tree {
	out := maps.Clone(a)
	for k, v := range b {
		inner, both := v.(tree)
		if old, ok := out[k].(tree); ok && both {
			v = over(old, inner)
		}
		out[k] = v
	}
	return out
}

func cloudDirs(env map[string]string) []string {
	home := env["XDG_CONFIG_HOME"]
	if home == "" && env["HOME"] != "" {
		home = filepath.Join(env["HOME"], ".config")
	}
	dirs := []string{"."}
	if home != "" {
		dirs = append(dirs, filepath.Join(home, "openstack"))
	}
	return append(dirs, "/etc/openstack")
}

// readClouds reads the first of the files that is there; path "" when none is.
func readClouds(env map[string]string, variable, base string) (path string, clouds tree, err error) {
	var candidates []string
	if named := env[variable]; named != "" {
		candidates = append(candidates, named)
	}
	for _, dir := range cloudDirs(env) {
		for _, ext := range []string{".yaml", ".yml", ".json"} {
			candidates = append(candidates, filepath.Join(dir, base+ext))
		}
	}
	for _, c := range candidates {
		info, err := os.Stat(c)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if info.Size() > maxClouds {
			return "", nil, fmt.Errorf("%s has %d bytes: is it a clouds.yaml?", c, info.Size())
		}
		text, err := os.ReadFile(c)
		if err != nil {
			return "", nil, err
		}
		var document struct {
			Clouds tree `yaml:"clouds"`
		}
		if err := yaml.Unmarshal(text, &document); err != nil {
			return "", nil, fmt.Errorf("%s cannot be read: %w", c, withoutValues(err))
		}
		return c, document.Clouds, nil
	}
	return "", nil, nil
}

// withoutValues keeps the values of a file that holds passwords out of an error.
func withoutValues(err error) error {
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		return errors.New("it is not a mapping of clouds by name")
	}
	return err
}

func settingsOf(cloud tree, env map[string]string) Settings {
	auth, _ := cloud["auth"].(tree)
	get := func(t tree, names ...string) string {
		for _, n := range names {
			if v, ok := t[n]; ok && v != nil {
				if text := fmt.Sprint(v); text != "" {
					return text
				}
			}
		}
		return ""
	}
	password := get(auth, "password")
	if password == "" {
		password = env["OS_PASSWORD"] // many keep it out of files
	}
	region := get(cloud, "region_name")
	if regions, ok := cloud["regions"].([]any); ok && region == "" && len(regions) > 0 {
		region = regionName(regions[0])
	}
	s := Settings{
		Login: Login{
			AuthURL: get(auth, "auth_url"), Token: get(auth, "token", "auth_token"),
			Username: get(auth, "username", "user_name"), UserID: get(auth, "user_id"), Password: password,
			UserDomain: get(auth, "user_domain_name", "domain_name"), UserDomainID: get(auth, "user_domain_id", "domain_id"),
			Project: get(auth, "project_name", "tenant_name"), ProjectID: get(auth, "project_id", "tenant_id"),
			ProjectDomain: get(auth, "project_domain_name", "domain_name"), ProjectDomainID: get(auth, "project_domain_id", "domain_id"),
			SystemScope: get(auth, "system_scope"), CredentialID: get(auth, "application_credential_id"),
			CredentialName: get(auth, "application_credential_name"), CredentialSecret: get(auth, "application_credential_secret"), Region: region,
			Interface: get(cloud, "instance_ha_interface", "ha_interface", "interface", "endpoint_type"),
		},
		HasLogin: !noAuth(get(cloud, "auth_type")),
		Endpoint: get(cloud, "instance_ha_endpoint_override", "instance_ha_endpoint", "ha_endpoint_override"),
		TLS: TLS{
			CAFile: get(cloud, "cacert"), CertFile: get(cloud, "cert"), KeyFile: get(cloud, "key"),
			Insecure: truth(get(cloud, "insecure")) || strings.EqualFold(get(cloud, "verify"), "false"),
		},
	}
	for name, set := range map[string]*string{"OS_REGION_NAME": &s.Login.Region, "OS_INTERFACE": &s.Login.Interface, "OS_CACERT": &s.TLS.CAFile,
		"OS_CERT": &s.TLS.CertFile, "OS_KEY": &s.TLS.KeyFile} {
		if env[name] != "" {
			*set = env[name]
		}
	}
	if s.Endpoint == "" && !s.HasLogin {
		s.Endpoint = get(auth, "endpoint", "url") // of the plugin none
	}
	return s
}

func regionName(region any) string {
	if t, ok := region.(tree); ok {
		region = t["name"]
	}
	text, _ := region.(string)
	return text
}

// HTTP makes a client that checks certificates as t says; nothing in t makes the default one.
func (t TLS) HTTP(limit time.Duration) (*http.Client, error) {
	h := &http.Client{Timeout: limit}
	if t == (TLS{}) {
		return h, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure} // only when the operator says so
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA certificates (OS_CACERT, cacert): %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificates (OS_CACERT, cacert): %s holds none in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		key := t.KeyFile
		if key == "" {
			key = t.CertFile
		}
		pair, err := tls.LoadX509KeyPair(t.CertFile, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate (OS_CERT and OS_KEY, cert and key): %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	h.Transport = transport
	return h, nil
}
