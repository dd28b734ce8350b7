package ha

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	ticketBlob = "11111111-2222-3333-4444-555555555555"
	ticketFrom = "aaaaaaaa-2222-3333-4444-555555555555"
	ticketTo   = "bbbbbbbb-2222-3333-4444-555555555555"
)

// TestTickets: one opens one blob at one source until it expires, and nothing else.
func TestTickets(t *testing.T) {
	key, now := []byte("key of the source"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Ticket{Blob: ticketBlob, Source: ticketFrom, Destination: ticketTo, Expires: now.Add(time.Minute)}
	text, err := SignTicket(key, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := CheckTicket(key, text, ticketBlob, ticketFrom, now); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := CheckTicket(key, text, ticketBlob, ticketFrom, now.Add(time.Minute-MaxTicketLife)); err != nil {
		t.Errorf("a ticket that is good for as long as one may be: %v", err)
	}
	first, sum, _ := strings.Cut(text, ".")
	for name, check := range map[string]func() (Ticket, error){
		"is for blob": func() (Ticket, error) { return CheckTicket(key, text, ticketTo, ticketFrom, now) },
		"is for host": func() (Ticket, error) { return CheckTicket(key, text, ticketBlob, ticketTo, now) },
		"expired":     func() (Ticket, error) { return CheckTicket(key, text, ticketBlob, ticketFrom, now.Add(time.Minute)) },
		"no ticket is good for more than 1h": func() (Ticket, error) {
			return CheckTicket(key, text, ticketBlob, ticketFrom, now.Add(time.Minute-MaxTicketLife-time.Second))
		},
		"not signed":    func() (Ticket, error) { return CheckTicket([]byte("other"), text, ticketBlob, ticketFrom, now) },
		"signed with":   func() (Ticket, error) { return CheckTicket(key, first+"A."+sum, ticketBlob, ticketFrom, now) },
		"it is none":    func() (Ticket, error) { return CheckTicket(key, first, ticketBlob, ticketFrom, now) },
		"refused: it i": func() (Ticket, error) { return CheckTicket(nil, text, ticketBlob, ticketFrom, now) },
	} {
		if _, err := check(); !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), sum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []Ticket{{}, {Blob: "../../etc/passwd", Source: ticketFrom, Destination: ticketTo}, {Blob: strings.ToUpper(ticketFrom), Source: ticketFrom, Destination: ticketTo}} {
		if _, err := SignTicket(key, bad); err == nil {
			t.Errorf("%+v was signed", bad)
		}
	}
	if _, err := SignTicket(nil, want); err == nil {
		t.Error("signed without a key")
	}
}

func FuzzTicket(f *testing.F) {
	key, now := []byte("key"), time.Unix(1000, 0)
	good, err := SignTicket(key, Ticket{ticketBlob, ticketFrom, ticketTo, now.Add(time.Second)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("a.b")
	f.Add(strings.Repeat("x", 600) + ".00")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := CheckTicket(key, text, ticketBlob, ticketFrom, now)
		if err == nil && !strings.EqualFold(text, good) {
			t.Errorf("%q opens %+v", text, got)
		}
	})
}
