package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const withKeystone = "[keystone_authtoken]\nauth_url = http://keystone.example.com\nusername = u\npassword = p\n"

// TestNoauthListensOnLoopbackOnly is field finding F139.
func TestNoauthListensOnLoopbackOnly(t *testing.T) {
	tests := []struct {
		name, conf, override string
		role                 role
		want                 string // address, or part of the refusal
		refused              bool
	}{
		{"nothing configured", "", "", roleServe, "127.0.0.1:15868", false},
		{"an override", "", "127.0.0.1:0", roleServe, "127.0.0.1:0", false},
		{"an override elsewhere", "", "0.0.0.0:0", roleServe, "loopback only", true},
		{"an override without a host", "", ":15868", roleServe, "loopback only", true},
		{"an override that is none", "", "15868", roleServe, "HOST:PORT", true},
		{"localhost", "[DEFAULT]\nauth_strategy = noauth2\nmasakari_api_listen = localhost\n", "", roleAPI, "localhost:15868", false},
		{"IPv6", "[DEFAULT]\nauth_strategy = noauth2\nmasakari_api_listen = ::1\n", "", roleAPI, "[::1]:15868", false},
		{"elsewhere in the file", "[DEFAULT]\nauth_strategy = noauth2\nmasakari_api_listen = 0.0.0.0\n", "", roleAPI, "loopback only", true},
		{"noauth2, no address", "[DEFAULT]\nauth_strategy = noauth2\n", "", roleAPI, "127.0.0.1:15868", false},
		{"keystone", withKeystone, "", roleServe, "0.0.0.0:15868", false},
		{"keystone, an address", withKeystone + "[DEFAULT]\nmasakari_api_listen = 192.0.2.1\nmasakari_api_listen_port = 80\n", "", roleAPI, "192.0.2.1:80", false},
	}
	for _, tt := range tests {
		c := load(t, tt.conf)
		got, err := listenAddress(t.Context(), c, tt.override, withoutAuth(c, tt.role))
		switch {
		case tt.refused && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %q, %v; want a refusal with %q", tt.name, got, err, tt.want)
		case !tt.refused && (err != nil || got != tt.want):
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestWhoIsBelieved(t *testing.T) {
	tests := []struct {
		name, conf string
		role       role
		want       bool
	}{
		{"serve without a word about it", "", roleServe, true},
		{"serve that says keystone", "[DEFAULT]\nauth_strategy = keystone\n", roleServe, false},
		{"serve with half an account", "[keystone_authtoken]\nauth_url = http://k.example.com\n", roleServe, false},
		{"serve with the account elsewhere", "[keystone_authtoken]\nauth_section = other\n", roleServe, false},
		{"api without a word about it", "", roleAPI, false},
		{"api that says noauth2", "[DEFAULT]\nauth_strategy = noauth2\n", roleAPI, true},
	}
	for _, tt := range tests {
		if got := withoutAuth(load(t, tt.conf), tt.role); got != tt.want {
			t.Errorf("%s: believes everybody: %v", tt.name, got)
		}
	}
}

// certificate makes a self-signed one for 127.0.0.1, and returns the names of its files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "salvor"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	base := "[DEFAULT]\nuse_ssl = true\nstate_path = " + t.TempDir() + "\n[wsgi]\nssl_cert_file = " + cert + "\nssl_key_file = " + key + "\n"
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, mutual := range []bool{false, true} {
		conf := base
		if mutual {
			conf += "ssl_ca_file = " + cert + "\n"
		}
		u := running(t, conf)
		if !strings.HasPrefix(u, "https://127.0.0.1:") {
			t.Fatalf("URL %s", u)
		}
		for _, known := range []bool{false, true} {
			conf := &tls.Config{RootCAs: pool}
			if known {
				conf.Certificates = []tls.Certificate{pair}
			}
			h := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
			resp, err := h.Get(u + "/healthcheck")
			if err == nil {
				resp.Body.Close()
			}
			if ok := err == nil && resp.StatusCode == http.StatusOK; ok != (known || !mutual) {
				t.Errorf("mutual %v, with a certificate %v: %v", mutual, known, err)
			}
		}
	}
	without, _, _ := strings.Cut(base, "[wsgi]")
	for _, broken := range []string{without, strings.Replace(base, cert, "/nowhere", 1)} {
		if _, err := Serve(t.Context(), Options{Config: load(t, broken), Log: silent(), Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "ssl_cert_file") {
			t.Errorf("got %v", err)
		}
	}
}

// running starts a serve that ends with the test, and returns its URL.
func running(t *testing.T, conf string) string {
	t.Helper()
	a, err := Serve(t.Context(), Options{Config: load(t, conf), Log: silent(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a.URL()
}

// get returns status and body of an answer.
func get(t *testing.T, u string) (int, string) {
	t.Helper()
	resp, err := http.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
