package app

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/announce"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/wire"
)

// shipSlower is by how much the lease of a shipper is slower than that of a recovery: nothing burns while it changes hands.
const shipSlower = 3

// makeAnnouncing reads who is to be told of changes. Without anybody nothing is written for it.
func (b *builder) makeAnnouncing() error {
	busses, err := b.busses()
	if err != nil {
		return err
	}
	b.destinations = slices.Concat(busses, b.webhooks())
	if len(b.destinations) == 0 {
		return nil
	}
	host := b.cfg.Engine.Host
	a := &store.Announce{Render: func(e ha.Event) string { return wire.NewEvent(e, host) }, Wake: func() {
		if b.shipper != nil {
			b.shipper.Wake()
		}
	}}
	for _, d := range b.destinations {
		a.Sinks = append(a.Sinks, d.ID)
	}
	b.announce = a
	return nil
}

// busses are the destinations of [oslo_messaging_notifications] driver.
func (b *builder) busses() ([]announce.Destination, error) {
	n := b.cfg.Notifications
	var all []announce.Destination
	for _, driver := range slices.Compact(slices.Sorted(slices.Values(n.Drivers))) {
		switch driver {
		case "messagingv2", "messaging":
			conf, err := rabbitConfig(b.cfg, driver == "messagingv2")
			if err != nil {
				return nil, err
			}
			r := b.cfg.Rabbit
			all = append(all, announce.Destination{ID: driver, Name: driver, Sink: announce.NewRabbit(conf), Batch: announce.RabbitBatch,
				Pause: announce.Growing(r.RetryInterval, r.RetryBackoff, r.RetryMax), Tries: n.Retry + 1})
		case "log":
			all = append(all, announce.Destination{ID: driver, Name: driver, Sink: announce.NewLog(b.log), Batch: announce.RabbitBatch,
				Pause: announce.Growing(time.Second, 0, time.Second)})
		case "noop", "test":
		case "routing":
			b.log.Warn("[oslo_messaging_notifications] driver = routing is not supported: by it nobody is told; name messagingv2 or log instead")
		default:
			b.log.Warn("[oslo_messaging_notifications] driver is unknown: by it nobody is told", "driver", driver, "known", "messagingv2, messaging, log, noop")
		}
	}
	return all, nil
}

// webhooks are the destinations of [salvor] webhook_url. Rows bear a hash: a URL may hold a secret.
func (b *builder) webhooks() []announce.Destination {
	s := b.cfg.Salvor
	if len(s.WebhookURLs) > 0 && s.WebhookSecret.IsZero() {
		b.log.Warn("posts to webhooks are not signed: set [salvor] webhook_secret")
	}
	var all []announce.Destination
	for i, u := range s.WebhookURLs {
		hash := sha256.Sum256([]byte(u))
		d := announce.Destination{ID: "webhook-" + hex.EncodeToString(hash[:8]), Name: "webhook-" + strconv.Itoa(i+1),
			Sink:  announce.NewWebhook(announce.Webhook{URL: u, Secret: s.WebhookSecret.Reveal(), Timeout: s.WebhookTimeout, Agent: userAgent()}),
			Batch: announce.WebhookBatch, Pause: announce.Doubling(time.Second, time.Minute), MaxAge: s.WebhookGiveUp}
		if parsed, err := url.Parse(u); err == nil {
			b.log.Info("webhook", "name", d.Name, "host", parsed.Host)
		}
		all = append(all, d)
	}
	return all
}

// rabbitConfig is RabbitMQ as transport_url and [oslo_messaging_rabbit] have it.
func rabbitConfig(c *config.Config, envelope bool) (announce.Rabbit, error) {
	u, err := config.ParseTransportURL(c.Notifications.TransportURL)
	if err != nil {
		return announce.Rabbit{}, err
	}
	r, err := c.Rabbit.With(u.Query)
	if err != nil {
		return announce.Rabbit{}, err
	}
	conf := announce.Rabbit{
		VHost: u.VHost, Exchange: c.Notifications.Exchange, Envelope: envelope, Durable: r.Durable, AutoDelete: r.AutoDelete,
		Mirrored: r.HAQueues, Quorum: r.Quorum, Heartbeat: r.Heartbeat, Product: userAgent(),
	}
	if r.HAQueues && r.Quorum {
		return conf, errors.New("[oslo_messaging_rabbit] rabbit_ha_queues and rabbit_quorum_queue are both set: queues are mirrored or quorum queues, not both")
	}
	for _, n := range u.Nodes {
		conf.Nodes = append(conf.Nodes, announce.RabbitNode{Address: n.Address, User: n.User, Password: n.Password.Reveal()})
	}
	if r.SSL {
		conf.TLS, err = rabbitTLS(r)
	}
	return conf, err
}

// rabbitTLS trusts ssl_ca_file, or the machine's CAs. The name in the certificate is checked only when that is asked for, as
// in oslo.messaging; the chain always is.
func rabbitTLS(r config.Rabbit) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("[oslo_messaging_rabbit] ssl_ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("[oslo_messaging_rabbit] ssl_ca_file: %s holds no certificate", r.CAFile)
		}
	}
	if r.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("[oslo_messaging_rabbit] ssl_cert_file, ssl_key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if !r.VerifyHostname {
		c.InsecureSkipVerify = true //nolint:gosec // the chain is verified below; only the name is not
		c.VerifyConnection = func(s tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				options.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return c, nil
}

// addShipper ships what this process and others have written. It stops last: what the others write while they stop is
// shipped if there is time, and waits for the next process else.
func (b *builder) addShipper(rows *store.Store) {
	if b.announce == nil {
		return
	}
	owner := b.app.name
	if owner == "" {
		owner = engineName(b.cfg.Engine.Host)
	}
	s, m := b.cfg.Salvor, b.metrics
	b.shipper = announce.New(announce.Config{
		Owner: owner, TTL: shipSlower * s.LeaseTTL, Tick: shipSlower * s.LeaseTick, Poll: max(s.PollInterval, time.Second),
		MaxRows: s.OutboxMaxRows, Log: b.log,
		Observe: announce.Observer{Shipped: m.Shipped, Failed: m.ShipFailed, Dropped: m.ShipDropped, Backlog: m.Outbox},
	}, rows, b.destinations)
	b.app.parts = append(b.app.parts, part{"notifications", func(ctx context.Context) error { b.shipper.Run(ctx); return nil }})
}
