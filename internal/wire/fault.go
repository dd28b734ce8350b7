package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Fault is an error of the API (contract 1.3). It is an error, so that handlers can return it.
type Fault struct {
	Status     int
	Message    string
	RetryAfter string // of 413 and 429, when the header is set
}

func (f *Fault) Error() string { return fmt.Sprintf("%d %s", f.Status, f.Message) }

// kind is the one key of a fault's body.
func (f *Fault) kind() string {
	switch f.Status {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusMethodNotAllowed:
		return "badMethod"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return "overLimit"
	case http.StatusUnsupportedMediaType:
		return "badMediaType"
	case http.StatusNotImplemented:
		return "notImplemented"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	default:
		return "masakariFault"
	}
}

type faultBody struct {
	Code       int    `json:"code"`
	Message    string `json:"message"`
	RetryAfter string `json:"retryAfter,omitempty"`
}

// MarshalJSON writes the body.
func (f *Fault) MarshalJSON() ([]byte, error) {
	return Encode(map[string]faultBody{f.kind(): {f.Status, f.Message, f.RetryAfter}}), nil
}

// UnmarshalJSON reads a body of one key, whatever its name, and also the plain JSON shape, whose code is a text.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var plain struct {
		Message *string `json:"message"`
	}
	if err := json.Unmarshal(b, &plain); err == nil && plain.Message != nil {
		f.Message = *plain.Message
		return nil
	}
	var body map[string]faultBody
	if err := json.Unmarshal(b, &body); err != nil {
		return fmt.Errorf("no fault: %w", err)
	}
	for _, inner := range body {
		f.Status, f.Message, f.RetryAfter = inner.Code, inner.Message, inner.RetryAfter
		return nil
	}
	return fmt.Errorf("no fault: %s", b)
}

// Unauthorized is keystonemiddleware's 401, which is no fault.
func Unauthorized() any {
	type inner struct {
		Code    int    `json:"code"`
		Title   string `json:"title"`
		Message string `json:"message"`
	}
	return struct {
		Error inner `json:"error"`
	}{inner{http.StatusUnauthorized, "Unauthorized", "The request you have made requires authentication."}}
}
