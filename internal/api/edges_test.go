package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// logged is a log that a test can read.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// server is the API on a true connection, with a log to read.
func server(t *testing.T, cfg Config, r rows) (*httptest.Server, *logged) {
	t.Helper()
	out := &logged{}
	cfg.Log = slog.New(slog.NewTextHandler(out, nil))
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(cfg, bare(t, cfg, r))
	s.Start()
	t.Cleanup(s.Close)
	return s, out
}

// dial sends the text as it is, and returns the connection to read from.
func dial(t *testing.T, s *httptest.Server, text string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func answer(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const post = "POST /v1/segments HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\nAccept: application/json\r\n"

// A body that stalls is the client's fault, and no defect of salvor's.
func TestABodyThatDoesNotCome(t *testing.T) {
	s, log := server(t, Config{RequestTimeout: 50 * time.Millisecond}, rows{})
	status, body := answer(t, dial(t, s, post+"Content-Length: 100\r\n\r\n{\"segment\""))
	if status != http.StatusRequestTimeout || !strings.Contains(body, `{"masakariFault":{"code":408,"message":"The request's body did not come in time."}}`) {
		t.Errorf("%d %s", status, body)
	}
	if text := log.String(); !strings.Contains(text, "status=408") || strings.Contains(text, "level=ERROR") || strings.Contains(text, "level=WARN") {
		t.Error(text)
	}
}

func TestChunksThatAreNone(t *testing.T) {
	s, log := server(t, Config{}, rows{})
	status, body := answer(t, dial(t, s, post+"Transfer-Encoding: chunked\r\n\r\nzz\r\n"))
	if status != http.StatusBadRequest || !strings.Contains(body, "Malformed request body") {
		t.Errorf("%d %s", status, body)
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Error(log)
	}
}

// A client that sends everything before it reads anything learns why its body is refused, with a length and without.
func TestABodyOfThirtyMegabytes(t *testing.T) {
	const size = 30 << 20
	s, _ := server(t, Config{}, rows{})
	for _, framed := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n", size),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size),
	} {
		conn := dial(t, s, post+framed)
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range size / len(block) {
			if _, err := conn.Write(block); err != nil {
				t.Fatalf("the connection was closed on a client that still sends: %v", err)
			}
		}
		if strings.Contains(framed, "chunked") {
			_, _ = io.WriteString(conn, "\r\n0\r\n\r\n")
		}
		if status, body := answer(t, conn); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "Larger than max_request_body_size (114688)") {
			t.Errorf("%d %s", status, body)
		}
	}
	// Who asks first is told at once.
	if status, body := answer(t, dial(t, s, post+"Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n")); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", status, body)
	}
}

// A client that is gone is no trouble of salvor's, whatever its going away broke.
func TestAClientThatGoesAway(t *testing.T) {
	arrived, released := make(chan struct{}), make(chan struct{})
	s, log := server(t, Config{SilentClient: 50 * time.Millisecond}, rows{segment: func(ctx context.Context, _ string) (ha.Segment, error) {
		close(arrived)
		<-ctx.Done()
		defer close(released)
		return ha.Segment{}, errors.New("interrupted (9)")
	}})
	conn := dial(t, s, "GET /v1/segments/"+noteID+" HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n")
	<-arrived
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-released
	s.Close() // waits for the request's end
	if text := log.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "level=WARN") || !strings.Contains(text, "a client went away") {
		t.Error(text)
	}
}

// answersAfter says that a request has arrived, and answers it some time after its client has closed its sending side, unless it is cut off.
func answersAfter(arrived chan<- struct{}, half <-chan struct{}) rows {
	return rows{segment: func(ctx context.Context, id string) (ha.Segment, error) {
		close(arrived)
		<-half
		select {
		case <-ctx.Done():
			return ha.Segment{}, &ha.UnavailableError{What: "database", Err: ctx.Err()}
		case <-time.After(300 * time.Millisecond): // nothing is to happen
			return ha.Segment{UUID: id, Name: "rack"}, nil
		}
	}}
}

// A client that closes its sending side when it has asked is answered.
func TestAClientThatOnlyListens(t *testing.T) {
	arrived, half := make(chan struct{}), make(chan struct{})
	s, log := server(t, Config{}, answersAfter(arrived, half))
	conn := dial(t, s, "GET /v1/segments/"+noteID+" HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n")
	<-arrived
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(half)
	if status, body := answer(t, conn); status != http.StatusOK || !strings.Contains(body, "rack") {
		t.Errorf("%d %s\n%s", status, body, log)
	}
}

func TestACutOffBody(t *testing.T) {
	s, log := server(t, Config{}, rows{})
	conn := dial(t, s, post+"Content-Length: 100\r\n\r\n{\"segment\"")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if status, _ := answer(t, conn); status != http.StatusBadRequest {
		t.Errorf("%d", status)
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Error(log)
	}
}

