package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is a type of option: how its text is read, and what is expected, in words.
type kind[T any] struct {
	name  string // as the reference shows it
	multi bool   // may be given several times; all values count
	blank bool   // an empty text is no value at all
	parse func(texts []string) (T, error)
}

// single is a kind whose last value counts.
func single[T any](name string, parse func(string) (T, error)) kind[T] {
	return kind[T]{name: name, parse: func(texts []string) (T, error) { return parse(texts[len(texts)-1]) }}
}

// number is a kind for which an empty text is no value.
func number[T any](name string, parse func(string) (T, error)) kind[T] {
	k := single(name, parse)
	k.blank = true
	return k
}

const unbounded = math.MaxInt32

func text() kind[string] {
	return single("string", func(s string) (string, error) { return s, nil })
}

func secret() kind[Secret] {
	return single("string", func(s string) (Secret, error) { return NewSecret(s), nil })
}

// choice takes one of the words, in any case.
func choice(allowed ...string) kind[string] {
	return single(strings.Join(allowed, " or "), func(s string) (string, error) {
		for _, a := range allowed {
			if strings.EqualFold(s, a) {
				return a, nil
			}
		}
		return "", fmt.Errorf("expected %s", strings.Join(allowed, " or "))
	})
}

// authType is a plugin of keystoneauth that salvor can do the work of, or nothing.
func authType() kind[string] {
	known := []string{"password", "v3password", "v3applicationcredential"}
	return single(strings.Join(known, ", "), func(s string) (string, error) {
		if s == "" || slices.Contains(known, s) {
			return s, nil
		}
		return "", fmt.Errorf("salvor logs in by %s only", strings.Join(known, ", "))
	})
}

// boolean takes oslo.config's words in any case.
func boolean() kind[bool] {
	return single("boolean", func(s string) (bool, error) {
		switch strings.ToLower(s) {
		case "true", "1", "on", "yes":
			return true, nil
		case "false", "0", "off", "no":
			return false, nil
		}
		return false, errors.New("expected true or false")
	})
}

func integer(low, high int) kind[int] {
	return number("integer"+bounds(float64(low), float64(high)), func(s string) (int, error) {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected an integer%s", bounds(float64(low), float64(high)))
		}
		return n, nil
	})
}

// seconds is a whole number of seconds, as most of Masakari's periods are.
func seconds(low int) kind[time.Duration] {
	return number("seconds"+bounds(float64(low), unbounded), func(s string) (time.Duration, error) {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < low || n > unbounded {
			return 0, fmt.Errorf("expected a whole number of seconds%s", bounds(float64(low), unbounded))
		}
		return time.Duration(n) * time.Second, nil
	})
}

// fraction is a number of seconds with a fraction, between low and high.
func fraction(low, high float64) kind[time.Duration] {
	return number("seconds"+bounds(low, high), func(s string) (time.Duration, error) {
		n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(n >= low && n <= high) {
			return 0, fmt.Errorf("expected a number of seconds%s", bounds(low, high))
		}
		return time.Duration(n * float64(time.Second)), nil
	})
}

func bounds(low, high float64) string {
	switch {
	case low <= -unbounded && high >= unbounded:
		return ""
	case high >= unbounded:
		return fmt.Sprintf(" ≥ %v", low)
	case low <= -unbounded:
		return fmt.Sprintf(" ≤ %v", high)
	default:
		return fmt.Sprintf(" from %v to %v", low, high)
	}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?$`)

// address is a host name or an IP address.
func address() kind[string] {
	return single("host name or address", func(s string) (string, error) {
		s = strings.TrimSpace(s)
		if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
			return strings.Trim(s, "[]"), nil
		}
		if len(s) <= 255 && hostName.MatchString(s) {
			return s, nil
		}
		return "", errors.New("expected a host name or an IP address")
	})
}

// webURL is an http or https URL, or nothing.
func webURL() kind[string] {
	return single("URL", func(s string) (string, error) {
		s = strings.TrimSpace(s)
		if s == "" {
			return "", nil
		}
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.ContainsAny(s, " \t\n") {
			return "", errors.New("expected an http:// or https:// URL")
		}
		return s, nil
	})
}

// webURLs is webURL, and may stand several times.
func webURLs() kind[[]string] {
	return kind[[]string]{name: "URL, may be repeated", multi: true, parse: func(texts []string) ([]string, error) {
		var all []string
		for _, t := range texts {
			u, err := webURL().parse([]string{t})
			if err != nil {
				return nil, err
			}
			if u != "" && !slices.Contains(all, u) {
				all = append(all, u)
			}
		}
		return all, nil
	}}
}

// listen is host:port, [address]:port or :port, or nothing.
func listen() kind[string] {
	return single("host:port", func(s string) (string, error) {
		s = strings.TrimSpace(s)
		if s == "" {
			return "", nil
		}
		at := strings.LastIndexByte(s, ':')
		port, err := strconv.Atoi(s[at+1:])
		if at < 0 || err != nil || port < 0 || port > 65535 {
			return "", errors.New("expected HOST:PORT")
		}
		if host := s[:at]; host != "" {
			if _, err := address().parse([]string{host}); err != nil {
				return "", errors.New("expected HOST:PORT")
			}
		}
		return s, nil
	})
}

// list is values with commas between them.
func list() kind[[]string] {
	return single("list", func(s string) ([]string, error) { return splitList(s), nil })
}

func splitList(s string) []string {
	s = strings.TrimRight(strings.TrimSpace(s), ",")
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// repeated is an option that may stand several times; empty values do not count.
func repeated() kind[[]string] {
	return kind[[]string]{name: "string, may be repeated", multi: true, parse: func(texts []string) ([]string, error) {
		var all []string
		for _, t := range texts {
			if t != "" {
				all = append(all, t)
			}
		}
		return all, nil
	}}
}

// expression is a regular expression, or nothing.
func expression() kind[string] {
	return single("regular expression", func(s string) (string, error) {
		if _, err := regexp.Compile(s); err != nil {
			return "", errors.New("expected a regular expression")
		}
		return s, nil
	})
}

// catalogInfo is <service_type>:<service_name>:<interface>.
func catalogInfo() kind[string] {
	return single("type:name:interface", func(s string) (string, error) {
		if p := strings.Split(s, ":"); len(p) != 3 || p[0] == "" || p[2] == "" {
			return "", errors.New("expected SERVICE_TYPE:SERVICE_NAME:INTERFACE, such as compute:nova:publicURL")
		}
		return s, nil
	})
}
