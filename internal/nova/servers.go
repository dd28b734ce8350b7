package nova

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/salvor-ha/salvor/internal/ha"
)

// statusUnknown is the status of a server or service in a cell that Nova cannot reach, from 2.69 on.
const statusUnknown = "UNKNOWN"

// server is Nova's JSON. Host tells apart null (on no host) and absent (Nova does not say).
type server struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Status     string            `json:"status"`
	Host       present           `json:"OS-EXT-SRV-ATTR:host"`
	Hypervisor string            `json:"OS-EXT-SRV-ATTR:hypervisor_hostname"`
	VMState    string            `json:"OS-EXT-STS:vm_state"`
	TaskState  string            `json:"OS-EXT-STS:task_state"`
	PowerState int               `json:"OS-EXT-STS:power_state"`
	Locked     bool              `json:"locked"`
	Metadata   map[string]string `json:"metadata"`
	Created    timestamp         `json:"created"`
	Project    string            `json:"tenant_id"`
	Image      json.RawMessage   `json:"image"` // "" of a server that boots from a volume
	Flavor     flavor            `json:"flavor"`
	Fault      struct {
		Message string `json:"message"`
	} `json:"fault"`
}

const powerRunning = 1

func (s server) ha() ha.Server {
	imageBooted := len(s.Image) > 0 && s.Image[0] == '{'
	var image struct {
		ID         string            `json:"id"`
		Properties map[string]string `json:"properties"` // from 2.98 on
	}
	if imageBooted && json.Unmarshal(s.Image, &image) != nil { // only the classes ask for it: what cannot be read fits none
		image.Properties = nil
	}
	return ha.Server{
		ID: s.ID, Name: s.Name, Host: s.Host.text, Hypervisor: s.Hypervisor, VMState: s.VMState, TaskState: s.TaskState,
		Running: s.PowerState == powerRunning, Locked: s.Locked, Metadata: s.Metadata, CreatedAt: s.Created.Time,
		Fault: s.Fault.Message, Project: s.Project, ImageBooted: imageBooted,
		Needs:  s.Flavor.needs(imageBooted),
		Flavor: s.Flavor.Name, ExtraSpecs: s.Flavor.Extra, Image: image.ID, ImageProperties: image.Properties,
	}
}

// getServers reads servers as they are shown at the highest version that salvor knows how to read: above that of its orders they show
// the properties of images.
func (c *Client) getServers(ctx context.Context, name, path string, query url.Values, out any) error {
	return c.read(ctx, op{name: name, method: http.MethodGet, path: path}, query, out, func(e *endpoints) (string, map[string]string, error) {
		return e.compute, versionHeaders(max(e.minor, e.servers)), nil
	})
}

// whole reports what is wrong with a server of which Nova shows a part only.
func (s server) whole() error {
	switch {
	case s.ID == "":
		return fmt.Errorf("a server without id")
	case s.Host.given && s.VMState != "":
		return nil
	case s.Status == statusUnknown:
		return fmt.Errorf("Nova cannot reach the cell of server %s", s.ID)
	default:
		return fmt.Errorf("Nova does not show the host and state of server %s: the account needs the role admin", s.ID)
	}
}

// Servers lists all servers whose OS-EXT-SRV-ATTR:host is host: all projects, all pages, all cells. It would rather fail
// than be short: a server that is shown in part is an error, and so is a host whose cell Nova cannot reach, which Nova
// itself lists as empty.
func (c *Client) Servers(ctx context.Context, host string) ([]ha.Server, error) {
	const name, path = "servers", "servers/detail"
	var all []ha.Server
	query := url.Values{"all_tenants": {"true"}, "host": {host}}
	pages, err := eachPage(ctx, query, func(ctx context.Context, q url.Values) (next []link, err error) {
		var page struct {
			Servers *[]server `json:"servers"`
			Links   []link    `json:"servers_links"`
		}
		if err := c.getServers(ctx, name, path, q, &page); err != nil {
			return nil, err
		}
		if page.Servers == nil {
			return nil, broken(name, path, "the answer has no list of servers")
		}
		for _, s := range *page.Servers {
			if err := s.whole(); err != nil {
				return nil, broken(name, path, err.Error())
			}
			if s.Host.text == host {
				all = append(all, s.ha())
			}
		}
		return page.Links, nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || pages > 1 {
		// With a filter, Nova leaves unreachable cells out without a word. A host has all its servers in one cell.
		if err := c.cellUp(ctx, host); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cellUp fails when Nova cannot reach the cell of the host.
func (c *Client) cellUp(ctx context.Context, host string) error {
	if e := c.known(); e == nil || e.minor < minorDownCells {
		return nil // older Novas do not tell
	}
	services, err := c.computeServices(ctx, host)
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.Status == statusUnknown {
			return broken("servers", "servers/detail", "Nova cannot reach the cell of host "+host+": its servers are not known")
		}
	}
	return nil
}

// Server reads one; ha.ClassGone when it does not exist.
func (c *Client) Server(ctx context.Context, id string) (ha.Server, error) {
	path := "servers/" + url.PathEscape(id)
	var doc struct {
		Server server `json:"server"`
	}
	if err := c.getServers(ctx, "server", path, nil, &doc); err != nil {
		return ha.Server{}, err
	}
	if err := doc.Server.whole(); err != nil {
		return ha.Server{}, broken("server", path, err.Error())
	}
	return doc.Server.ha(), nil
}

// Actions lists what was asked of an instance, newest first.
func (c *Client) Actions(ctx context.Context, instance string) ([]ha.ServerAction, error) {
	path := "servers/" + url.PathEscape(instance) + "/os-instance-actions"
	var all []ha.ServerAction
	_, err := eachPage(ctx, url.Values{}, func(ctx context.Context, q url.Values) ([]link, error) {
		var page struct {
			Actions []struct {
				Action  string    `json:"action"`
				User    string    `json:"user_id"`
				Started timestamp `json:"start_time"`
				Message string    `json:"message"`
			} `json:"instanceActions"`
			Links []link `json:"links"`
		}
		if err := c.get(ctx, "actions", path, q, &page); err != nil {
			return nil, err
		}
		for _, a := range page.Actions {
			all = append(all, ha.ServerAction{Action: a.Action, UserID: a.User, StartedAt: a.Started.Time, Message: a.Message})
		}
		return page.Links, nil
	})
	if err != nil {
		return nil, err
	}
	newestFirst(all, func(a ha.ServerAction) stamp { return stamp{a.StartedAt, 0} })
	return all, nil
}