func TestTimelineHasPages(t *testing.T) {
	entries := []ha.Entry{{ID: 4, Kind: ha.EntryNote}, {ID: 7, Kind: ha.EntryNote}, {ID: 9, Kind: ha.EntryNote}}
	h := handler(t, Config{MaxLimit: 2}, rows{
		note:    func(uuid string) (ha.Notification, error) { return ha.Notification{UUID: uuid}, nil },
		work:    func(string) (ha.Work, error) { return ha.Work{}, nil },
		journal: entries,
	})
	const unit = "/v1/ext/recoveries/" + noteID
	for query, want := range map[string]string{
		"": "7 9 true", "?limit=1": "9 true", "?limit=100": "7 9 true", "?marker=9": "4 7 false", "?marker=9&limit=1": "7 true",
		"?marker=7": "4 false", "?marker=4": "false", "?limit=0": "true",
	} {
		w := ask(h, "GET", unit+query, "")
		if got := pageOf(t, w.Body.Bytes()); w.Code != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", query, w.Code, got, want)
		}
	}
	expect(t, ask(h, "GET", unit+"?marker=8", ""), 400, "Marker 8 could not be found.")
	expect(t, ask(h, "GET", unit+"?marker=x", ""), 400, "Marker x could not be found.")
	expect(t, ask(h, "GET", unit+"?marker=-1", ""), 400, "Marker -1 could not be found.")
	expect(t, ask(h, "GET", unit+"?limit=x", ""), 400, "limit must be an integer")
}

// pageOf is the ids of a timeline, and whether there are earlier ones.
func pageOf(t *testing.T, body []byte) string {
	t.Helper()
	var got struct {
		Recovery struct {
			Timeline []struct{ ID int64 }
			Earlier  bool
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var b strings.Builder
	for _, e := range got.Recovery.Timeline {
		fmt.Fprintf(&b, "%d ", e.ID)
	}
	return b.String() + strconv.FormatBool(got.Recovery.Earlier)
}

// A request that is still under way when the patience of a stop is at its end is cut off, however long a silent client would be waited for; until
// then it goes on.
func TestAServerThatStops(t *testing.T) {
	arrived, going, released := make(chan struct{}), make(chan bool), make(chan struct{})
	s, _ := stopping(t, Config{SilentClient: 10 * time.Second}, rows{segment: func(ctx context.Context, _ string) (ha.Segment, error) {
		defer close(released)
		close(arrived)
		<-going
		going <- ctx.Err() == nil
		<-ctx.Done()
		return ha.Segment{}, ctx.Err()
	}})
	dial(t, s.Server, "GET /v1/segments/"+noteID+" HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n")
	<-arrived
	patience, end := context.WithCancel(t.Context())
	shut := s.shutDown(patience)
	going <- true
	if !<-going {
		t.Error("the request is cut off when the stop begins")
	}
	end()
	if err := <-shut; !errors.Is(err, context.Canceled) {
		t.Errorf("the stop ended with %v", err)
	}
	s.cut()
	if err := s.Config.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-released:
	case <-time.After(5 * time.Second):
		t.Error("the request goes on after the server was closed")
	}
}

// A client that closes its sending side during a stop is answered as ever.
func TestAClientThatOnlyListensDuringAStop(t *testing.T) {
	arrived, half := make(chan struct{}), make(chan struct{})
	s, log := stopping(t, Config{}, answersAfter(arrived, half))
	conn := dial(t, s.Server, "GET /v1/segments/"+noteID+" HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n")
	<-arrived
	shut := s.shutDown(t.Context())
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(half)
	if status, body := answer(t, conn); status != http.StatusOK || !strings.Contains(body, "rack") {
		t.Errorf("%d %s\n%s", status, body, log)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
}

// stoppable is a server that a test stops, as app does.
type stoppable struct {
	*httptest.Server
	cut context.CancelFunc
}

func stopping(t *testing.T, cfg Config, r rows) (stoppable, *logged) {
	t.Helper()
	out := &logged{}
	cfg.Log = slog.New(slog.NewTextHandler(out, nil))
	base, cut := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(cfg, bare(t, cfg, r))
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	t.Cleanup(func() { cut(); s.Close() })
	return stoppable{s, cut}, out
}

// shutDown begins a stop, and returns when it has begun.
func (s stoppable) shutDown(patience context.Context) <-chan error {
	begun, shut := make(chan struct{}), make(chan error, 1)
	s.Config.RegisterOnShutdown(func() { close(begun) })
	go func() { shut <- s.Config.Shutdown(patience) }()
	<-begun
	return shut
}

// Masakari calls a segment in use as it was asked for, a host in use by its uuid as it is (measured).
func TestInUseByWhichName(t *testing.T) {
	const id = "0123abcd-4567-89ab-cdef-0123456789ab"
	c := &call{params: map[string]string{"segment_id": id, "id": strings.ToUpper(id)}}
	for kind, want := range map[ha.Kind]string{ha.KindSegment: strings.ToUpper(id), ha.KindHost: id} {
		var told *ha.InUseError
		if err := c.asAsked(&ha.InUseError{Kind: kind, ID: id}); !errors.As(err, &told) || told.ID != want {
			t.Errorf("%s: %v, want it called %s", kind, err, want)
		}
	}
}
