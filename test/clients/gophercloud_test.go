package clients

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/instanceha/v1/hosts"
	"github.com/gophercloud/gophercloud/v2/openstack/instanceha/v1/notifications"
	"github.com/gophercloud/gophercloud/v2/openstack/instanceha/v1/segments"
	"github.com/gophercloud/gophercloud/v2/openstack/instanceha/v1/vmoves"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// gopher is gophercloud's client, and the writing calls that it does not have.
type gopher struct {
	*lab
	client *gophercloud.ServiceClient
}

func (l *lab) gopher() gopher {
	l.t.Helper()
	provider, err := openstack.AuthenticatedClient(l.t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: l.cloud.url + "/v3", Username: "admin", Password: "secret", DomainName: "Default",
		Scope: &gophercloud.AuthScope{ProjectName: "admin", DomainName: "Default"},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := openstack.NewInstanceHAV1(provider, gophercloud.EndpointOpts{Region: "RegionOne"})
	if err != nil {
		l.t.Fatal(err)
	}
	client.Microversion = "1.3"
	return gopher{l, client}
}

// post creates something and returns the uuid under the key.
func (g gopher) post(path, wrapper, key string, body map[string]any) string {
	g.t.Helper()
	var out map[string]map[string]any
	_, err := g.client.Post(g.t.Context(), g.client.ServiceURL(strings.Split(path, "/")...), map[string]any{wrapper: body}, &out,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated, http.StatusAccepted}})
	if err != nil {
		g.t.Fatal(err)
	}
	return out[wrapper][key].(string)
}

// names reads all pages and returns one text of each element.
func names[T any](t *testing.T, p pagination.Pager, extract func(pagination.Page) ([]T, error), name func(T) string) string {
	t.Helper()
	var all []string
	err := p.EachPage(t.Context(), func(_ context.Context, page pagination.Page) (bool, error) {
		items, err := extract(page)
		for _, i := range items {
			all = append(all, name(i))
		}
		return true, err
	})
	if err != nil {
		t.Error(err)
	}
	return strings.Join(all, " ")
}

// gophercloud, a client that nobody of Masakari wrote: lists with pages and filters, single objects, errors.
func TestGophercloud(t *testing.T) {
	l := open(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"))
	g := l.gopher()
	ctx := t.Context()
	var racks []string
	for i := range 3 {
		racks = append(racks, g.post("segments", "segment", "uuid", map[string]any{
			"name": fmt.Sprintf("rack-%d", i), "recovery_method": "auto", "service_type": "COMPUTE", "enabled": i != 1}))
	}
	segmentName := func(s segments.Segment) string { return s.Name }
	yes, no := true, false
	for want, opts := range map[string]segments.ListOpts{
		"rack-2 rack-1 rack-0":  {Limit: 1},
		"rack-0 rack-1 rack-2":  {Limit: 2, SortKey: "name", SortDir: "asc"},
		"rack-2 rack-0":         {Enabled: &yes},
		"rack-1":                {Enabled: &no, RecoveryMethod: "auto", ServiceType: "COMPUTE"},
		"rack-2 rack-1 rack-0 ": {Limit: 1000},
	} {
		expect(t, fmt.Sprintf("segments %+v", opts), names(t, segments.List(g.client, opts), segments.ExtractSegments, segmentName), strings.TrimSpace(want))
	}
	rack, err := segments.Get(ctx, g.client, racks[1]).Extract()
	if err != nil || rack.Name != "rack-1" || *rack.Enabled || time.Since(time.Time(rack.CreatedAt)) > time.Hour {
		t.Errorf("%+v, %v", rack, err)
	}
	if _, err := segments.Get(ctx, g.client, "nothing").Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Error(err)
	}
	bad := segments.List(g.client, segments.ListOpts{SortKey: "bogus"})
	if _, err := bad.AllPages(ctx); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Error(err)
	}

	for i, reserved := range []bool{false, true} {
		g.post("segments/"+racks[0]+"/hosts", "host", "uuid", map[string]any{
			"name": fmt.Sprintf("host-%d", i+1), "type": "COMPUTE", "control_attributes": "SSH", "reserved": reserved})
	}
	hostName := func(h hosts.Host) string { return h.Name }
	expect(t, "hosts", names(t, hosts.List(g.client, racks[0], hosts.ListOpts{Limit: 1}), hosts.ExtractHosts, hostName), "host-2 host-1")
	expect(t, "reserved ones", names(t, hosts.List(g.client, racks[0], hosts.ListOpts{Reserved: &yes}), hosts.ExtractHosts, hostName), "host-2")
	expect(t, "on maintenance", names(t, hosts.List(g.client, racks[0], hosts.ListOpts{OnMaintenance: &yes}), hosts.ExtractHosts, hostName), "")

	l.lose("host-1")
	id := g.post("notifications", "notification", "notification_uuid", map[string]any{
		"type": "COMPUTE_HOST", "hostname": "host-1", "generated_time": time.Now().UTC().Format(time.RFC3339),
		"payload": map[string]any{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}})
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		n, err := notifications.Get(ctx, g.client, id).Extract()
		return err == nil && n.Status == "finished", fmt.Sprintf("%+v, %v", n, err)
	})
	expect(t, "notifications", names(t, notifications.List(g.client, notifications.ListOpts{Type: "COMPUTE_HOST", Status: "finished"}),
		notifications.ExtractNotifications, func(n notifications.Notification) string { return n.UUID }), id)
	var move string
	expect(t, "moves", names(t, vmoves.List(g.client, id, vmoves.ListOpts{Limit: 1}), vmoves.ExtractVMoves, func(m vmoves.VMove) string {
		move = m.UUID
		return m.SourceHost + " " + m.Status
	}), "host-1 succeeded host-1 succeeded")
	if m, err := vmoves.Get(ctx, g.client, id, move).Extract(); err != nil || m.NotificationUUID != id || m.DestHost == "" || m.DestHost == "host-1" {
		t.Errorf("%+v, %v", m, err)
	}
}
