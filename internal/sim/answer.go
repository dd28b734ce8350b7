package sim

import (
	"fmt"
	"net/http"
)

// Refusal is Nova's answer to a request that it does not carry out: {Name: {"code": Status, "message": Text}}.
type Refusal struct {
	Status int
	Name   string
	Text   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Name, r.Text) }

func badRequest(format string, a ...any) error {
	return &Refusal{http.StatusBadRequest, "badRequest", fmt.Sprintf(format, a...)}
}

func notFound(format string, a ...any) error {
	return &Refusal{http.StatusNotFound, "itemNotFound", fmt.Sprintf(format, a...)}
}

func conflict(format string, a ...any) error {
	return &Refusal{http.StatusConflict, "conflictingRequest", fmt.Sprintf(format, a...)}
}

// Caller is who makes a request.
type Caller struct {
	UserID    string
	ProjectID string
	Admin     bool
}

// May refuses a plain member what a policy allows to admins only, as Nova's defaults do.
func (w Caller) May(policy string) error {
	if w.Admin {
		return nil
	}
	return &Refusal{http.StatusForbidden, "forbidden", "Policy doesn't allow " + policy + " to be performed."}
}

// Users and projects that every simulated cloud has.
const (
	ProjectAdmin   = "6d6f2b2a7c0e4b5f9a3c1d2e3f405162"
	ProjectService = "0123456789abcdef0123456789abcdef"
	ProjectDemo    = "d3a07b1c5f6e4a2f8b9c0d1e2f3a4b5c"
	UserAdmin      = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	UserMasakari   = "5a1e0f2c3b4d4e6f8a9b0c1d2e3f4a5b"
	UserDemo       = "de305d5475b4431badb2eb6b9e546014"
)

// Masakari is the caller that salvor is by default: admin in project service.
func Masakari() Caller { return Caller{UserID: UserMasakari, ProjectID: ProjectService, Admin: true} }
