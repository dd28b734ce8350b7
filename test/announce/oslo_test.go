package announce

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// listener is a consumer as OpenStack's services are: oslo.messaging's own notification listener.
const listener = `
import json, sys
from oslo_config import cfg
import oslo_messaging

conf = cfg.ConfigOpts()
transport = oslo_messaging.get_notification_transport(conf, url=sys.argv[1])
conf([], project='listener')
conf.set_override('amqp_durable_queues', True, group='oslo_messaging_rabbit')

class Endpoint:
    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        self.say('INFO', publisher_id, event_type, payload, metadata)
    def error(self, ctxt, publisher_id, event_type, payload, metadata):
        self.say('ERROR', publisher_id, event_type, payload, metadata)
    def say(self, priority, publisher_id, event_type, payload, metadata):
        sys.stdout.write(json.dumps(dict(priority=priority, publisher_id=publisher_id, event_type=event_type, payload=payload,
                                         message_id=metadata['message_id'], timestamp=metadata['timestamp'])) + '\n')
        sys.stdout.flush()

target = oslo_messaging.Target(topic='versioned_notifications', exchange='masakari')
server = oslo_messaging.get_notification_listener(transport, [target], [Endpoint()], executor='threading')
conf.set_override('executor_thread_pool_size', 1) # in order
server.start()
print('ready', flush=True)
server.wait()
`

// python is Debian's: another one in the path has none of its packages.
const python = "/usr/bin/python3"

// TestOsloListener: a real consumer of OpenStack's declares the same queues, and receives and parses every event.
func TestOsloListener(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import oslo_messaging, kombu").CombinedOutput(); err != nil {
		if os.Getenv("SALVOR_TEST_ALL") != "" {
			t.Fatalf("no oslo.messaging on this machine: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED: no oslo.messaging on this machine (python3-oslo.messaging, python3-kombu): %v", err)
	}
	b := newBroker(t)
	for _, driver := range []string{"messagingv2", "messaging"} {
		t.Run(driver, func(t *testing.T) {
			events := listen(t, b, driver)
			c := testkit.NewCluster(t, "sqlite:///"+t.TempDir()+"/salvor.sqlite", 5, strings.Replace(b.conf(), "= messagingv2", "= "+driver, 1))
			_, api := serve(t, c, "serve")
			l := newLoad(t, api)
			rack(l, "host-1", "host-3")
			l.segment(1)
			testkit.Must(t, 200, "POST", c.Sim+"/sim/instances", map[string]any{"host": "host-1", "count": 1, "metadata": map[string]any{"HA_Enabled": "True"}})
			dies(l, c.Sim, "host-1")
			testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
				return l.missing(events) == 0, fmt.Sprintf("%d of %d events", events.count(), l.counted())
			})
			l.check("oslo.messaging", events)
		})
	}
}

// listen starts the listener and returns what it gets.
func listen(t *testing.T, b *broker, name string) *got {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, python, "-c", listener, "rabbit://guest:guest@"+b.address+"/")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	events, ready, done := &got{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				close(ready)
				continue
			}
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%s: %v: %s", name, err, lines.Text())
				return
			}
			events.add(e)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-done:
		t.Fatal("the listener ended")
	case <-time.After(3 * time.Minute):
		t.Fatal("the listener did not start")
	}
	return events
}
