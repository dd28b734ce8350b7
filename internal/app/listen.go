package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
)

// listenAddress is where the api listens: the command's word, else the file's, and without authentication never anywhere
// but on loopback (field finding F139).
func listenAddress(ctx context.Context, c *config.Config, override string, open bool) (string, error) {
	host, port := c.API.Listen, strconv.Itoa(c.API.Port)
	if open && !c.IsSet("DEFAULT", "masakari_api_listen") {
		host = "127.0.0.1"
	}
	if override != "" {
		var err error
		if host, port, err = net.SplitHostPort(override); err != nil {
			return "", fmt.Errorf("--listen %s: expected HOST:PORT, such as 127.0.0.1:15868", override)
		}
	}
	if open && !isLoopback(ctx, host) {
		return "", fmt.Errorf("without authentication (auth_strategy = noauth2) salvor listens on loopback only, not on %q: "+
			"set masakari_api_listen = 127.0.0.1, or auth_strategy = keystone", host)
	}
	return net.JoinHostPort(host, port), nil
}

// isLoopback reports whether every address of the host is the machine's own. An empty host is all addresses.
func isLoopback(ctx context.Context, host string) bool {
	if host == "" {
		return false
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(addrs) == 0 {
		return false
	}
	for _, a := range addrs {
		if !a.IP.IsLoopback() {
			return false
		}
	}
	return true
}

// listen opens the listener; with use_ssl it speaks TLS.
func listen(ctx context.Context, c *config.Config, address string) (net.Listener, string, error) {
	var conf *tls.Config
	scheme := "http"
	if c.API.UseSSL {
		var err error
		if conf, err = tlsConfig(c.WSGI); err != nil {
			return nil, "", err
		}
		scheme = "https"
	}
	l, err := openListener(ctx, address)
	if err != nil {
		return nil, "", fmt.Errorf("the api's address: %w (masakari_api_listen and masakari_api_listen_port, or --listen)", err)
	}
	u := scheme + "://" + l.Addr().String()
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	return l, u, nil
}

func openListener(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// tlsConfig reads the files of [wsgi]. With ssl_ca_file clients must show a certificate of it, as in oslo.service.
func tlsConfig(w config.WSGI) (*tls.Config, error) {
	if w.CertFile == "" || w.KeyFile == "" {
		return nil, errors.New("use_ssl needs [wsgi] ssl_cert_file and ssl_key_file")
	}
	pair, err := tls.LoadX509KeyPair(w.CertFile, w.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("[wsgi] ssl_cert_file and ssl_key_file: %w", err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if w.CAFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(w.CAFile)
	if err != nil {
		return nil, fmt.Errorf("[wsgi] ssl_ca_file: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("[wsgi] ssl_ca_file %s holds no certificate in PEM form", w.CAFile)
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}

// requestsEnd is how long requests under way may still take at a stop.
const requestsEnd = 10 * time.Second

// serveHTTP serves until ctx ends; then nothing new is accepted, and requests under way end.
func serveHTTP(ctx context.Context, server *http.Server, l net.Listener, log *slog.Logger) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server.BaseContext = func(net.Listener) context.Context { return base }
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestsEnd)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		log.Warn("requests were still under way at the stop, and are cut off", "error", err)
		cut()
		_ = server.Close()
	}
	if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// closeListener closes a listener that a server may have closed before.
func closeListener(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
