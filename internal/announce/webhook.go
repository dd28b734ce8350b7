package announce

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// Webhook is an endpoint that gets every message by POST.
type Webhook struct {
	URL     string
	Secret  string // of the signature; "": no signature
	Timeout time.Duration
	Agent   string // User-Agent
}

// Headers of a post. The signature is of the timestamp, a dot and the body.
const (
	HeaderDelivery  = "X-Salvor-Delivery"  // the message's id, the same when it is sent again
	HeaderEvent     = "X-Salvor-Event"     // its type
	HeaderTimestamp = "X-Salvor-Timestamp" // seconds since 1970, of this try
	HeaderSignature = "X-Salvor-Signature" // sha256= and HMAC-SHA256 in hexadecimal
)

// WebhookBatch bounds what is posted again after a takeover in the middle.
const WebhookBatch = 20

// webhook is the sink of one URL.
type webhook struct {
	conf   Webhook
	client *http.Client
}

// NewWebhook returns a sink that posts messages one after another.
func NewWebhook(c Webhook) Sink {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: c.Timeout, ResponseHeaderTimeout: c.Timeout}
	return newWebhook(c, transport)
}

func newWebhook(c Webhook, transport http.RoundTripper) *webhook {
	return &webhook{c, &http.Client{Transport: transport, Timeout: c.Timeout,
		// Signed messages go where they were sent, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Deliver posts until one fails. Any 2xx is a confirm.
func (w *webhook) Deliver(ctx context.Context, messages []ha.Message) (int, error) {
	for i, m := range messages {
		if err := w.post(ctx, m); err != nil {
			return i, err
		}
	}
	return len(messages), nil
}

// refusals are the answers that say that this message will never be taken. Others, also 401 or 404, are a mistake of
// somebody's who can mend it.
var refusals = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

func (w *webhook) post(ctx context.Context, m ha.Message) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.conf.URL, bytes.NewReader([]byte(m.Body)))
	if err != nil {
		return w.told(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": w.conf.Agent, HeaderDelivery: m.UUID, HeaderEvent: m.Type, HeaderTimestamp: at,
	} {
		req.Header.Set(name, value)
	}
	if w.conf.Secret != "" {
		req.Header.Set(HeaderSignature, Signature(w.conf.Secret, at, m.Body))
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return w.told(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case slices.Contains(refusals, resp.StatusCode):
		return fmt.Errorf("the webhook answered %d: %w", resp.StatusCode, ErrRefused)
	default:
		return fmt.Errorf("the webhook answered %d", resp.StatusCode)
	}
}

// Signature is what a receiver computes and compares, in constant time, with HeaderSignature.
func Signature(secret, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(timestamp + "." + body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// told is an error without the URL, whose path or query may be a secret, in one short line: net/http quotes what it cannot read, which
// may be long, and the post itself.
func (w *webhook) told(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	where := ""
	if u, bad := url.Parse(w.conf.URL); bad == nil && len(u.RequestURI()) > 1 {
		where = u.RequestURI()
	}
	return errors.New(config.NewCleaner("", config.NewSecret(w.conf.Secret), config.NewSecret(where)).Line(err.Error()))
}

// Close gives up idle connections.
func (w *webhook) Close() { w.client.CloseIdleConnections() }
