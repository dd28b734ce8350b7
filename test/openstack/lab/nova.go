package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Nova is an administrator's plain client of a compute API: the lab's, or the simulated cloud's.
type Nova struct{ base, token string }

// NewNova takes the URL of the API, such as http://127.0.0.1:8774/v2.1.
func NewNova(base, token string) *Nova { return &Nova{base, token} }

// Server is an instance as Nova shows it.
type Server struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Status    string            `json:"status"`
	VMState   string            `json:"OS-EXT-STS:vm_state"`
	TaskState *string           `json:"OS-EXT-STS:task_state"`
	Host      string            `json:"OS-EXT-SRV-ATTR:host"`
	Locked    bool              `json:"locked"`
	Metadata  map[string]string `json:"metadata"`
}

// Idle reports whether no task is pending.
func (s Server) Idle() bool { return s.TaskState == nil }

func (s Server) String() string {
	task := "-"
	if s.TaskState != nil {
		task = *s.TaskState
	}
	return fmt.Sprintf("%s (%s) %s/%s/%s on %s, locked %t", s.Name, s.ID, s.Status, s.VMState, task, s.Host, s.Locked)
}

// Service is a nova-compute service.
type Service struct {
	ID             string `json:"id"`
	Host           string `json:"host"`
	Status         string `json:"status"`
	State          string `json:"state"`
	ForcedDown     bool   `json:"forced_down"`
	DisabledReason string `json:"disabled_reason"`
	UpdatedAt      string `json:"updated_at"`
}

// Migration is a record of os-migrations.
type Migration struct {
	ID       int64  `json:"id"`
	Instance string `json:"instance_uuid"`
	Type     string `json:"migration_type"`
	Status   string `json:"status"`
	Source   string `json:"source_compute"`
	Dest     string `json:"dest_compute"`
}

// Action is a record of os-instance-actions.
type Action struct {
	Action string `json:"action"`
	User   string `json:"user_id"`
	Start  string `json:"start_time"`
}

func (n *Nova) get(ctx context.Context, path string, out any) error {
	return Call(ctx, n.token, http.MethodGet, n.base+path, nil, out)
}

// Servers lists servers of all projects.
func (n *Nova) Servers(ctx context.Context, filter url.Values) ([]Server, error) {
	q := url.Values{"all_tenants": {"1"}}
	for k, v := range filter {
		q[k] = v
	}
	var out struct{ Servers []Server }
	err := n.get(ctx, "/servers/detail?"+q.Encode(), &out)
	return out.Servers, err
}

// Server reads one server.
func (n *Nova) Server(ctx context.Context, id string) (Server, error) {
	var out struct{ Server Server }
	err := n.get(ctx, "/servers/"+id, &out)
	return out.Server, err
}

// Act posts a server action, such as {"lock": nil}.
func (n *Nova) Act(ctx context.Context, id string, action map[string]any) error {
	return Call(ctx, n.token, http.MethodPost, n.base+"/servers/"+id+"/action", action, nil)
}

// Delete deletes a server; one that is gone is no error.
func (n *Nova) Delete(ctx context.Context, id string) error {
	err := Call(ctx, n.token, http.MethodDelete, n.base+"/servers/"+id, nil, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Service reads the nova-compute service of a host.
func (n *Nova) Service(ctx context.Context, host string) (Service, error) {
	var out struct{ Services []Service }
	if err := n.get(ctx, "/os-services?binary=nova-compute&host="+host, &out); err != nil {
		return Service{}, err
	}
	if len(out.Services) != 1 {
		return Service{}, fmt.Errorf("nova-compute of %s: %d services", host, len(out.Services))
	}
	return out.Services[0], nil
}

// SetService changes the nova-compute service of a host: status, disabled_reason, forced_down.
func (n *Nova) SetService(ctx context.Context, host string, changes map[string]any) error {
	s, err := n.Service(ctx, host)
	if err != nil {
		return err
	}
	return Call(ctx, n.token, http.MethodPut, n.base+"/os-services/"+s.ID, changes, nil)
}

// Migrations lists the migration records of a server, newest first.
func (n *Nova) Migrations(ctx context.Context, id string) ([]Migration, error) {
	var out struct{ Migrations []Migration }
	err := n.get(ctx, "/os-migrations?instance_uuid="+id, &out)
	return out.Migrations, err
}

// Actions lists what was asked of a server, newest first.
func (n *Nova) Actions(ctx context.Context, id string) ([]Action, error) {
	var out struct {
		Actions []Action `json:"instanceActions"`
	}
	err := n.get(ctx, "/servers/"+id+"/os-instance-actions", &out)
	return out.Actions, err
}

// Image is what a server needs to be booted of.
type Image struct{ Flavor, Image string }

// Boot boots count servers without a network onto a host and waits until they are active; their ids.
func (n *Nova) Boot(ctx context.Context, i Image, count int, host, name string, metadata map[string]string) ([]string, error) {
	if metadata == nil {
		metadata = map[string]string{}
	}
	in := map[string]any{"server": map[string]any{
		"name": name, "flavorRef": i.Flavor, "imageRef": i.Image, "networks": "none", "metadata": metadata, "host": host,
		"min_count": count, "max_count": count, "return_reservation_id": true,
	}}
	var out struct {
		Reservation string `json:"reservation_id"`
	}
	if err := Call(ctx, n.token, http.MethodPost, n.base+"/servers", in, &out); err != nil {
		return nil, err
	}
	var ids []string
	err := Until(ctx, fmt.Sprintf("%d servers %s to be active on %s", count, name, host), 3*time.Minute, func() (bool, error) {
		servers, err := n.Servers(ctx, url.Values{"reservation_id": {out.Reservation}})
		if err != nil {
			return false, err
		}
		ids = ids[:0]
		for _, s := range servers {
			if s.Status == "ACTIVE" && s.Idle() && s.Host == host {
				ids = append(ids, s.ID)
			}
		}
		return len(ids) == count, nil
	})
	return ids, err
}

// AwaitServer waits until a server is as wanted.
func (n *Nova) AwaitServer(ctx context.Context, id, what string, bound time.Duration, is func(Server) bool) error {
	var last Server
	err := Until(ctx, "server "+id+" to be "+what, bound, func() (bool, error) {
		s, err := n.Server(ctx, id)
		last = s
		return err == nil && is(s), err
	})
	if err != nil {
		return fmt.Errorf("%w; it is %s", err, last)
	}
	return nil
}

// AwaitService waits until the nova-compute service of a host is as wanted.
func (n *Nova) AwaitService(ctx context.Context, host, what string, bound time.Duration, is func(Service) bool) error {
	var last Service
	err := Until(ctx, "nova-compute of "+host+" to be "+what, bound, func() (bool, error) {
		s, err := n.Service(ctx, host)
		last = s
		return err == nil && is(s), err
	})
	if err != nil {
		return fmt.Errorf("%w; it is %+v", err, last)
	}
	return nil
}
