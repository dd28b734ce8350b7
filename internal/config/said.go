package config

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxSaid is how many characters of what another server or program said are kept, be it in the log, in a row or in an answer.
const MaxSaid = 500

// Cleaner takes secrets out of what others said, and bounds it; the zero value only bounds it.
type Cleaner struct{ masks []string }

// NewCleaner masks the secrets, also as URLs, quoted texts, JSON, and logins of HTTP have them.
func NewCleaner(user string, secrets ...Secret) Cleaner {
	var c Cleaner
	for _, s := range secrets {
		text := s.Reveal()
		if text == "" {
			continue
		}
		quoted := strconv.Quote(text)
		var sent bytes.Buffer
		json.HTMLEscape(&sent, []byte(quoted[1:len(quoted)-1])) // as requests have & < >: \u0026 …
		c.masks = append(c.masks, text, url.QueryEscape(text), url.PathEscape(text), quoted[1:len(quoted)-1], sent.String(),
			strings.ReplaceAll(text, `'`, `'"'"'`), base64.StdEncoding.EncodeToString([]byte(user+":"+text)),
			base64.StdEncoding.EncodeToString([]byte(text)))
	}
	slices.SortFunc(c.masks, func(a, b string) int { return len(b) - len(a) }) // what is part of another comes after it
	return c
}

// Line makes text one line without secrets and control characters, of at most MaxSaid characters and a mark of what is cut.
func (c Cleaner) Line(text string) string {
	for _, m := range c.masks {
		text = strings.ReplaceAll(text, m, masked)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > MaxSaid {
		text = string(runes[:MaxSaid]) + "…"
	}
	return text
}
