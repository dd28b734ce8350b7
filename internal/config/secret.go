package config

import (
	"fmt"
	"log/slog"
)

const masked = "***"

// Secret is a value that must not be seen. It prints as *** in every format of fmt, in slog and in JSON, also inside
// other structs; only Reveal gives it away. The zero value is no secret at all and prints as "".
//
// The text is behind a pointer so that fmt, which cannot call methods of unexported fields, prints an address at most.
type Secret struct{ text *string }

// NewSecret returns text as a secret; empty text is the zero value.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text itself, for the one call that needs it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal reports whether both are the same text.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return masked
}

// Format serves every verb, %#v and %x too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue serves slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText serves JSON and whatever else encodes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
