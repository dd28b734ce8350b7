package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/wire"
)

// TestWhatShowMaskedIsMissing: a file that was made of what config show printed lacks its secrets, and with them, perhaps, the database:
// config check says so for each, until it is mended. Other comments are nobody's business.
func TestWhatShowMaskedIsMissing(t *testing.T) {
	c := conf(t, "[database]\nconnection = mysql+pymysql://salvor:topsecret@db-1/salvor\n[DEFAULT]\nos_privileged_user_password = topsecret\n"+
		"[salvor]\nwebhook_url = https://a.example.com/in?key=KEY\nwebhook_secret = topsecret\n")
	_, shown, _ := command(t, nil, "config", "show", "--config-file", c)
	copied := conf(t, shown)
	code, stdout, _ := command(t, nil, "config", "check", "--config-file", copied)
	for _, want := range []string{"[database] connection", "[DEFAULT] os_privileged_user_password", "[salvor] webhook_url", "[salvor] webhook_secret"} {
		if !strings.Contains(stdout, want+" was masked by config show: the line is a comment, and without effect\n            do: put the secret in") || code != 1 {
			t.Errorf("%d, nothing about %s in\n%s", code, want, stdout)
		}
	}
	for _, comment := range []string{"# connection = ***", "#connection = mysql+pymysql://salvor@db-1/salvor", "#connection=***", "#debug = ***", "# *** = ***", "#"} {
		_, stdout, _ := command(t, nil, "config", "check", "--config-file", conf(t, "[database]\n"+comment+"\n"))
		if strings.Contains(stdout, "was masked") {
			t.Errorf("%s: %s", comment, stdout)
		}
	}
}

// TestShowAllCanBeChecked: with every option at its default as text, nothing is wrong that was not before.
func TestShowAllCanBeChecked(t *testing.T) {
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "1", "--instances", "0")
	sim.out.await(t, `listening on http://\S+`)
	_, shown, _ := command(t, nil, "config", "show", "--all", "--config-file", conf(t, sim.out.String()))
	if !strings.Contains(shown, "\npolicy_file = policy.yaml\n") || !strings.Contains(shown, "password = ***") {
		t.Fatal(shown)
	}
	code, stdout, _ := command(t, nil, "config", "check", "--config-file", conf(t, strings.NewReplacer("#password = ***", "password = secret",
		"#os_privileged_user_password = ***", "os_privileged_user_password = secret").Replace(shown)))
	if code != 0 || !strings.Contains(stdout, "ok    policy    no file policy.yaml: the default rules hold") {
		t.Errorf("%d\n%s", code, stdout)
	}
}

// TestCheckListens: an address that this machine does not have is bad, one that is in use is not, and what was tried is free again.
func TestCheckListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	check := func(host string) string {
		_, stdout, _ := command(t, nil, "config", "check", "--config-file", conf(t, "[DEFAULT]\nmasakari_api_listen = "+host+"\nmasakari_api_listen_port = "+port+"\n"+
			"[keystone_authtoken]\nauth_url = http://127.0.0.1:1/v3\nusername = salvor\npassword = secret\n"))
		return stdout
	}
	if out := check("127.0.0.1"); !strings.Contains(out, "ok    listen    the api's address is 127.0.0.1:"+port+"; not tried: it is in use, perhaps by salvor itself\n") {
		t.Error(out)
	}
	_ = l.Close()
	for range 2 {
		if out := check("127.0.0.1"); !strings.Contains(out, "ok    listen    the api's address is 127.0.0.1:"+port+"\n") {
			t.Error(out)
		}
	}
	// 192.0.2.0/24 is no machine's
	if out := check("192.0.2.9"); !strings.Contains(out, "BAD   listen    cannot listen on 192.0.2.9:"+port) || !strings.Contains(out, "mend masakari_api_listen (an address") {
		t.Error(out)
	}
}

// TestListenIsTaken: the second process with one file says which option is in its way, and what to do.
func TestListenIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, stderr := command(t, nil, "serve", "--listen", l.Addr().String(), "--config-file", conf(t, ""))
	if code != 1 || !strings.Contains(stderr, "cannot listen on "+l.Addr().String()) || !strings.Contains(stderr, "masakari_api_listen_port, or --listen") {
		t.Errorf("of the api: %d %s", code, stderr)
	}
	dir := t.TempDir()
	c := filepath.Join(dir, "masakari.conf")
	text := "[DEFAULT]\nstate_path = " + dir + "\n[salvor]\nmetrics_listen = " + l.Addr().String() + "\n"
	if err := os.WriteFile(c, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = command(t, nil, "serve", "--listen", "127.0.0.1:0", "--config-file", c)
	if code != 1 || !strings.Contains(stderr, "[salvor] metrics_listen: cannot listen on "+l.Addr().String()) ||
		!strings.Contains(stderr, "address already in use; each process") || !strings.Contains(stderr, "OS_SALVOR__METRICS_LISTEN=HOST:PORT") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestDoctorNamesEachOption: several that are wrong are a line each, which begins with its place.
func TestDoctorNamesEachOption(t *testing.T) {
	c := conf(t, "[DEFAULT]\nosapi_max_limit = many\nuse_ssl = perhaps\ndebugg = true\n")
	code, stdout, _ := command(t, nil, "doctor", "--config-file", c)
	for _, line := range []string{"2: [DEFAULT] osapi_max_limit", "3: [DEFAULT] use_ssl", "4: "} {
		if !strings.Contains(stdout, "  options      "+c+":"+line) || code != 2 {
			t.Errorf("%d, no %q in\n%s", code, line, stdout)
		}
	}
}

// TestClearSaysWhatIsLeft: instances in error are told of only where there are some.
func TestClearSaysWhatIsLeft(t *testing.T) {
	done := []wire.EpisodeItem{{Kind: "instance", State: "done"}, {Kind: "instance", State: "skipped"}, {Kind: "blob", State: "done"}}
	for _, tt := range []struct {
		items []wire.EpisodeItem
		runs  []wire.EpisodeRun
		reset bool
		want  string
	}{
		{done[1:], []wire.EpisodeRun{{Kind: "instance", State: "done"}, {Kind: "blob", State: "open"}}, true, "none of its instances was set to error\n"},
		{done, nil, true, "set to error: 1, reset to active within seconds if they still are; what came of it: salvor episode show e-1\n"},
		{done, nil, false, "set to error: 1, which stay so; which: salvor episode show e-1\n"},
		{nil, []wire.EpisodeRun{{Kind: "instance", State: "open"}}, false, "what it was doing ends within seconds; what came of it: salvor episode show e-1\n"},
	} {
		got := describeClear(wire.EpisodeDetails{Episode: wire.Episode{UUID: "e-1", Host: "cmp-01"}, Items: tt.items, Runs: tt.runs}, tt.reset)
		if got[:len("episode e-1 of cmp-01 is cleared; ")] != "episode e-1 of cmp-01 is cleared; " || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
