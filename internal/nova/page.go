package nova

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// link is an entry of servers_links and its like.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// maxPages bounds a list: 1,000 pages of Nova's usual 1,000.
const maxPages = 1000

// eachPage calls get for each page. Of the link to the next one only the marker and the limit are taken: its host is Nova's
// own idea of where it stands, and the token goes to the endpoint of the catalog only.
func eachPage(ctx context.Context, query url.Values, get func(context.Context, url.Values) ([]link, error)) (pages int, err error) {
	seen := map[string]bool{}
	for pages = 1; ; pages++ {
		links, err := get(ctx, query)
		if err != nil {
			return pages, err
		}
		marker, limit := nextOf(links)
		if marker == "" {
			return pages, nil
		}
		if seen[marker] || pages >= maxPages {
			return pages, broken("page", "?marker="+marker, "the list does not end: Nova points to a page that was read already")
		}
		seen[marker] = true
		query.Set("marker", marker)
		if limit != "" {
			query.Set("limit", limit)
		}
	}
}

func nextOf(links []link) (marker, limit string) {
	for _, l := range links {
		if l.Rel != "next" {
			continue
		}
		if u, err := url.Parse(l.Href); err == nil {
			return u.Query().Get("marker"), u.Query().Get("limit")
		}
	}
	return "", ""
}

// broken is an answer that cannot be right.
func broken(name, path, text string) error {
	return &ha.CloudError{Class: ha.ClassBroken, Op: op{name: name, method: http.MethodGet, path: path}.String(), Text: text}
}

// present is a text that may be null, and knows whether it was given at all.
type present struct {
	text  string
	given bool
}

func (p *present) UnmarshalJSON(data []byte) error {
	p.given = true
	return json.Unmarshal(data, &p.text) // null leaves ""
}

// timestamp is a time as Nova writes it: without a zone where it means UTC, with or without a fraction. What cannot be
// read is the zero time: no rule rests on a time of Nova's alone.
type timestamp struct{ time.Time }

func (t *timestamp) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			t.Time = parsed.UTC()
			return nil
		}
	}
	return nil
}

// stamp orders records: by time, then by number.
type stamp struct {
	at time.Time
	id int64
}

func newestFirst[T any](all []T, of func(T) stamp) {
	slices.SortStableFunc(all, func(a, b T) int {
		x, y := of(a), of(b)
		return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.id, x.id))
	})
}
