package announce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// rabbitServer is Debian's script without its change of user.
const rabbitServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// broker is a RabbitMQ node of the test's own: its port, name, data and epmd are nobody else's.
type broker struct {
	tb      testing.TB
	address string
	env     []string
	out     bytes.Buffer
	node    *exec.Cmd
}

func newBroker(tb testing.TB) *broker {
	tb.Helper()
	epmd, err := exec.LookPath("epmd")
	if _, serr := os.Stat(rabbitServer); serr != nil || err != nil {
		if os.Getenv("SALVOR_TEST_ALL") != "" {
			tb.Fatal("no RabbitMQ on this machine (rabbitmq-server)")
		}
		tb.Skip("SKIPPED: no RabbitMQ on this machine (rabbitmq-server)")
	}
	ports, err := testkit.FreePorts(3) // nobody takes them while the node is away
	if err != nil {
		tb.Fatal(err)
	}
	dir, port, names := tb.TempDir(), ports[0], ports[1]
	b := &broker{tb: tb, address: fmt.Sprintf("127.0.0.1:%d", port)}
	for name, text := range map[string]string{"rabbitmq.conf": "listeners.tcp.default = " + b.address + "\n", "enabled_plugins": "[].\n", "env.conf": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	b.env = append(os.Environ(), "HOME="+dir, fmt.Sprintf("ERL_EPMD_PORT=%d", names), "ERL_EPMD_ADDRESS=127.0.0.1",
		fmt.Sprintf("RABBITMQ_NODENAME=salvor%d@localhost", port), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", ports[2]),
		"RABBITMQ_CONF_ENV_FILE="+filepath.Join(dir, "env.conf"), "RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "enabled_plugins"), "RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "data"),
		"RABBITMQ_LOG_BASE="+filepath.Join(dir, "log"), "RABBITMQ_LOGS=-", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
	directory := exec.CommandContext(context.Background(), epmd, "-address", "127.0.0.1", "-port", fmt.Sprint(names))
	if err := directory.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if b.node != nil {
			b.kill()
		}
		_ = directory.Process.Kill()
		_ = directory.Wait()
	})
	b.start()
	return b
}

// start boots the node, with the data that it had, and waits until it takes a connection.
func (b *broker) start() {
	b.tb.Helper()
	b.out.Reset()
	b.node = exec.CommandContext(context.Background(), rabbitServer)
	b.node.Env, b.node.Stdout, b.node.Stderr = b.env, &b.out, &b.out
	b.node.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.node.Start(); err != nil {
		b.tb.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Minute)
	for {
		conn, err := amqp.Dial(b.url())
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			b.kill()
			b.tb.Fatalf("RabbitMQ did not start: %v\n%s", err, b.out.String())
		}
		<-time.After(200 * time.Millisecond)
	}
}

// kill ends the node's virtual machine, and what it has started, at once.
func (b *broker) kill() {
	_ = syscall.Kill(-b.node.Process.Pid, syscall.SIGKILL)
	_ = b.node.Wait()
	b.node = nil
}

// full makes the queues of notifications take so many messages and refuse what comes above, as an operator's policy does.
func (b *broker) full(most int) {
	b.tb.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(filepath.Dir(rabbitServer), "rabbitmqctl"), "set_policy", "full", "^versioned_notifications",
		fmt.Sprintf(`{"max-length": %d, "overflow": "reject-publish"}`, most), "--apply-to", "queues")
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		b.tb.Fatalf("%v\n%s", err, out)
	}
}

func (b *broker) url() string { return "amqp://guest:guest@" + b.address + "/" }

// conf are the lines of masakari.conf that tell of changes to this broker.
func (b *broker) conf() string {
	return "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabbit://guest:guest@" + b.address + "/\n" +
		"[oslo_messaging_rabbit]\namqp_durable_queues = true\nrabbit_interval_max = 2\n"
}

// event is a versioned notification as somebody got it.
type event struct {
	ID        string         `json:"message_id"`
	Type      string         `json:"event_type"`
	Publisher string         `json:"publisher_id"`
	Priority  string         `json:"priority"`
	Unique    string         `json:"_unique_id"`
	Payload   map[string]any `json:"payload"`
}

func (e event) data() map[string]any {
	return e.Payload["masakari_object.data"].(map[string]any)
}

// object names what the event is about by what is in each of its events: those before the creation have no uuid.
func (e event) object() string {
	d := e.data()
	if d["source_host_uuid"] != nil {
		p, _ := json.Marshal(d["payload"])
		return fmt.Sprint("notification ", d["source_host_uuid"], d["generated_time"], string(p))
	}
	kind := "segment "
	if d["failover_segment"] != nil {
		kind = "host "
	}
	return kind + d["name"].(string)
}

// got is what arrived: each message once, in the order of its first arrival, and how many came again.
type got struct {
	mu    sync.Mutex
	all   []event
	known map[string]bool
	again int
}

func (g *got) add(e event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = map[string]bool{}
	}
	if g.known[e.ID] {
		g.again++
		return
	}
	g.known[e.ID] = true
	g.all = append(g.all, e)
}

func (g *got) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// byObject are the types of the events of each object, in order, by priority: those have queues of their own.
func (g *got) byObject() map[string][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string][]string{}
	for _, e := range g.all {
		key := e.Priority + " " + e.object()
		all[key] = append(all[key], e.Type)
	}
	return all
}

// drain takes everything out of both queues.
func (b *broker) drain(tb testing.TB, g *got) {
	tb.Helper()
	conn, err := amqp.Dial(b.url())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	for _, queue := range []string{"versioned_notifications.info", "versioned_notifications.error"} {
		channel, err := conn.Channel()
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil { // as a consumer does
			tb.Fatalf("%s is not as oslo.messaging declares it: %v", queue, err)
		}
		for {
			d, ok, err := channel.Get(queue, true)
			if err != nil {
				tb.Fatalf("%s: %v", queue, err)
			}
			if !ok {
				break
			}
			g.add(opened(tb, d))
		}
	}
}

// opened reads a delivery as a consumer of messagingv2 does.
func opened(tb testing.TB, d amqp.Delivery) event {
	tb.Helper()
	var envelope struct {
		Version string `json:"oslo.version"`
		Message string `json:"oslo.message"`
	}
	var e event
	if err := json.Unmarshal(d.Body, &envelope); err != nil || envelope.Version != "2.0" {
		tb.Fatalf("no envelope of oslo.messaging (%v): %s", err, d.Body)
	}
	if err := json.Unmarshal([]byte(envelope.Message), &e); err != nil || e.ID == "" || e.Unique == "" {
		tb.Fatalf("no message (%v): %s", err, envelope.Message)
	}
	if d.ContentType != "application/json" || d.DeliveryMode != amqp.Persistent || d.Exchange != "masakari" ||
		d.RoutingKey != map[string]string{"INFO": "versioned_notifications.info", "ERROR": "versioned_notifications.error"}[e.Priority] {
		tb.Fatalf("sent as %q, mode %d, by %s, to %s", d.ContentType, d.DeliveryMode, d.Exchange, d.RoutingKey)
	}
	return e
}

// serve starts an api with an engine.
func serve(tb testing.TB, c *testkit.Cluster, name string) (*testkit.Process, string) {
	tb.Helper()
	p := testkit.Start(tb, name, "serve", "--config-file", c.Conf, "--listen", "127.0.0.1:0")
	url := p.URL(tb)
	return p, url
}
