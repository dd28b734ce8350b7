package main

import (
	"context"
	"errors"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// masakari is Debian's Masakari on the lab (test/openstack/lab/masakari-up), its engine's calls led through the door.
type masakari struct {
	api    masakariAPI
	cloud  *realCloud
	victim string
}

// masakaris are Masakari with its defaults, once, since that takes 5 minutes, and at its best: without its wait, which is
// enough when Nova has seen the death before the report.
func masakaris(c *realCloud, runs int) []entrant {
	with := func(options ...string) func(context.Context, cloud) (contestant, error) {
		return func(ctx context.Context, _ cloud) (contestant, error) { return newMasakari(ctx, c, options) }
	}
	return []entrant{
		{"Masakari, defaults", 1, with()},
		{"Masakari, no wait", runs, with("wait_period_after_service_update=0")},
	}
}

func newMasakari(ctx context.Context, c *realCloud, options []string) (_ contestant, err error) {
	m := &masakari{cloud: c, victim: c.victim()}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close(context.WithoutCancel(ctx)))
		}
	}()
	env := []string{"OSLAB_MASAKARI_AUTH_URL=" + c.d.authURL}
	// With an empty database: what it knows of earlier runs would make the report a duplicate.
	if _, err := c.lab.ScriptEnv(ctx, env, "masakari-up", append([]string{"--fresh"}, options...)...); err != nil {
		return nil, err
	}
	token, err := c.login(ctx)
	if err != nil {
		return nil, err
	}
	m.api = masakariAPI{lab.MasakariURL, token.ID}
	return m, m.api.segment(ctx, c.hosts())
}

func (m *masakari) recover(ctx context.Context) (run, error) { return m.api.report(ctx, m.victim) }

func (m *masakari) close(ctx context.Context) error {
	_, err := m.cloud.lab.Script(ctx, "masakari-down")
	return err
}
