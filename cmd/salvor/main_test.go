package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

func serve(t *testing.T) (*testkit.Process, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "masakari.conf")
	if err := os.WriteFile(file, []byte("[DEFAULT]\nstate_path = "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testkit.Start(t, "salvor", "serve", "--config-file", file, "--listen", "127.0.0.1:0")
	return p, strings.TrimPrefix(p.URL(t), "http://")
}

// TestOneSignalStopsInGoodOrder: a request that is under way is answered, nothing new is accepted, and the exit code is 0.
func TestOneSignalStopsInGoodOrder(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p, address := serve(t)
		conn := halfRequest(t, address)
		p.Signal(signal)
		p.Await(t, "stopping", 2*time.Minute)
		awaitRefusal(t, address)
		if _, err := fmt.Fprint(conn, "{}"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 100)
		n, err := conn.Read(answer)
		if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 400") {
			t.Errorf("the request that was under way: %q, %v", answer[:n], err)
		}
		if code := p.Ended(t, 2*time.Minute); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestASecondSignalEndsAtOnce, whatever is under way.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	p, address := serve(t)
	halfRequest(t, address)
	p.Signal(syscall.SIGTERM)
	p.Await(t, "stopping", 2*time.Minute)
	if code := p.Stop(t, 2*time.Minute); code != 128+int(syscall.SIGTERM) { // else the request keeps it for 10 s, and it is 0
		t.Errorf("exit code %d: it ended as after one signal", code)
	}
}

// halfRequest begins a request whose body is still to come, and waits until the server is reading it.
func halfRequest(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	// "Expect" makes the server say that it has begun.
	_, err = fmt.Fprint(conn, "POST /v1/segments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 100") {
		t.Fatalf("%q, %v", answer[:n], err)
	}
	return conn
}

func awaitRefusal(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it still accepts connections")
		}
		<-time.After(10 * time.Millisecond)
	}
}
