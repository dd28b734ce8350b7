package testkit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestMustAsksAgain while the database is said to be out of reach, with the same body.
func TestMustAsksAgain(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"a":"b"}` {
			t.Errorf("%s, %v", body, err)
		}
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"serviceUnavailable": {"code": 503, "message": "The service cannot reach its database now. Try again later."}}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer s.Close()
	Must(t, 201, "POST", s.URL, map[string]any{"a": "b"})
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}
