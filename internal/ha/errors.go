package ha

import (
	"errors"
	"fmt"
)

// Outcomes of a fenced write that the owner must handle; none of them wrote anything.
var (
	ErrFenced     = errors.New("fenced: another engine owns this unit of work, or it has ended")
	ErrLost       = errors.New("not claimed: another engine was first, or the unit has ended")
	ErrStale      = errors.New("stale: the segment was decided upon meanwhile")
	ErrSuperseded = errors.New("superseded: a host recovery is active for this host")
	ErrTaken      = errors.New("taken: the reserved host is not free")
)

// Kind names a kind of object in errors.
type Kind string

const (
	KindSegment      Kind = "segment"
	KindHost         Kind = "host"
	KindNotification Kind = "notification"
	KindVMove        Kind = "vmove"
	KindRecovery     Kind = "recovery"
	KindInstance     Kind = "instance" // Nova's
	KindPause        Kind = "pause"    // by segment, "" for everything
	KindEpisode      Kind = "episode"
	KindCompute      Kind = "compute service" // Nova's, by host name
)

// NotFoundError: no live object has this id (or, for Name, this name). Under is the parent's id where a pair was looked up.
type NotFoundError struct {
	Kind  Kind
	ID    string
	Under string
}

func (e *NotFoundError) Error() string {
	if e.Under != "" {
		return fmt.Sprintf("no %s %s under %s", e.Kind, e.ID, e.Under)
	}
	return fmt.Sprintf("no %s %s", e.Kind, e.ID)
}

// ExistsError: the name is taken among live objects of the kind.
type ExistsError struct {
	Kind Kind
	Name string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s named %q exists already", e.Kind, e.Name)
}

// InUseError: an open notification, named in By, forbids the change.
type InUseError struct {
	Kind Kind
	ID   string
	By   string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s %s is in use by notification %s", e.Kind, e.ID, e.By)
}

// MaintenanceError: the host is on an operator's maintenance; its reports are refused (rule A4).
type MaintenanceError struct {
	Host string
	Type Type
}

func (e *MaintenanceError) Error() string {
	return fmt.Sprintf("host %s is under maintenance: its %s report is ignored", e.Host, e.Type)
}

// DuplicateError: the report is one of Twin's (rules A2, A3).
type DuplicateError struct {
	Host string
	Type Type
	Twin string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s report of host %s is a duplicate of notification %s", e.Type, e.Host, e.Twin)
}

// InvalidError: the request cannot be carried out as it stands; Text says why.
type InvalidError struct{ Text string }

func (e *InvalidError) Error() string { return e.Text }

// ConflictError: the request does not fit the object's present state; Text says why.
type ConflictError struct{ Text string }

func (e *ConflictError) Error() string { return e.Text }

// MarkerError: the paging marker names no row.
type MarkerError struct{ Marker string }

func (e *MarkerError) Error() string { return fmt.Sprintf("marker %s could not be found", e.Marker) }

// UnavailableError: something that salvor needs is away for now (rule A5: 5xx, never 4xx).
type UnavailableError struct {
	What string // database, nova, keystone
	Err  error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%s is unavailable: %v", e.What, e.Err) }
func (e *UnavailableError) Unwrap() error { return e.Err }
