package ha

import "strings"

// CanonicalUUID returns the lower-case, dashed form of any spelling of a uuid that OpenStack tolerates: any case, dashes
// anywhere or nowhere, braces around it, the prefixes "urn:" and "uuid:" (contract section 3). It reports false for
// anything else.
func CanonicalUUID(s string) (string, bool) {
	if canonical(s) { // as nearly all are
		return s, true
	}
	s = uuidPrefixes.Replace(s)
	s = strings.ToLower(strings.ReplaceAll(strings.Trim(s, "{}"), "-", ""))
	if len(s) != 32 {
		return "", false
	}
	s = s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
	return s, canonical(s)
}

var uuidPrefixes = strings.NewReplacer("urn:", "", "uuid:", "")

func canonical(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
