package app

import (
	"net"
	"os"
)

// notify tells systemd how the process stands (Type=notify): READY=1, STOPPING=1. Without systemd it does nothing, and a
// systemd that does not listen is no reason to fail.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
