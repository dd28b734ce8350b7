package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// TestHangup: a running process takes over what can be, names what cannot, and keeps all of the old when the file is bad.
func TestHangup(t *testing.T) {
	const begin = "[DEFAULT]\nauth_strategy = noauth2\n"
	policy := file(t, "policy.yaml", "[a]")
	c := conf(t, begin)
	p := testkit.Start(t, "salvor", "serve", "--config-file", c, "--listen", "127.0.0.1:0")
	u := p.URL(t)
	for i := range 3 {
		resp, err := http.Post(u+"/v1/segments", "application/json",
			strings.NewReader(fmt.Sprintf(`{"segment": {"name": "s%d", "service_type": "x", "recovery_method": "auto"}}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	segments := func() int {
		t.Helper()
		resp, err := http.Get(u + "/v1/segments")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var list struct{ Segments []any }
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		return len(list.Segments)
	}
	hangup := func(text, answer string) {
		t.Helper()
		state, err := os.ReadFile(c)
		if err != nil {
			t.Fatal(err)
		}
		kept := string(state[strings.LastIndex(string(state), "[DEFAULT]"):])
		if err := os.WriteFile(c, []byte(begin+text+"\n"+kept), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Signal(syscall.SIGHUP)
		p.Await(t, answer, 10*time.Second)
	}
	if n := segments(); n != 3 {
		t.Fatalf("%d segments", n)
	}
	hangup("osapi_max_limit = 2\nmasakari_api_listen_port = 7\n[keystone_authtoken]\npassword = topsecret", `taken over"=1 "waiting for a restart"=2`)
	p.Await(t, `option=osapi_max_limit is=2 was=1000`, time.Second)
	p.Await(t, `needs a restart.*option=masakari_api_listen_port`, time.Second)
	if n := segments(); n != 2 {
		t.Errorf("%d segments in a page of 2", n)
	}
	hangup("osapi_max_limit = none", `level=ERROR.*old one stays in force.*osapi_max_limit`)
	if n := segments(); n != 2 {
		t.Errorf("%d segments after a bad file", n)
	}
	hangup("osapi_max_limit = 1\n[oslo_policy]\npolicy_file = "+policy, `level=ERROR.*old one stays in force.*policy`)
	if n := segments(); n != 2 {
		t.Errorf("%d segments after a bad policy", n)
	}
	hangup("debug = true", `taken over"=2 "waiting for a restart"=0`)
	if n := segments(); n != 3 {
		t.Errorf("%d segments without a limit", n)
	}
	for _, line := range p.Last(1000) {
		if strings.Contains(line, "topsecret") {
			t.Error(line)
		}
	}
	if code := p.Stop(t, 10*time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
}
