package wire

import (
	"strconv"
	"strings"
)

// AnswerType is the type of a success: the API's own if the client would rather have it, or names it while plain JSON is one among others.
func AnswerType(accept string) string {
	own, named := quality(accept, MediaVendor)
	plain, among := quality(accept, MediaJSON)
	if own > plain || own > 0 && own == plain && named > among {
		return MediaVendor
	}
	return MediaJSON
}

// Accepted returns the offer that an Accept header likes best, the earlier one of equals; "" when it likes none. It
// never fails: what cannot be read is passed over.
func Accepted(header string, offers ...string) string {
	best, bestQ := "", 0.0
	if header == "" {
		return best
	}
	for _, offer := range offers {
		if q, _ := quality(header, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	return best
}

// quality returns the q of the range that fits mediaType most closely, and how closely. A range with a parameter of its own, as
// application/json;version=1, fits none of ours, which have no parameters (RFC 9110, 12.5.1).
func quality(header, mediaType string) (q float64, closest int) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for entry := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(entry, ";")
		weight, plain := weightOf(params)
		fit := 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case mediaType:
			if plain {
				fit = 3
			}
		case kind + "/*":
			fit = 2
		case "*/*":
			fit = 1
		}
		if fit > closest {
			closest, q = fit, weight
		}
	}
	return q, closest
}

// weightOf reads the parameters of a range: its q, 1 where there is none, and whether the range has no other before it.
func weightOf(params string) (q float64, plain bool) {
	plain = true
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return q, plain
			}
		} else if name != "" {
			plain = false
		}
	}
	return 1, plain
}
