package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

const (
	segmentID = "00000000-0000-4000-8000-000000000001"
	hostID    = "00000000-0000-4000-8000-000000000002"
	noteID    = "00000000-0000-4000-8000-000000000003"
)

// world is the store, Nova and the engine as the use cases see them. It writes down what is asked of it.
type world struct {
	Store
	log      []string
	busy     ha.Status // an open notification of the host has this status
	reserved int64
	missing  bool // no such host
	absent   bool // Nova has no such compute service
	err      error
	report   ha.Report
	noteType ha.Type
	status   ha.Status // of the notification
	noWork   bool      // no engine has taken the notification up
	wish     ha.Wish
}

func (w *world) did(what string) { w.log = append(w.log, what) }

func (w *world) Segment(_ context.Context, uuid string) (ha.Segment, error) {
	w.did("segment")
	return ha.Segment{UUID: uuid}, w.err
}

func (w *world) Host(_ context.Context, segment, uuid string) (ha.Host, error) {
	w.did("host")
	if w.missing {
		return ha.Host{}, &ha.NotFoundError{Kind: ha.KindHost, ID: uuid, Under: segment}
	}
	return ha.Host{UUID: uuid, SegmentUUID: segment, ReservedFor: w.reserved}, w.err
}

func (w *world) CreateHost(_ context.Context, h ha.Host) (ha.Host, error) {
	w.did("create")
	return h, w.err
}

func (w *world) UpdateHost(_ context.Context, segment, uuid string, _ ha.HostPatch) (ha.Host, error) {
	w.did("update")
	return ha.Host{UUID: uuid, SegmentUUID: segment}, w.err
}

func (w *world) Notifications(_ context.Context, f ha.NotificationFilter, p ha.Page) ([]ha.Notification, error) {
	if *f.SourceHostUUID != hostID || p.Limit != 1 {
		return nil, errors.New("an unbounded look")
	}
	if w.busy != "" && *f.Status == string(w.busy) {
		return []ha.Notification{{UUID: noteID}}, nil
	}
	return nil, w.err
}

func (w *world) Notification(_ context.Context, uuid string) (ha.Notification, error) {
	return ha.Notification{UUID: uuid, Type: w.noteType, Status: w.status}, w.err
}

func (w *world) VMove(_ context.Context, _, uuid string) (ha.VMove, error) {
	w.did("vmove")
	return ha.VMove{UUID: uuid}, w.err
}

func (w *world) Admit(_ context.Context, r ha.Report, interval time.Duration) (ha.Notification, error) {
	w.report = r
	w.did("admit " + interval.String())
	return ha.Notification{UUID: r.UUID}, w.err
}

func (w *world) Wish(_ context.Context, _ string, order ha.Wish) error {
	w.wish = order
	w.did("wish")
	if w.noWork {
		return &ha.NotFoundError{Kind: ha.KindRecovery, ID: noteID}
	}
	return w.err
}

func (w *world) HasComputeService(context.Context, string) (bool, error) {
	w.did("nova")
	return !w.absent, nil
}

func (w *world) service() *Service {
	return New(w, w, Config{DuplicateInterval: 180 * time.Second, Poke: func() { w.did("poke") }})
}

func (w *world) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.log); diff != "" {
		t.Errorf("%s: (-want +did)\n%s", what, diff)
	}
	w.log = nil
}

func TestAdmission(t *testing.T) {
	w := &world{}
	s := w.service()
	n, err := s.Report(t.Context(), ha.Report{Hostname: "h"})
	w.expect(t, "admitted", "admit 3m0s", "poke")
	if _, ok := ha.CanonicalUUID(n.UUID); err != nil || !ok {
		t.Errorf("uuid %q, error %v", n.UUID, err)
	}
	if again, _ := s.Report(t.Context(), ha.Report{UUID: n.UUID, Hostname: "h"}); again.UUID == n.UUID {
		t.Error("a report from outside chose its own uuid")
	}
	w.log, w.err = nil, &ha.DuplicateError{Host: "h"}
	var duplicate *ha.DuplicateError
	if _, err := s.Report(t.Context(), ha.Report{Hostname: "h"}); !errors.As(err, &duplicate) {
		t.Error(err)
	}
	w.expect(t, "a duplicate wakes nobody", "admit 3m0s")
}

func TestNobodyForgesAnOperatorsWord(t *testing.T) {
	w := &world{}
	var invalid *ha.InvalidError
	_, err := w.service().Report(t.Context(), ha.Report{Payload: ha.Payload{ha.KeyConfirmedBy: ""}})
	if !errors.As(err, &invalid) || len(w.log) > 0 {
		t.Errorf("%v, %v", err, w.log)
	}
}

