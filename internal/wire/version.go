package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/salvor-ha/salvor/internal/ha"
)

// VersionHeader carries the microversion both ways (contract section 2).
const VersionHeader = "OpenStack-API-Version"

// serviceType is the only service type that the header is read for.
const serviceType = "instance-ha"

// Version is a microversion.
type Version struct{ Major, Minor int }

var (
	MinVersion = Version{1, 0}
	MaxVersion = Version{1, 3}
	// DetailsSince and EnabledSince are the versions that add recovery_workflow_details and `enabled` in bodies.
	DetailsSince = Version{1, 1}
	EnabledSince = Version{1, 2}
)

func (v Version) String() string { return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) }

// Header is the value of VersionHeader for v.
func (v Version) Header() string { return serviceType + " " + v.String() }

// AtLeast reports whether v is w or later.
func (v Version) AtLeast(w Version) bool {
	return v.Major > w.Major || v.Major == w.Major && v.Minor >= w.Minor
}

// VersionRangeError: well formed, but not offered. Version is as the client wrote it; the answer echoes it.
type VersionRangeError struct{ Version string }

func (e *VersionRangeError) Error() string {
	return fmt.Sprintf("Version %s is not supported by the API. Minimum is %s and maximum is %s.", e.Version, MinVersion, MaxVersion)
}

// Header is the value of VersionHeader on the refusal.
func (e *VersionRangeError) Header() string { return serviceType + " " + e.Version }

var versionSyntax = regexp.MustCompile(`^([1-9][0-9]*)\.([1-9][0-9]*|0)$`)

// ParseVersion reads the values of VersionHeader. Without an entry for this service it is MinVersion; of several entries
// the last counts. Errors are *ha.InvalidError and *VersionRangeError.
func ParseVersion(values []string) (Version, error) {
	text := ""
	for entry := range strings.SplitSeq(strings.Join(values, ","), ",") {
		entry = strings.TrimSpace(entry)
		if at := strings.IndexFunc(entry, unicode.IsSpace); at > 0 && strings.EqualFold(entry[:at], serviceType) {
			text = strings.TrimSpace(entry[at:])
		}
	}
	switch text {
	case "":
		return MinVersion, nil
	case "latest":
		return MaxVersion, nil
	}
	m := versionSyntax.FindStringSubmatch(text)
	if m == nil {
		return Version{}, &ha.InvalidError{Text: fmt.Sprintf("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", text)}
	}
	major, err := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	v := Version{major, minor}
	if err != nil || err2 != nil || !v.AtLeast(MinVersion) || !MaxVersion.AtLeast(v) {
		return Version{}, &VersionRangeError{text}
	}
	return v, nil
}
