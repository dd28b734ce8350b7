package announce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// answers is a transport that answers by itself.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Location": {"http://elsewhere.example.com/"}}, Body: io.NopCloser(strings.NewReader("x"))}
}

const hookURL = "https://hook.example.com/in?key=hush"

func TestSignature(t *testing.T) {
	// echo -n '1795950957.{"a":1}' | openssl dgst -sha256 -hmac key
	const want = "sha256=b6a3dc28e38bd517e9301af22f7d93b9341c99cdbacdc21de07cb53acaa4b91f"
	if got := Signature("key", "1795950957", `{"a":1}`); got != want {
		t.Errorf("got %s", got)
	}
}

func TestWebhookPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *http.Request
		var body string
		w := newWebhook(Webhook{URL: hookURL, Secret: "key", Timeout: time.Second, Agent: "salvor/1"}, answers(func(r *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(r.Body)
			seen, body = r, string(b)
			return answer(204), err
		}))
		n, err := w.Deliver(t.Context(), []ha.Message{{UUID: "m1", Type: "host.update.end", Body: `{"a":1}`}})
		if n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "salvor/1", HeaderDelivery: "m1", HeaderEvent: "host.update.end",
			HeaderTimestamp: "946684800", HeaderSignature: Signature("key", "946684800", `{"a":1}`), // a bubble begins with 2000
		} {
			if got := seen.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if seen.Method != http.MethodPost || seen.URL.String() != hookURL || body != `{"a":1}` {
			t.Errorf("%s %s %s", seen.Method, seen.URL, body)
		}
	})
}

// What an answer means; no error says where the endpoint is, whose path or query may be a secret.
func TestWebhookAnswers(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 202: "", 299: "", 301: "later", 307: "later", 400: "refused", 401: "later", 404: "later", 408: "later", 410: "later", 413: "refused",
		415: "refused", 422: "refused", 429: "later", 500: "later", 503: "later",
	} {
		posts := 0
		w := newWebhook(Webhook{URL: hookURL, Timeout: time.Second}, answers(func(r *http.Request) (*http.Response, error) {
			if posts++; r.URL.String() != hookURL || r.Header.Get(HeaderSignature) != "" {
				t.Errorf("%d: posted to %s with %v", status, r.URL, r.Header)
			}
			return answer(status), nil
		}))
		n, err := w.Deliver(t.Context(), []ha.Message{{UUID: "m1"}, {UUID: "m2"}})
		got := "later"
		switch {
		case err == nil && n == 2:
			got = ""
		case errors.Is(err, ErrRefused):
			got = "refused"
		}
		if got != want || err != nil && (n != 0 || posts != 1 || strings.Contains(err.Error(), "example.com")) {
			t.Errorf("%d: %q, want %q: %d delivered by %d posts, %v", status, got, want, n, posts, err)
		}
	}
}

func TestWebhookHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebhook(Webhook{URL: hookURL, Timeout: 10 * time.Second}, answers(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		began := time.Now()
		if n, err := w.Deliver(t.Context(), []ha.Message{{UUID: "m1"}}); n != 0 || err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it waited %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Deliver(ctx, []ha.Message{{UUID: "m1"}}); err == nil || time.Since(began) > 12*time.Second {
			t.Errorf("it outlives its context: %v", err)
		}
	})
}

// What is no web server may say anything, also what was posted to it.
func TestWebhookThatIsNone(t *testing.T) {
	for _, says := range []string{strings.Repeat("x", 100000) + "\r\n\r\n", "", "HTTP/1.1 302 Found\r\nLocation: http://%zz/in?key=hush\r\n\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			line, _ := bufio.NewReader(conn).ReadString('\n')
			if says == "" { // an echo
				says = line + "\r\n"
			}
			_, _ = io.WriteString(conn, says)
		}()
		w := NewWebhook(Webhook{URL: "http://" + l.Addr().String() + "/in?key=hush", Timeout: 10 * time.Second})
		_, err = w.Deliver(t.Context(), []ha.Message{{UUID: "m1"}})
		l.Close()
		<-ended
		w.Close()
		if err == nil || len(err.Error()) > 600 || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.600q", fmt.Sprint(err))
		}
	}
}
