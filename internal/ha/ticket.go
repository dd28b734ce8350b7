package ha

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ticket lets one host fetch one blob from one other, for a while (STORAGE-HEALTH, "The agent"). Blob, Source and Destination are uuids.
type Ticket struct {
	Blob, Source, Destination string
	Expires                   time.Time // whole seconds
}

// maxTicket bounds a ticket's text: three uuids, a time and a sum.
const maxTicket = 512

// MaxTicketLife bounds how far ahead a ticket may expire, whoever signed it: one that leaks is of no use later. It is far more than tickets are
// written for, so that clocks may differ.
const MaxTicketLife = time.Hour

// ticketMark begins what is signed, so that the key signs nothing else that looks the same.
const ticketMark = "salvor-ticket-1"

// ErrTicket is what every refusal of a ticket wraps.
var ErrTicket = errors.New("ticket refused")

// SignTicket writes a ticket with the key of its source. It fails when an id is no uuid in canonical form, or the key is empty.
func SignTicket(key []byte, t Ticket) (string, error) {
	if len(key) == 0 {
		return "", errors.New("a ticket cannot be signed without a key")
	}
	for _, id := range []string{t.Blob, t.Source, t.Destination} {
		if c, ok := CanonicalUUID(id); !ok || c != id {
			return "", fmt.Errorf("a ticket names %q, which is no uuid", id)
		}
	}
	fields := []string{ticketMark, t.Blob, t.Source, t.Destination, strconv.FormatInt(t.Expires.Unix(), 10)}
	first := base64.RawURLEncoding.EncodeToString([]byte(strings.Join(fields, "\n")))
	return first + "." + hex.EncodeToString(ticketSum(key, first)), nil
}

func ticketSum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// CheckTicket reads a ticket that should open blob at source. All errors wrap ErrTicket and say what is wrong with it; none shows the ticket.
func CheckTicket(key []byte, text, blob, source string, now time.Time) (Ticket, error) {
	t, err := readTicket(key, text)
	switch {
	case err != nil:
		return Ticket{}, err
	case t.Blob != blob:
		return Ticket{}, fmt.Errorf("%w: it is for blob %s, not %s", ErrTicket, t.Blob, blob)
	case t.Source != source:
		return Ticket{}, fmt.Errorf("%w: it is for host %s as the source, not %s", ErrTicket, t.Source, source)
	case !now.Before(t.Expires):
		return Ticket{}, fmt.Errorf("%w: it expired at %s", ErrTicket, t.Expires.UTC().Format(time.RFC3339))
	case t.Expires.Sub(now) > MaxTicketLife:
		return Ticket{}, fmt.Errorf("%w: it would open the blob until %s, and no ticket is good for more than %s", ErrTicket, t.Expires.UTC().Format(time.RFC3339), MaxTicketLife)
	}
	return t, nil
}

func readTicket(key []byte, text string) (Ticket, error) {
	first, sum, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxTicket || len(key) == 0 {
		return Ticket{}, fmt.Errorf("%w: it is none", ErrTicket)
	}
	signed, err := hex.DecodeString(sum)
	if err != nil || !hmac.Equal(signed, ticketSum(key, first)) {
		return Ticket{}, fmt.Errorf("%w: it is not signed with this host's key", ErrTicket)
	}
	raw, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return Ticket{}, fmt.Errorf("%w: it cannot be read", ErrTicket)
	}
	fields := strings.Split(string(raw), "\n")
	if len(fields) != 5 || fields[0] != ticketMark {
		return Ticket{}, fmt.Errorf("%w: it cannot be read", ErrTicket)
	}
	expires, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		return Ticket{}, fmt.Errorf("%w: it cannot be read", ErrTicket)
	}
	return Ticket{Blob: fields[1], Source: fields[2], Destination: fields[3], Expires: time.Unix(expires, 0).UTC()}, nil
}
