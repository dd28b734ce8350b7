package contest

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// simCloud is the simulated cloud behind its HTTP face, with its default times; each run has a new one.
type simCloud struct {
	now atomic.Pointer[simNow]
	d   *door
}

type simNow struct {
	cloud *sim.Cloud
	face  *simhttp.Server
}

// NewSim is the simulated cloud behind its HTTP face.
func NewSim() (Cloud, error) {
	c := &simCloud{d: &door{}}
	url, err := c.d.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.now.Load().face.ServeHTTP(w, r) }))
	if err != nil {
		return nil, err
	}
	c.d.authURL, c.d.novaURL = url+"/v3", url+"/compute"
	c.renew()
	return c, nil
}

func (c *simCloud) renew() {
	cloud := sim.New(sim.Options{Hosts: 4})
	old := c.now.Swap(&simNow{cloud, simhttp.New(cloud, simhttp.Options{})})
	if old != nil {
		old.face.Close()
		old.cloud.Close()
	}
}

func (c *simCloud) Name() string       { return "sim" }
func (c *simCloud) Victim() string     { return "host-1" }
func (c *simCloud) hosts() []string    { return []string{"host-1", "host-2", "host-3", "host-4"} }
func (c *simCloud) ServerName() string { return benchServers }
func (c *simCloud) door() *door        { return c.d }

func (c *simCloud) prepare(_ context.Context, count int) error {
	c.renew()
	_, err := c.now.Load().cloud.AddInstances(c.Victim(), count, sim.InstanceSpec{
		Name: benchServers, Metadata: map[string]string{"HA_Enabled": "True"}})
	return err
}

func (c *simCloud) die(ctx context.Context) error {
	if err := c.now.Load().cloud.Kill(c.Victim()); err != nil {
		return err
	}
	token, err := c.Login(ctx)
	if err != nil {
		return err
	}
	return c.Nova(token.ID).AwaitService(ctx, c.Victim(), "down", time.Minute, func(s lab.Service) bool { return s.State == "down" })
}

func (c *simCloud) Login(ctx context.Context) (lab.Token, error) {
	return c.d.login(ctx, lab.Account{Name: "masakari", Project: "service"})
}

func (c *simCloud) Nova(token string) *lab.Nova { return lab.NewNova(c.d.novaURL+"/v2.1", token) }

func (c *simCloud) away(context.Context) (int, error) {
	all, _, err := c.now.Load().cloud.Instances(sim.InstanceQuery{})
	n := 0
	for _, i := range all {
		if i.Host != c.Victim() && i.Status == "ACTIVE" && i.TaskState == "" {
			n++
		}
	}
	return n, err
}

func (c *simCloud) conf() string { return keystoneConf(c.d.authURL, lab.Region) }

// database is the embedded one: the simulated cloud needs nothing installed.
func (c *simCloud) database(_ context.Context, dir string) (string, func(context.Context) error, error) {
	return "sqlite:///" + filepath.Join(dir, "salvor.sqlite"), func(context.Context) error { return nil }, nil
}

func (c *simCloud) Close(context.Context) error {
	c.d.close()
	now := c.now.Load()
	now.face.Close()
	now.cloud.Close()
	return nil
}
