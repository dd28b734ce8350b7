package cli

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersThatAnswerOtherwise: what trying again does not mend is said with what to do, with another exit status than a server that is away.
func TestServersThatAnswerOtherwise(t *testing.T) {
	empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"segments": []}`)) })
	plain, secret := httptest.NewServer(empty), httptest.NewTLSServer(empty)
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotAcceptable)
		_, _ = w.Write([]byte(`{"computeFault": {"code": 406, "message": "Version 1.3 is not supported by the API. Minimum is 1.0 and maximum is 1.2."}}`))
	}))
	defer older.Close()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"serviceUnavailable": {"code": 503, "message": "Nova cannot be asked now. Try again later."}}`))
	}))
	defer away.Close()
	mutual := httptest.NewUnstartedServer(empty)
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.Config.ErrorLog = log.New(io.Discard, "", 0)
	mutual.StartTLS()
	defer mutual.Close()
	moved := httptest.NewServer(http.RedirectHandler("https://api.example.com:15868/v1/segments?token=x", http.StatusMovedPermanently))
	defer moved.Close()
	defer plain.Close()
	defer secret.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secret.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	asHTTP, asHTTPS := strings.Replace(secret.URL, "https:", "http:", 1), strings.Replace(plain.URL, "http:", "https:", 1)
	for _, tt := range []struct {
		environ []string
		code    int
		want    string
	}{
		{[]string{"SALVOR_URL=" + secret.URL, "OS_CACERT=" + ca}, 0, ""},
		{[]string{"SALVOR_URL=" + secret.URL}, exitFailed, "the certificate of " + secret.URL + " is not trusted: x509: certificate signed by unknown authority"},
		{[]string{"SALVOR_URL=" + asHTTPS}, exitFailed, asHTTPS + " speaks plain HTTP: let the URL begin with http://"},
		{[]string{"SALVOR_URL=" + asHTTP}, exitFailed, asHTTP + " speaks TLS: let the URL begin with https://"},
		{[]string{"OS_AUTH_URL=" + asHTTP, "OS_USERNAME=u", "OS_PASSWORD=p"}, exitFailed, asHTTP + " speaks TLS: let OS_AUTH_URL, or auth_url in clouds.yaml, begin with https://"},
		{[]string{"OS_AUTH_URL=" + asHTTPS, "OS_USERNAME=u", "OS_PASSWORD=p"}, exitFailed, asHTTPS + " speaks plain HTTP: let the URL begin with http://"},
		{[]string{"SALVOR_URL=" + mutual.URL, "OS_CACERT=" + ca}, exitFailed, mutual.URL + " refuses TLS: tls: certificate required\nDoes it want a certificate of yours?"},
		{[]string{"SALVOR_URL=" + moved.URL}, exitFailed, moved.URL + " answers 301 and redirects to https://api.example.com:15868, which is not followed: put that into --url"},
		{[]string{"OS_AUTH_URL=" + moved.URL, "OS_USERNAME=u", "OS_PASSWORD=p"}, exitFailed, "redirects to https://api.example.com:15868, which is not followed: put that into OS_AUTH_URL"},
		{[]string{"SALVOR_URL=" + older.URL}, exitFailed, "maximum is 1.2. (406)\nIt is a Masakari, or another version of salvor."},
		{[]string{"SALVOR_URL=" + away.URL}, exitAway, "cannot do it now (503): Nova cannot be asked now. Try again later.\nIts log says more.\n"},
		{[]string{"OS_AUTH_URL=" + plain.URL, "OS_USERNAME=u"}, exitFailed, "no password for the account u: set OS_PASSWORD"},
	} {
		code, _, stderr := command(t, tt.environ, "segment", "list")
		if code != tt.code || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "Is salvor api") {
			t.Errorf("%v: exit status %d\n%s", tt.environ, code, stderr)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputThatIsLost: a command whose output nobody got has failed.
func TestOutputThatIsLost(t *testing.T) {
	for _, args := range []string{"config sample", "version", "--help", "completion bash"} {
		var errs output
		code := Main(t.Context(), Env{Args: strings.Fields(args), Stdin: strings.NewReader(""), Stdout: fullDisk{}, Stderr: &errs})
		if code != exitFailed || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: exit status %d\n%s", args, code, &errs)
		}
	}
}

// TestSaysWhichFiles: a process says in its log which configuration it found.
func TestSaysWhichFiles(t *testing.T) {
	file := conf(t, "")
	start(t, "serve", "--config-file", file, "--listen", "127.0.0.1:0").errs.await(t, `msg=configuration role=serve from=`+file+`\n`)
}
