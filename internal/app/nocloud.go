package app

import (
	"context"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// noCloud stands in for Nova where none is configured: every question fails, with what to set as its text. So the api
// runs, hosts cannot be registered, and recoveries wait at the gate nova, saying why.
type noCloud struct{ missing []string }

func (n noCloud) text() string {
	return "no Nova is configured: set " + strings.Join(n.missing, ", ")
}

func (n noCloud) err(op string) error {
	return &ha.CloudError{Class: ha.ClassNotSent, Op: op, Text: n.text()}
}

func (n noCloud) HasComputeService(context.Context, string) (bool, error) {
	return false, n.err("os-services")
}
func (n noCloud) Services(context.Context) ([]ha.Service, error) { return nil, n.err("os-services") }
func (n noCloud) Servers(context.Context, string) ([]ha.Server, error) {
	return nil, n.err("servers")
}
func (n noCloud) Server(context.Context, string) (ha.Server, error) {
	return ha.Server{}, n.err("server")
}
func (n noCloud) Migrations(context.Context, string) ([]ha.Migration, error) {
	return nil, n.err("os-migrations")
}
func (n noCloud) Actions(context.Context, string) ([]ha.ServerAction, error) {
	return nil, n.err("os-instance-actions")
}
func (n noCloud) Providers(context.Context, string) ([]string, error) {
	return nil, n.err("allocations")
}
func (n noCloud) Aggregates(context.Context) ([]ha.Aggregate, error) {
	return nil, n.err("os-aggregates")
}
func (n noCloud) Room(context.Context, ha.Needs) ([]ha.Room, error) {
	return nil, n.err("allocation_candidates")
}
func (n noCloud) Do(_ context.Context, act ha.Act) (ha.Outcome, error) {
	err := n.err(string(act.Kind))
	return ha.Outcome{Act: act, Err: err}, err
}
