package contest

import (
	"context"
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

const benchServers = "bench-recovery"

// realCloud is the OpenStack of test/openstack/lab.
type realCloud struct {
	lab   *lab.Lab
	rows  *lab.Rows
	image lab.Image
	d     *door
}

// NewLab is the OpenStack of test/openstack/lab; a *lab.UnavailableError says why it cannot be had here.
func NewLab(ctx context.Context) (Cloud, error) {
	l, err := lab.Up(ctx)
	if err != nil {
		return nil, err
	}
	c := &realCloud{lab: l}
	if c.image, err = l.Image(ctx); err != nil {
		return nil, err
	}
	if c.rows, err = l.Rows(); err != nil {
		return nil, err
	}
	c.d, err = openDoor(lab.AuthURL, lab.NovaURL)
	return c, err
}

func (c *realCloud) Name() string       { return "lab" }
func (c *realCloud) Victim() string     { return lab.Hosts[0] }
func (c *realCloud) hosts() []string    { return lab.Hosts }
func (c *realCloud) ServerName() string { return benchServers }
func (c *realCloud) door() *door        { return c.d }

func (c *realCloud) prepare(ctx context.Context, count int) error {
	if err := c.lab.Clean(ctx, benchServers); err != nil {
		return err
	}
	_, err := c.lab.Boot(ctx, c.image, count, c.Victim(), benchServers, map[string]string{"HA_Enabled": "True"})
	return err
}

func (c *realCloud) die(ctx context.Context) error {
	if err := c.lab.Kill(ctx, c.Victim()); err != nil {
		return err
	}
	return c.lab.AwaitService(ctx, c.Victim(), "down", time.Minute, func(s lab.Service) bool { return s.State == "down" })
}

func (c *realCloud) Login(ctx context.Context) (lab.Token, error) {
	return c.d.login(ctx, lab.Account{Name: "masakari", Project: "service"})
}

func (c *realCloud) Nova(token string) *lab.Nova { return lab.NewNova(c.d.novaURL+"/v2.1", token) }

func (c *realCloud) away(ctx context.Context) (int, error) {
	return c.rows.Away(ctx, benchServers, c.Victim())
}

func (c *realCloud) conf() string { return keystoneConf(c.d.authURL, lab.Region) }

func (c *realCloud) database(ctx context.Context, _ string) (string, func(context.Context) error, error) {
	d, err := c.lab.NewDatabase(ctx)
	if err != nil {
		return "", nil, err
	}
	return d.URL, d.Drop, nil
}

func (c *realCloud) Close(ctx context.Context) error {
	c.d.close()
	c.rows.Close()
	err := c.lab.Clean(ctx, benchServers)
	c.lab.Close()
	return err
}

// keystoneConf is the part of masakari.conf that says how to log in: to validate callers, and to work on Nova.
func keystoneConf(authURL, region string) string {
	return fmt.Sprintf(`[DEFAULT]
os_region_name = %[2]s
os_privileged_user_name = masakari
os_privileged_user_password = %[3]s
os_privileged_user_tenant = service
os_privileged_user_auth_url = %[1]s
os_user_domain_name = Default
os_project_domain_name = Default

[keystone_authtoken]
auth_type = password
auth_url = %[1]s
username = masakari
password = %[3]s
project_name = service
user_domain_name = Default
project_domain_name = Default
`, authURL, region, lab.Password)
}
