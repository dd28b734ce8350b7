package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// builderOf is a builder that has read who is to be told, and what it said.
func builderOf(t *testing.T, conf string) (*builder, string, error) {
	t.Helper()
	var log bytes.Buffer
	b := &builder{cfg: load(t, conf), log: slog.New(slog.NewTextHandler(&log, nil)), app: &App{}, metrics: telemetry.NewMetrics("test")}
	err := b.makeAnnouncing()
	return b, log.String(), err
}

func TestWhoIsTold(t *testing.T) {
	const group = "[oslo_messaging_notifications]\n"
	for _, tt := range []struct {
		conf string
		want []string // names of destinations
		said string
	}{
		{"", nil, ""},
		{group + "driver = noop\ndriver = test\n", nil, ""},
		{group + "driver = routing\n", nil, "routing is not supported"},
		{group + "driver = messagingv3\n", nil, "messagingv3"},
		{group + "driver = messagingv2\ndriver = log\ndriver = messaging\ndriver = messagingv2\n", []string{"log", "messaging", "messagingv2"}, ""},
		{"[salvor]\nwebhook_url = http://a.example.com/k?key=hush\nwebhook_url = https://b.example.com/\n", []string{"webhook-1", "webhook-2"}, "not signed"},
		{"[salvor]\nwebhook_url = http://a.example.com/k?key=hush\nwebhook_secret = hush\n", []string{"webhook-1"}, "a.example.com"},
	} {
		b, log, err := builderOf(t, tt.conf)
		if err != nil {
			t.Fatal(err)
		}
		var got, sinks []string
		for _, d := range b.destinations {
			got, sinks = append(got, d.Name), append(sinks, d.ID)
			if d.Batch == 0 || d.Pause(1) <= 0 || d.Pause(100) > time.Minute {
				t.Errorf("%+v", d)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || !strings.Contains(log, tt.said) || strings.Contains(log, "hush") {
			t.Errorf("%q: %s\n%s", tt.conf, diff, log)
		}
		if (b.announce == nil) != (len(tt.want) == 0) || b.announce != nil && !reflect.DeepEqual(b.announce.Sinks, sinks) {
			t.Errorf("%q: rows for %+v", tt.conf, b.announce)
		}
		if strings.Contains(strings.Join(sinks, " "), "example") {
			t.Errorf("a URL is written into the rows: %v", sinks)
		}
	}
	b, _, err := builderOf(t, "[DEFAULT]\nhost = ctl-7\n"+group+"driver = log\n")
	if err != nil || !strings.Contains(b.announce.Render(ha.Event{Segment: &ha.Segment{}}), `"masakari-api:ctl-7"`) {
		t.Errorf("the publisher is not [DEFAULT] host: %v", err)
	}
}

// TestRabbitAsOslo: transport_url and [oslo_messaging_rabbit] arrive, the URL's query above the group.
func TestRabbitAsOslo(t *testing.T) {
	c := load(t, "[DEFAULT]\ntransport_url = rabbit://u:p@mq-1:5671,v:q@mq-2/os?ssl=1&amqp_durable_queues=true\ncontrol_exchange = other\n"+
		"[oslo_messaging_rabbit]\namqp_auto_delete = true\nrabbit_ha_queues = true\nheartbeat_timeout_threshold = 7\n")
	got, err := rabbitConfig(c, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.TLS == nil || got.TLS.VerifyConnection == nil {
		t.Error("no TLS, or nothing is verified")
	}
	got.TLS = nil
	if text := cmp.Diff(`{[{mq-1:5671 u p} {mq-2:5672 v q}] os other true <nil> true true true false 7s salvor/dev}`, fmt.Sprint(got)); text != "" {
		t.Error(text)
	}
	cert, key := certificate(t)
	for conf, want := range map[string]string{
		"ssl = true\nssl_ca_file = " + cert + "\nssl_cert_file = " + cert + "\nssl_key_file = " + key + "\n": "",
		"ssl = true\nssl_ca_file = " + key + "\n":                                                            "holds no certificate",
		"ssl = true\nssl_ca_file = /not/there\n":                                                             "ssl_ca_file",
		"ssl = true\nssl_cert_file = " + cert + "\nssl_key_file = " + cert + "\n":                            "ssl_key_file",
		"rabbit_ha_queues = true\nrabbit_quorum_queue = true\n":                                              "not both",
	} {
		_, err := rabbitConfig(load(t, "[oslo_messaging_rabbit]\n"+conf), true)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", conf, err, want)
		}
	}
	if _, err := rabbitConfig(load(t, "[DEFAULT]\ntransport_url = rabbit://u:hush@mq/?ssl=perhaps\n"), true); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