func TestConfirmOff(t *testing.T) {
	w := &world{}
	if _, err := w.service().ConfirmOff(t.Context(), "cmp-1", "alice", strings.Repeat("é", 300)); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "filed", "admit 3m0s", "poke")
	p := w.report.Payload
	if !p.Stopped() || !p.Normal() || w.report.Type != ha.TypeComputeHost || w.report.Hostname != "cmp-1" {
		t.Errorf("%+v", w.report)
	}
	if by := []rune(p[ha.KeyConfirmedBy]); len(by) != 255 || !strings.HasPrefix(string(by), "alice: é") {
		t.Errorf("%d characters: %s", len(by), string(by))
	}
}

func TestHostsAndNova(t *testing.T) {
	name := "cmp-1"
	rename := func(w *world) error {
		_, _, err := w.service().UpdateHost(t.Context(), segmentID, hostID, ha.HostPatch{Name: &name})
		return err
	}
	var inUse *ha.InUseError
	var notFound *ha.NotFoundError
	w := &world{}
	if err := rename(w); err != nil {
		t.Error(err)
	}
	w.expect(t, "renamed", "host", "nova", "update", "segment")
	for _, status := range []ha.Status{ha.StatusNew, ha.StatusRunning, ha.StatusError} {
		w = &world{busy: status}
		if err := rename(w); !errors.As(err, &inUse) || inUse.By != noteID {
			t.Errorf("%s: %v", status, err)
		}
		w.expect(t, "in use: Nova is not asked", "host")
	}
	w = &world{reserved: 7}
	if err := rename(w); !errors.As(err, &inUse) {
		t.Error(err)
	}
	w.expect(t, "a reserved host in use", "host")
	w = &world{missing: true}
	if err := rename(w); !errors.As(err, &notFound) || notFound.Under != segmentID {
		t.Error(err)
	}
	w = &world{absent: true}
	if err := rename(w); !errors.As(err, &notFound) || notFound.Kind != ha.KindCompute {
		t.Error(err)
	}
	w.expect(t, "unknown to Nova: nothing is written", "host", "nova")
	w = &world{absent: true}
	if _, _, err := w.service().CreateHost(t.Context(), segmentID, ha.Host{Name: "x"}); !errors.As(err, &notFound) || notFound.Kind != ha.KindCompute {
		t.Error(err)
	}
	w.expect(t, "created", "segment", "nova")

	w = &world{}
	off := false
	if _, _, err := w.service().UpdateHost(t.Context(), segmentID, hostID, ha.HostPatch{OnMaintenance: &off}); err != nil {
		t.Error(err)
	}
	w.expect(t, "cleared maintenance wakes the take-back, and needs no Nova", "update", "poke", "segment")
}

func TestWhatCannotBeAnIDNamesNothing(t *testing.T) {
	w := &world{err: errors.New("asked the store")}
	s := w.service()
	var notFound *ha.NotFoundError
	for what, err := range map[string]error{
		"segment":  second(s.Segment(t.Context(), "7")),
		"update":   second(s.UpdateSegment(t.Context(), "\x00", ha.SegmentPatch{})),
		"delete":   s.DeleteSegment(t.Context(), "rack-1"),
		"note":     second(s.Notification(t.Context(), "'")),
		"host":     s.DeleteHost(t.Context(), segmentID, "x"),
		"pair":     s.DeleteHost(t.Context(), "x", hostID),
		"recovery": second(s.Recovery(t.Context(), "x", 0, 10)),
		"wish":     s.Wish(t.Context(), "x", ha.Wish{}),
	} {
		if !errors.As(err, &notFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.expect(t, "the store was not asked")
}

func second[T any](_ T, err error) error { return err }

func TestMovesAreOfHosts(t *testing.T) {
	w := &world{noteType: ha.TypeVM}
	var invalid *ha.InvalidError
	if _, err := w.service().VMove(t.Context(), noteID, hostID); !errors.As(err, &invalid) {
		t.Error(err)
	}
	w.expect(t, "no look for a move")
}

func TestOrders(t *testing.T) {
	w := &world{noteType: ha.TypeComputeHost}
	if err := w.service().Wish(t.Context(), noteID, ha.Wish{Kind: ha.WishRetryMove, By: "alice", VMove: strings.ToUpper(hostID)}); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "passed on", "vmove", "wish", "poke")
	if w.wish.VMove != hostID {
		t.Errorf("%+v", w.wish)
	}
}

// An order that comes before an engine is told what to do, and one that comes too late that there is nothing to do.
func TestOrdersWithoutARecovery(t *testing.T) {
	for status, want := range map[ha.Status]string{
		ha.StatusNew: "try again in a second", ha.StatusIgnored: "is ignored without a recovery",
	} {
		w := &world{noteType: ha.TypeVM, status: status, noWork: true}
		err := w.service().Wish(t.Context(), noteID, ha.Wish{Kind: ha.WishHold, By: "alice", Reason: "power works"})
		var conflict *ha.ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(conflict.Text, want) {
			t.Errorf("%s: %v", status, err)
		}
		w.expect(t, "nobody is woken", "wish")
	}
}
