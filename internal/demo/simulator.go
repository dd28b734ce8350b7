package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// simulator drives the simulated cloud below /sim and sees what is true there, not what Nova believes.
type simulator struct {
	url  string
	http *http.Client
}

func newSimulator(u string) *simulator { return &simulator{url: u, http: loopback()} }

// loopback is an HTTP client that goes through no proxy, whatever the environment says.
func loopback() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute}}
}

// truth is what /sim/state tells.
type truth struct {
	Hosts     []hostTruth     `json:"hosts"`
	Services  []serviceTruth  `json:"services"`
	Instances []instanceTruth `json:"instances"`
	Runs      []struct {
		Instance string `json:"instance"`
	} `json:"double_runs"`
	Orders []struct {
		Instance string `json:"instance"`
	} `json:"double_orders"`
}

type hostTruth struct {
	Name    string `json:"name"`
	Powered bool   `json:"powered"`
	Compute string `json:"compute"` // up, dead, hung
}

type serviceTruth struct {
	Binary     string `json:"binary"`
	Host       string `json:"host"`
	Status     string `json:"status"`
	State      string `json:"state"`
	ForcedDown bool   `json:"forced_down"`
}

type instanceTruth struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Host        string   `json:"host"`
	VMState     string   `json:"vm_state"`
	TaskState   string   `json:"task_state"`
	Locked      bool     `json:"locked"`
	Evacuations int      `json:"evacuations"`
	RunningOn   []string `json:"running_on"`
}

// up reports that the instance is active on a host where it really runs, and nothing is under way with it.
func (i instanceTruth) up() bool {
	return i.VMState == "active" && i.TaskState == "" && len(i.RunningOn) == 1 && i.RunningOn[0] == i.Host
}

func (s *simulator) state(ctx context.Context) (truth, error) {
	var t truth
	err := s.call(ctx, http.MethodGet, "/sim/state", &t)
	return t, err
}

func (s *simulator) kill(ctx context.Context, host string) error {
	return s.call(ctx, http.MethodPost, "/sim/hosts/"+url.PathEscape(host)+"/kill", nil)
}

func (s *simulator) revive(ctx context.Context, host string) error {
	return s.call(ctx, http.MethodPost, "/sim/hosts/"+url.PathEscape(host)+"/revive", nil)
}

// order is an evacuate order as it reached Nova.
type order struct {
	at       time.Time
	instance string
}

// orders returns the evacuate orders after the since-th call, and the number of the last call.
func (s *simulator) orders(ctx context.Context, since int64) ([]order, int64, error) {
	var answer struct {
		Calls []struct {
			Time     time.Time `json:"time"`
			Action   string    `json:"action"`
			Instance string    `json:"instance"`
		} `json:"calls"`
		Last int64 `json:"last"`
	}
	if err := s.call(ctx, http.MethodGet, fmt.Sprintf("/sim/calls?since=%d", since), &answer); err != nil {
		return nil, since, err
	}
	var orders []order
	for _, c := range answer.Calls {
		if c.Action == "evacuate" {
			orders = append(orders, order{c.Time, c.Instance})
		}
	}
	return orders, answer.Last, nil
}

func (s *simulator) call(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
