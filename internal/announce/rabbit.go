package announce

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// Rabbit says where RabbitMQ is and how oslo.messaging would speak to it.
type Rabbit struct {
	Nodes    []RabbitNode // tried in order; after a failure the next one
	VHost    string
	Exchange string // control_exchange
	// Envelope wraps messages as driver messagingv2 does; false: plain, as messaging.
	Envelope bool
	TLS      *tls.Config // nil: none; the server's name is filled in
	// Durable, AutoDelete, Mirrored and Quorum must be as the consumers declare the queues, else RabbitMQ refuses.
	Durable, AutoDelete, Mirrored, Quorum bool
	Heartbeat                             time.Duration
	Product                               string // shown by RabbitMQ's lists of connections
}

// RabbitNode is one node of a cluster.
type RabbitNode struct{ Address, User, Password string }

const (
	rabbitDial   = 10 * time.Second // for a connection and its handshake
	rabbitAnswer = 30 * time.Second // for a message and its confirm: a broker in alarm reads nothing
	persistent   = 2
)

// rabbit is the sink of the drivers messagingv2 and messaging.
type rabbit struct {
	conf     Rabbit
	node     int
	raw      net.Conn // below conn: closed, it ends every call at once
	conn     *amqp.Connection
	channel  *amqp.Channel
	returned chan amqp.Return
	declared map[string]bool
}

// NewRabbit returns a sink that connects with the first delivery.
func NewRabbit(c Rabbit) Sink { return &rabbit{conf: c} }

// RabbitBatch is how many messages are handed over at a time, and what may come again after a takeover in the middle.
const RabbitBatch = 200

// Deliver publishes one message after another, each when the broker has confirmed the one before. Were several in flight, a full
// queue could refuse one and take the next, which a consumer had made room for, and the order would be lost.
func (r *rabbit) Deliver(ctx context.Context, messages []ha.Message) (int, error) {
	for i, m := range messages {
		if err := r.deliver(ctx, m); err != nil {
			r.Close()
			r.node++
			return i, err
		}
	}
	return len(messages), nil
}

// deliver publishes a message and awaits the confirm. One that no queue took is not confirmed.
func (r *rabbit) deliver(ctx context.Context, m ha.Message) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	// The library's calls know no context: what ends them is the end of the connection.
	ctx, cancel := context.WithTimeout(ctx, rabbitAnswer)
	defer cancel()
	raw := r.raw
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	confirm, err := r.publish(ctx, m)
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("no confirm from RabbitMQ: %w", err)
	case !acked:
		return errors.New("RabbitMQ did not take the message: its queue is full, or the connection was lost")
	}
	// A returned message's return comes before its confirm.
	select {
	case back := <-r.returned:
		return fmt.Errorf("RabbitMQ has no queue %s: %s", back.RoutingKey, back.ReplyText)
	default:
		return nil
	}
}

func (r *rabbit) publish(ctx context.Context, m ha.Message) (*amqp.DeferredConfirmation, error) {
	topic := wire.EventTopic + "." + strings.ToLower(wire.EventPriority(m.Type))
	if err := r.declare(topic); err != nil {
		return nil, err
	}
	body := wire.EventV1(m)
	if r.conf.Envelope {
		body = wire.EventV2(m)
	}
	return r.channel.PublishWithDeferredConfirmWithContext(ctx, r.conf.Exchange, topic, true, false, amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: persistent, MessageId: m.UUID, Body: body,
	})
}

// declare makes exchange, queue and binding as oslo.messaging's rabbit driver does before it sends a notification, once per
// connection: messages are kept although nobody listens yet.
func (r *rabbit) declare(topic string) error {
	if r.declared[topic] {
		return nil
	}
	c, durable := r.conf, r.conf.Durable || r.conf.Quorum
	args := amqp.Table{}
	if c.Mirrored {
		args["x-ha-policy"] = "all"
	}
	if c.Quorum {
		args["x-queue-type"] = "quorum"
	}
	err := r.channel.ExchangeDeclare(c.Exchange, "topic", durable, c.AutoDelete, false, false, nil)
	if err == nil {
		_, err = r.channel.QueueDeclare(topic, durable, c.AutoDelete, false, false, args)
	}
	if err == nil {
		err = r.channel.QueueBind(topic, topic, c.Exchange, false, nil)
	}
	var amqpErr *amqp.Error
	switch {
	case errors.As(err, &amqpErr) && amqpErr.Code == amqp.PreconditionFailed:
		return fmt.Errorf("RabbitMQ has %s or its exchange declared otherwise (set [oslo_messaging_rabbit] amqp_durable_queues, amqp_auto_delete, "+
			"rabbit_quorum_queue as the consumers have it): %w", topic, err)
	case err != nil:
		return fmt.Errorf("declaring %s: %w", topic, err)
	}
	r.declared[topic] = true
	return nil
}

// connect opens a connection to the present node, unless there is one.
func (r *rabbit) connect(ctx context.Context) error {
	if r.channel != nil && !r.channel.IsClosed() {
		return nil
	}
	r.Close()
	node := r.conf.Nodes[r.node%len(r.conf.Nodes)]
	host, _, _ := net.SplitHostPort(node.Address)
	config := amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: node.User, Password: node.Password}}, Vhost: r.conf.VHost,
		Heartbeat: r.conf.Heartbeat, Locale: "en_US",
		Properties: amqp.Table{"product": r.conf.Product, "connection_name": r.conf.Product + " notifications", "capabilities": amqp.Table{
			"publisher_confirms": true, "connection.blocked": true, "consumer_cancel_notify": true}},
		Dial: func(network, address string) (_ net.Conn, err error) {
			r.raw, err = dial(ctx, network, address)
			return r.raw, err
		},
	}
	scheme := "amqp://"
	if r.conf.TLS != nil {
		config.TLSClientConfig, scheme = r.conf.TLS.Clone(), "amqps://"
		config.TLSClientConfig.ServerName = host
	}
	conn, err := amqp.DialConfig(scheme+node.Address+"/", config)
	if err != nil {
		return fmt.Errorf("connecting to RabbitMQ at %s: %w", node.Address, err)
	}
	r.conn = conn
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		r.Close()
		return fmt.Errorf("opening a channel at %s: %w", node.Address, err)
	}
	r.channel, r.declared = channel, map[string]bool{}
	// Room for the one in flight: the library waits for whoever does not listen.
	r.returned = channel.NotifyReturn(make(chan amqp.Return, 1))
	return nil
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: rabbitDial, KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// The library lifts it after the handshake.
	if err := conn.SetDeadline(time.Now().Add(rabbitDial)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// TryRabbit connects to one node of c's, logs in and opens a channel, and declares and sends nothing.
func TryRabbit(ctx context.Context, c Rabbit, node RabbitNode) error {
	c.Nodes = []RabbitNode{node}
	r := &rabbit{conf: c}
	defer r.Close()
	return r.connect(ctx)
}

// Close ends the connection, and does not wait long for the broker's agreement.
func (r *rabbit) Close() {
	if r.conn != nil {
		_ = r.conn.CloseDeadline(time.Now().Add(time.Second))
	}
	r.conn, r.channel, r.declared = nil, nil, nil
}
