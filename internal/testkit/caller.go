package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// callerPatience bounds one request of a Caller.
const callerPatience = 30 * time.Second

// Caller is one client with one connection, for benchmarks: it spends as little as can be, since it shares the machine with
// what it measures. Not for use by several goroutines at once.
type Caller struct {
	address string // host:port
	headers string
	conn    net.Conn
	in      *bufio.Reader
	Body    []byte // of the last answer; overwritten by the next
}

// NewCaller returns a client of an address such as http://127.0.0.1:15868, with headers for each request as pairs.
func NewCaller(url string, headers ...string) *Caller {
	c := &Caller{address: strings.TrimPrefix(url, "http://")}
	for i := 0; i+1 < len(headers); i += 2 {
		c.headers += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return c
}

// Do sends a request, with a JSON body unless it is "", reads the whole answer into Body and returns its status. It connects
// anew when the server has closed the connection.
func (c *Caller) Do(method, path, body string) (int, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, callerPatience)
		if err != nil {
			return 0, err
		}
		c.conn, c.in = conn, bufio.NewReaderSize(conn, 1<<16)
	}
	if err := c.conn.SetDeadline(time.Now().Add(callerPatience)); err != nil {
		return 0, err
	}
	request := method + " " + path + " HTTP/1.1\r\nHost: " + c.address + "\r\n" + c.headers
	if body != "" {
		request += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(c.conn, request+"\r\n"+body); err != nil {
		c.Close()
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Close()
		return 0, err
	}
	c.Body, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.Close {
		c.Close()
	}
	return resp.StatusCode, err
}

// Close ends the connection; the next request makes another.
func (c *Caller) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
