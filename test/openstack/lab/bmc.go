package lab

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// BMCs are the controllers of the hypervisors' power: Redfish on loopback, one system for each. The power that they show is
// whether a nova-compute of that host runs, hung or not; to take it kills the whole process group.
type BMCs struct {
	URL string

	lab    *Lab
	server *http.Server
	mu     sync.Mutex
	dark   map[string]bool
	asked  []string // METHOD host, in order
}

// offAfter is how long a host runs on when its BMC has taken the order.
const offAfter = 300 * time.Millisecond

// BMCs starts the controllers. The account is admin with the lab's password.
func (l *Lab) BMCs() (*BMCs, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &BMCs{URL: "http://" + listener.Addr().String(), lab: l, dark: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /redfish/v1/Systems/{host}", b.system)
	mux.HandleFunc("POST /redfish/v1/Systems/{host}/Actions/ComputerSystem.Reset", b.reset)
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = b.server.Serve(listener) }() // ends by Close
	return b, nil
}

func (b *BMCs) Close() { _ = b.server.Close() }

// Dark makes a host's controller answer nothing at all, or answer again.
func (b *BMCs) Dark(host string, dark bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dark[host] = dark
}

// Asked is how often a host's controller was asked by a method.
func (b *BMCs) Asked(method, host string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, a := range b.asked {
		if a == method+" "+host {
			n++
		}
	}
	return n
}

// admit lets a request in that a controller would answer.
func (b *BMCs) admit(w http.ResponseWriter, r *http.Request) (host string, ok bool) {
	host = r.PathValue("host")
	b.mu.Lock()
	b.asked = append(b.asked, r.Method+" "+host)
	dark := b.dark[host]
	b.mu.Unlock()
	if dark {
		<-r.Context().Done() // until the caller gives up
		return host, false
	}
	if user, password, _ := r.BasicAuth(); user != "admin" || password != Password {
		w.WriteHeader(http.StatusUnauthorized)
		return host, false
	}
	if !slices.Contains(Hosts, host) {
		w.WriteHeader(http.StatusNotFound)
		return host, false
	}
	return host, true
}

func (b *BMCs) system(w http.ResponseWriter, r *http.Request) {
	host, ok := b.admit(w, r)
	if !ok {
		return
	}
	power := "Off"
	if _, on := b.lab.Pid(host); on {
		power = "On"
	}
	path := "/redfish/v1/Systems/" + host
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"@odata.id": path, "Id": host, "PowerState": power, "Actions": map[string]any{
		"#ComputerSystem.Reset": map[string]any{
			"target": path + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": []string{"On", "ForceOff"}}}})
}

func (b *BMCs) reset(w http.ResponseWriter, r *http.Request) {
	host, ok := b.admit(w, r)
	if !ok {
		return
	}
	var order struct{ ResetType string }
	pid, on := b.lab.Pid(host)
	switch {
	case json.NewDecoder(r.Body).Decode(&order) != nil || order.ResetType != "ForceOff":
		w.WriteHeader(http.StatusBadRequest)
	case !on: // as many firmwares do
		w.WriteHeader(http.StatusConflict)
	default:
		time.AfterFunc(offAfter, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
		w.WriteHeader(http.StatusNoContent)
	}
}

// Pid is the process of a hypervisor's nova-compute, which leads its group, and whether it is there, running or stopped.
func (l *Lab) Pid(host string) (int, bool) {
	name := "nova-compute-" + host
	text, err := os.ReadFile(filepath.Join(l.State, "run", name+".pid"))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, false
	}
	// Its mark in the environment, as lib.sh looks for it: the pid may be another process's by now.
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return 0, false
	}
	return pid, slices.Contains(strings.Split(string(environ), "\x00"), "OSLAB_DAEMON="+l.State+":"+name)
}

// Hang stops a hypervisor in the middle of what it does: nothing is heard of it, but it has power, and would go on.
func (l *Lab) Hang(host string) error {
	pid, on := l.Pid(host)
	if !on {
		return errors.New(host + " does not run")
	}
	return syscall.Kill(-pid, syscall.SIGSTOP)
}
