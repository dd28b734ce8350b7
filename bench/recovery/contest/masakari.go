package contest

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

// Masakaris are Masakari at its best, and with its defaults, as often as said, since that takes 5 minutes. At its best it is without its wait,
// which is enough when Nova has seen the death before the report; and with as many threads as there are instances, or with the 3
// that are its default: which of them is faster hangs on the machine.
func Masakaris(runs, defaults int) []Entrant {
	with := func(options ...string) func(context.Context, Cloud) (Contestant, error) {
		return func(ctx context.Context, c Cloud) (Contestant, error) { return newMasakari(ctx, c, options...) }
	}
	return []Entrant{
		{Who: "Masakari, no wait", Runs: runs, Make: with("wait_period_after_service_update=0"), MayFail: true},
		{Who: "Masakari, no wait, 20 threads", Runs: runs, Make: with("wait_period_after_service_update=0", "host_failure_recovery_threads=20"), MayFail: true},
		{Who: "Masakari, defaults", Runs: defaults, Make: with(), MayFail: true},
	}
}

// newMasakari starts Debian's Masakari on the lab, with its defaults but for the options, NAME=VALUE.
func newMasakari(ctx context.Context, on Cloud, options ...string) (_ Contestant, err error) {
	c, ok := on.(*realCloud)
	if !ok {
		return nil, errors.New("Masakari runs on the lab only")
	}
	m := &masakari{cloud: c, victim: c.Victim()}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close(context.WithoutCancel(ctx)))
		}
	}()
	// One process serves one reporter as well as four, which all load Masakari anew for each run.
	env := []string{"OSLAB_MASAKARI_AUTH_URL=" + c.d.authURL, "OSLAB_MASAKARI_PROCESSES=1"}
	// With an empty database: what it knows of earlier runs would make the report a duplicate.
	if _, err := c.lab.ScriptEnv(ctx, env, "masakari-up", append([]string{"--fresh"}, options...)...); err != nil {
		return nil, err
	}
	token, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	m.api = masakariAPI{lab.MasakariURL, token.ID}
	return m, m.api.segment(ctx, c.hosts())
}

func (m *masakari) Recover(ctx context.Context) (Run, error) { return m.api.report(ctx, m.victim) }

func (m *masakari) Close(ctx context.Context) error {
	_, err := m.cloud.lab.Script(ctx, "masakari-down")
	return err
}
