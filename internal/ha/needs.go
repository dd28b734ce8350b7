package ha

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Needs is what an instance takes of a host, in Placement's words. It is comparable: instances of one flavor ask the same. The
// zero value is unknown.
type Needs struct {
	Resources string // CLASS:AMOUNT, by name: "DISK_GB:1,MEMORY_MB:512,VCPU:1"
	Traits    string // TRAIT or !TRAIT, by name: "HW_CPU_X86_AVX2,!CUSTOM_SLOW"
}

// NeedsOf writes the amounts of resource classes (those of 0 are none) and the traits.
func NeedsOf(amounts map[string]int64, traits []string) Needs {
	var resources []string
	for _, class := range slices.Sorted(maps.Keys(amounts)) {
		if amounts[class] > 0 {
			resources = append(resources, fmt.Sprintf("%s:%d", class, amounts[class]))
		}
	}
	return Needs{Resources: strings.Join(resources, ","), Traits: strings.Join(slices.Sorted(slices.Values(traits)), ",")}
}

// Known reports whether it says anything.
func (n Needs) Known() bool { return n.Resources != "" }

// Amounts are the amounts by resource class.
func (n Needs) Amounts() map[string]int64 {
	out := map[string]int64{}
	for part := range strings.SplitSeq(n.Resources, ",") {
		class, amount, ok := strings.Cut(part, ":")
		var units int64
		if _, err := fmt.Sscan(amount, &units); ok && err == nil {
			out[class] = units
		}
	}
	return out
}

// Room is a host that Placement offers for some needs, with what it has left of each resource class that they name.
type Room struct {
	Host string
	Free map[string]int64
}
