package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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
		request += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	if _, err := io.WriteString(c.conn, request+"\r\n"+body); err != nil {
		c.Close()
		return 0, err
	}
	status, err := c.read()
	if err != nil {
		c.Close()
	}
	return status, err
}

// read reads an answer. It knows what the servers under measurement send: a length, or an answer that ends with the connection;
// anything else is left to net/http, which costs more.
func (c *Caller) read() (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, fmt.Errorf("no HTTP: %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("no status: %q", line)
	}
	length, ends := -1, false
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(name) == 0:
			if status == http.StatusNoContent {
				length = 0
			}
			return status, c.readBody(length, ends)
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Connection")):
			ends = ends || bytes.EqualFold(value, []byte("close"))
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			return 0, fmt.Errorf("an answer with %s is not understood", value)
		}
	}
}

func (c *Caller) readBody(length int, ends bool) (err error) {
	if length < 0 {
		c.Body, err = io.ReadAll(c.in)
		c.Close()
		return err
	}
	if cap(c.Body) < length {
		c.Body = make([]byte, length)
	}
	c.Body = c.Body[:length]
	_, err = io.ReadFull(c.in, c.Body)
	if ends {
		c.Close()
	}
	return err
}

// Close ends the connection; the next request makes another.
func (c *Caller) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
