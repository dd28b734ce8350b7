package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Op is what was asked of which resource: some errors read differently by it.
type Op struct{ Resource, Action string }

// ReportOp is the admission of a notification: an unknown host is the report's fault there.
var ReportOp = Op{"notifications", "create"}

// FaultOf is the one place where errors get their status and their text (contract 1.4 to 1.10; rule A5: what is
// temporary is 5xx). known is false for an error that nobody foresaw: the caller logs it and answers by its own text.
func FaultOf(op Op, err error) (f *Fault, known bool) {
	var (
		fault       *Fault
		invalid     *ha.InvalidError
		marker      *ha.MarkerError
		notFound    *ha.NotFoundError
		exists      *ha.ExistsError
		inUse       *ha.InUseError
		maintenance *ha.MaintenanceError
		duplicate   *ha.DuplicateError
		conflict    *ha.ConflictError
		cloud       *ha.CloudError
		unavailable *ha.UnavailableError
		staleEpoch  *ha.StaleEpochError
	)
	switch {
	case errors.As(err, &fault):
		return fault, true
	case errors.As(err, &invalid):
		return faultf(http.StatusBadRequest, "%s", invalid.Text)
	case errors.As(err, &marker):
		return faultf(http.StatusBadRequest, "Marker %s could not be found.", cut(marker.Marker))
	case errors.As(err, &notFound):
		return notFoundFault(op, notFound)
	case errors.As(err, &exists):
		if exists.Kind == ha.KindSegment {
			return faultf(http.StatusConflict, "Failover segment with name %s already exists.", exists.Name)
		}
		return faultf(http.StatusConflict, "Host with name %s already exists.", exists.Name)
	case errors.As(err, &inUse):
		return faultf(http.StatusConflict, "%s", inUseText(op, inUse))
	case errors.As(err, &maintenance):
		return faultf(http.StatusConflict, "Notification received from host %s of type '%s' is ignored as the host is already under maintenance.", maintenance.Host, maintenance.Type)
	case errors.As(err, &duplicate):
		return faultf(http.StatusConflict, "Notification received from host %s of type %s is duplicate.", duplicate.Host, duplicate.Type)
	case errors.As(err, &conflict):
		return faultf(http.StatusConflict, "%s", conflict.Text)
	case errors.As(err, &staleEpoch):
		return faultf(http.StatusConflict, "The report is of epoch %d, and epoch %d of the agent of %s has reported already: two agents speak for it, or this one's "+
			"clock was set back. Stop the wrong one; a new key (salvor host agent-key) shuts it out, and lets the right one begin anew.",
			staleEpoch.Epoch, staleEpoch.Stored, staleEpoch.Host)
	case errors.As(err, &cloud) && op.Resource == "ext": // its reader is an operator of the cloud
		return faultf(http.StatusServiceUnavailable, "Nova cannot be asked now: %s", cloud.Text)
	case errors.As(err, &cloud) && cloud.Status == http.StatusForbidden:
		return faultf(http.StatusForbidden, "%s", cloud.Text)
	case errors.As(err, &cloud):
		return faultf(http.StatusServiceUnavailable, "Nova cannot be asked now. Try again later.")
	case errors.As(err, &unavailable):
		return faultf(http.StatusServiceUnavailable, "The service cannot reach its %s now. Try again later.", unavailable.What)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return faultf(http.StatusServiceUnavailable, "The request took too long. Try again later.")
	default:
		return nil, false
	}
}

func faultf(status int, format string, args ...any) (*Fault, bool) {
	return &Fault{Status: status, Message: fmt.Sprintf(format, args...)}, true
}

func notFoundFault(op Op, e *ha.NotFoundError) (*Fault, bool) {
	switch {
	case e.Kind == ha.KindCompute:
		return faultf(http.StatusBadRequest, "Compute service with name %s could not be found.", e.ID)
	case e.Kind == ha.KindHost && op == ReportOp:
		return faultf(http.StatusBadRequest, "Host with name %s could not be found.", e.ID)
	case e.Kind == ha.KindInstance:
		return faultf(http.StatusNotFound, "Instance %s could not be found in Nova.", e.ID)
	case e.Kind == ha.KindHost && op.Resource == "ext":
		return faultf(http.StatusNotFound, "Host with name %s could not be found.", e.ID)
	case e.Kind == ha.KindHost && e.Under != "":
		return faultf(http.StatusNotFound, "Host '%s' under failover_segment '%s' could not be found.", e.ID, e.Under)
	}
	what := map[ha.Kind]string{
		ha.KindSegment: "failover segment", ha.KindHost: "host", ha.KindNotification: "notification",
		ha.KindVMove: "vm move", ha.KindRecovery: "recovery of notification",
	}[e.Kind]
	if what == "" {
		what = string(e.Kind)
	}
	return faultf(http.StatusNotFound, "No %s with id %s.", what, e.ID)
}

func inUseText(op Op, e *ha.InUseError) string {
	verb := "updated"
	if op.Action == "delete" {
		verb = "deleted"
	}
	subject := "Host " + e.ID
	if e.Kind == ha.KindSegment {
		subject = "Failover segment " + e.ID
		if verb == "deleted" { // the original writes it so
			subject = "Failover segment (" + e.ID + ")"
		}
	}
	return fmt.Sprintf("%s can't be %s as it is in-use to process notifications.", subject, verb)
}
