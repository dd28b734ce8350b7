package nova

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/salvor-ha/salvor/internal/ha"
)

// readError makes the error of a call that changes nothing.
func (c *Client) readError(o op, err error) *ha.CloudError {
	out := &ha.CloudError{Class: ha.ClassBroken, Op: o.String(), Status: statusOf(err), Text: c.textOf(err)}
	if isSetup(err) {
		out.Status = 0 // Keystone's, or of another call to Nova
		return out
	}
	switch {
	case out.Status == http.StatusNotFound && !fromService(err):
	case out.Status == http.StatusNotFound:
		out.Class = ha.ClassGone
	case out.Status == http.StatusTooManyRequests || out.Status == http.StatusServiceUnavailable:
		out.Class = ha.ClassBusy
	case out.Status >= 400 && out.Status < 500:
		out.Class = ha.ClassRefused
	}
	return out
}

// actError makes the error of a call that changes something. Only an answer that says no, or the knowledge that nothing
// has left, makes it certain that nothing was done.
func (c *Client) actError(o op, f *flight, err error) *ha.CloudError {
	out := &ha.CloudError{Class: ha.ClassInDoubt, Op: o.String(), Status: statusOf(err), Text: c.textOf(err)}
	switch {
	case isSetup(err) || !f.left.Load() && out.Status != http.StatusUnauthorized:
		out.Class, out.Status = ha.ClassNotSent, 0
	case out.Status == http.StatusNotFound && !fromService(err):
	case out.Status == http.StatusNotFound:
		out.Class = ha.ClassGone
	case out.Status == http.StatusTooManyRequests:
		out.Class = ha.ClassBusy
	case out.Status >= 300 && out.Status < 500:
		out.Class = ha.ClassRefused
	}
	return out
}

// isSetup reports whether the call itself was never made, or was answered 401 and no new token could be had.
func isSetup(err error) bool {
	var s *setupError
	var again *gophercloud.ErrUnableToReauthenticate
	return errors.As(err, &s) || errors.As(err, &again)
}

// fromService reports whether an error answer is an OpenStack service's own. A 404 of a proxy that has lost Nova says
// nothing about an instance.
func fromService(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	var fault map[string]json.RawMessage
	return errors.As(err, &code) && json.Unmarshal(code.Body, &fault) == nil && len(fault) > 0
}

func statusOf(err error) int {
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return code.Actual
	}
	return 0
}

// textOf says what happened in the cloud's own words, without secrets and without what the call's name says already.
func (c *Client) textOf(err error) string {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return c.textOf(again.ErrReauth)
	}
	var auth *authError
	if errors.As(err, &auth) {
		return "Keystone gives no token: " + c.textOf(auth.cause)
	}
	var code gophercloud.ErrUnexpectedResponseCode
	var dial *net.OpError
	var tooSlow interface{ Timeout() bool }
	var outer *url.Error
	var text string
	switch {
	case errors.As(err, &code):
		text = bodyText(code)
	case errors.Is(err, errTooLate):
		text = errTooLate.Error()
	case errors.Is(err, context.Canceled):
		text = "called off"
	case errors.As(err, &dial) && dial.Op == "dial":
		text = "no connection: " + dial.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &tooSlow) && tooSlow.Timeout():
		text = "no answer in time"
	case errors.As(err, &outer):
		text = outer.Err.Error()
	default:
		text = err.Error()
	}
	return c.clean(text)
}

// bodyText is the message in {"badRequest": {"code": 400, "message": "…"}} and its like; else the body itself.
func bodyText(code gophercloud.ErrUnexpectedResponseCode) string {
	var fault map[string]json.RawMessage
	if json.Unmarshal(code.Body, &fault) == nil {
		for _, raw := range fault {
			var inner struct {
				Message string `json:"message"`
			}
			if json.Unmarshal(raw, &inner) == nil && inner.Message != "" {
				return inner.Message
			}
		}
		var flat struct {
			Errors []struct {
				Detail string `json:"detail"` // Placement's form
			} `json:"errors"`
			Message string `json:"message"`
		}
		if json.Unmarshal(code.Body, &flat) == nil {
			if len(flat.Errors) > 0 && flat.Errors[0].Detail != "" {
				return flat.Errors[0].Detail
			}
			if flat.Message != "" {
				return flat.Message
			}
		}
	}
	if location := code.ResponseHeader.Get("Location"); location != "" && code.Actual >= 300 && code.Actual < 400 {
		return "redirected, which is not followed: put the right URL into the catalog"
	}
	if text := strings.TrimSpace(string(code.Body)); text != "" {
		return text
	}
	return http.StatusText(code.Actual)
}

const maxText = 500

// clean makes a text fit for a log line and a database column.
func (c *Client) clean(text string) string {
	for _, secret := range []string{c.cfg.Password.Reveal(), c.provider.Token()} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}
