package simhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/salvor-ha/salvor/internal/sim"
)

// lab is a cloud behind a real HTTP server, twenty times as fast as the observed one.
type lab struct {
	*testing.T
	cloud *sim.Cloud
	url   string
}

func newLab(t *testing.T, o sim.Options, h Options) *lab {
	t.Helper()
	if o.Scale == 0 {
		o.Scale = 0.05
	}
	cloud := sim.New(o)
	face := New(cloud, h)
	server := httptest.NewServer(face)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		face.Close()
		cloud.Close()
		if d := cloud.DoubleRuns(); len(d) > 0 {
			t.Errorf("double runs: %+v", d)
		}
	})
	return &lab{T: t, cloud: cloud, url: server.URL}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// provider logs in with gophercloud.
func (l *lab) provider(user, project string) *gophercloud.ProviderClient {
	l.Helper()
	p, err := openstack.AuthenticatedClient(l.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: l.url + "/v3", Username: user, Password: "secret", DomainName: "Default",
		TenantName: project, Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
	})
	l.must(err)
	return p
}

func (l *lab) compute(user, project string) *gophercloud.ServiceClient {
	l.Helper()
	c, err := openstack.NewComputeV2(l.provider(user, project), gophercloud.EndpointOpts{Region: "RegionOne"})
	l.must(err)
	c.Microversion = "2.93"
	return c
}

// call makes a plain request; body "" is none. It returns the status and the raw answer.
func (l *lab) call(token, version, method, path, body string) (int, string) {
	l.Helper()
	status, answer, err := l.try(token, version, method, path, body)
	l.must(err)
	return status, answer
}

func (l *lab) try(token, version, method, path, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(l.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	if version != "" {
		r.Header.Set("OpenStack-API-Version", "compute "+version)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// control calls the sim's own interface and decodes the answer into out.
func (l *lab) control(method, path, body string, out any) {
	l.Helper()
	status, answer := l.call("", "", method, path, body)
	if status >= 300 {
		l.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if out != nil {
		l.must(json.Unmarshal([]byte(answer), out))
	}
}

func (l *lab) token(user, project string) string {
	l.Helper()
	return l.provider(user, project).Token()
}

// eventually polls for at most a minute.
func (l *lab) eventually(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	l.Fatalf("never: %s", what)
}

func (l *lab) serviceID(host string) string {
	l.Helper()
	return l.cloud.Services("nova-compute", host)[0].ID
}

// down kills a host and forces it down.
func (l *lab) down(host string) {
	l.Helper()
	l.control("POST", "/sim/hosts/"+host+"/kill", "", nil)
	status, answer := l.call(l.token("admin", "admin"), "2.93", "PUT", "/compute/v2.1/os-services/"+l.serviceID(host), `{"forced_down": true}`)
	if status != 200 {
		l.Fatalf("%d %s", status, answer)
	}
}

// same compares two JSON texts by value.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w bytes.Buffer
	if err := canon(&g, got); err != nil {
		t.Errorf("%s: %v: %s", what, err, got)
		return
	}
	if err := canon(&w, want); err != nil {
		t.Fatal(err)
	}
	if g.String() != w.String() {
		t.Errorf("%s:\n got %s\nwant %s", what, g.String(), w.String())
	}
}

func canon(to *bytes.Buffer, text string) error {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(value)
}
