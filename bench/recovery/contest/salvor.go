package contest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// masakariAPI posts reports to an instance-ha service, salvor or Masakari.
type masakariAPI struct {
	url, token string // url ends in /v1
}

func (m masakariAPI) call(ctx context.Context, method, path string, in, out any) error {
	return lab.Call(ctx, m.token, method, m.url+path, in, out)
}

// segment makes a segment of the hosts.
func (m masakariAPI) segment(ctx context.Context, hosts []string) error {
	var made struct{ Segment struct{ UUID string } }
	err := m.call(ctx, http.MethodPost, "/segments", map[string]any{"segment": map[string]any{
		"name": "bench", "recovery_method": "auto", "service_type": "COMPUTE"}}, &made)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		err := m.call(ctx, http.MethodPost, "/segments/"+made.Segment.UUID+"/hosts", map[string]any{"host": map[string]any{
			"name": host, "type": "COMPUTE", "control_attributes": "SSH"}}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// report tells of the host's death and waits until the service has ended its work on it.
func (m masakariAPI) report(ctx context.Context, host string) (Run, error) {
	in := map[string]any{"notification": map[string]any{
		"type": "COMPUTE_HOST", "hostname": host, "generated_time": time.Now().UTC().Format(time.RFC3339),
		"payload": map[string]any{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}}}
	var out struct {
		Notification struct {
			UUID    string `json:"notification_uuid"`
			Status  string
			Message *string
		}
	}
	if err := m.call(ctx, http.MethodPost, "/notifications", in, &out); err != nil {
		return Run{}, err
	}
	r := Run{Started: time.Now()}
	n := &out.Notification
	err := lab.Until(ctx, "the notification to finish", limit, func() (bool, error) {
		err := m.call(ctx, http.MethodGet, "/notifications/"+n.UUID, nil, &out)
		return n.Status != "new" && n.Status != "running", err
	})
	if err == nil && n.Status != "finished" {
		why := ""
		if n.Message != nil {
			why = *n.Message
		}
		err = fmt.Errorf("the notification is %s: %s", n.Status, why)
	}
	return r, err
}

// salvor is a new "salvor serve" with an empty database.
type salvor struct {
	api     masakariAPI
	process *process
	victim  string
	dir     string
	drop    func(context.Context) error
}

// reportInterval says what the Nova of either cloud has as report_interval, which salvor must know: a host that Nova calls down
// after 10 s would else count as silent only after 15.
const reportInterval = "nova_report_interval = 2"

// NewSalvor starts salvor on the cloud, with extra lines for group [salvor] of its masakari.conf.
func NewSalvor(ctx context.Context, c Cloud, binary string, extra ...string) (_ Contestant, err error) {
	s := &salvor{victim: c.Victim()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if s.dir, err = os.MkdirTemp("", "bench-recovery-"); err != nil {
		return nil, err
	}
	connection, drop, err := c.database(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	s.drop = drop
	conf := fmt.Sprintf("%s\n[database]\nconnection = %s\n\n[salvor]\n%s\n%s\n", c.conf(), connection, reportInterval, strings.Join(extra, "\n"))
	if s.process, err = startSalvor(ctx, binary, s.dir, conf); err != nil {
		return nil, err
	}
	token, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	s.api = masakariAPI{s.process.url + "/v1", token.ID}
	if err := s.api.segment(ctx, c.hosts()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.process.logTail(3000))
	}
	return s, nil
}

func (s *salvor) Recover(ctx context.Context) (Run, error) {
	r, err := s.api.report(ctx, s.victim)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.process.logTail(6000))
	}
	return r, err
}

func (s *salvor) Close(ctx context.Context) error {
	var errs []error
	if s.process != nil {
		errs = append(errs, s.process.stop())
	}
	if s.drop != nil {
		errs = append(errs, s.drop(ctx))
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
