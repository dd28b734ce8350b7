package fencing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/salvor-ha/salvor/internal/config"
)

// maxText is how many characters of what a controller said are kept as evidence.
const maxText = 300

// cleaner takes secrets out of what others said.
type cleaner struct{ masks []string }

// newCleaner masks the secrets, also as URLs, quoted texts, JSON, and logins of HTTP have them.
func newCleaner(user string, secrets ...config.Secret) cleaner {
	var c cleaner
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

// line makes text one line without secrets and control characters, of at most maxText characters.
func (c cleaner) line(text string) string {
	for _, m := range c.masks {
		text = strings.ReplaceAll(text, m, "***")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}
