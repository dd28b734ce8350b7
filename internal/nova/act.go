package nova

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// maxReason is the longest reason that Nova takes, for locks and for disabled services.
const maxReason = 255

// object is a JSON object; nil as a value is null.
type object map[string]any

// Do carries out one act, sent at most once. The error is the outcome's, a *ha.CloudError, whose class says whether it may
// have been done. An act of a kind or with an argument that makes no sense is not sent.
func (c *Client) Do(ctx context.Context, act ha.Act) (ha.Outcome, error) {
	out := ha.Outcome{Act: act}
	switch act.Kind {
	case ha.ActService:
		out.Service, out.Err = c.putService(ctx, act)
	case ha.ActAggregateAdd, ha.ActAggregateRemove:
		out.Err = c.changeAggregate(ctx, act)
	default:
		out.Err = c.serverAction(ctx, act)
	}
	out.At = time.Now()
	return out, out.Err
}

func (c *Client) serverAction(ctx context.Context, act ha.Act) error {
	var what string
	var argument any
	switch act.Kind {
	case ha.ActEvacuate:
		// Neither onSharedStorage, refused from 2.14 on, nor force, which goes past the scheduler and ends at 2.68.
		arguments := object{}
		if act.Target != "" {
			arguments["host"] = act.Target
		}
		what, argument = "evacuate", arguments
	case ha.ActLock:
		what = "lock"
	case ha.ActUnlock:
		what = "unlock"
	case ha.ActStop:
		what = "os-stop"
	case ha.ActStart:
		what = "os-start"
	case ha.ActResetState:
		if act.State != ha.VMError && act.State != ha.VMActive {
			return notSent(act, fmt.Sprintf("%q is no state to reset to", act.State))
		}
		what, argument = "os-resetState", object{"state": act.State}
	default:
		return notSent(act, "no such act")
	}
	if act.Instance == "" {
		return notSent(act, "no instance is named")
	}
	o := op{name: string(act.Kind), method: http.MethodPost, path: "servers/" + url.PathEscape(act.Instance) + "/action", what: what}
	if act.Kind == ha.ActLock && act.Reason != "" {
		argument = c.lockReason(ctx, act.Reason)
	}
	return c.send(ctx, o, object{what: argument}, act.SendBy, nil)
}

// lockReason is null where Nova takes no reason. If the version is not known yet, finding it out is the first thing that
// send would do; a failure shows there.
func (c *Client) lockReason(ctx context.Context, reason string) any {
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if e, err := c.ready(bounded); err != nil || e.minor < minorLockReason {
		return nil
	}
	return object{"locked_reason": cut(reason)}
}

// putService changes forced_down, status and reason in one call. Enabling takes no reason.
func (c *Client) putService(ctx context.Context, act ha.Act) (*ha.Service, error) {
	body := object{}
	if act.ForcedDown != nil {
		body["forced_down"] = *act.ForcedDown
	}
	if act.Enable != nil {
		body["status"] = "enabled"
		if !*act.Enable {
			body["status"] = "disabled"
			if act.Reason != "" {
				body["disabled_reason"] = cut(act.Reason)
			}
		}
	}
	if act.ServiceID == "" || len(body) == 0 {
		return nil, notSent(act, "no service is named, or nothing to change in it")
	}
	o := op{name: string(act.Kind), method: http.MethodPut, path: "os-services/" + url.PathEscape(act.ServiceID)}
	var doc struct {
		Service serviceRecord `json:"service"`
	}
	if err := c.send(ctx, o, body, act.SendBy, &doc); err != nil {
		return nil, err
	}
	s := doc.Service.ha()
	return &s, nil
}

func (c *Client) changeAggregate(ctx context.Context, act ha.Act) error {
	what := "add_host"
	if act.Kind == ha.ActAggregateRemove {
		what = "remove_host"
	}
	if act.Aggregate == "" || act.Host == "" {
		return notSent(act, "no aggregate or no host is named")
	}
	o := op{name: string(act.Kind), method: http.MethodPost, path: "os-aggregates/" + url.PathEscape(act.Aggregate) + "/action", what: what}
	return c.send(ctx, o, object{what: object{"host": act.Host}}, act.SendBy, nil)
}

func notSent(act ha.Act, text string) error {
	return &ha.CloudError{Class: ha.ClassNotSent, Op: string(act.Kind), Text: text}
}

func cut(reason string) string {
	if runes := []rune(reason); len(runes) > maxReason {
		return string(runes[:maxReason])
	}
	return reason
}
