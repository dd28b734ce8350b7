package ha

import (
	"slices"
	"strings"
	"time"
)

// ClassAction is what a failed host's instances of a class come to (RECOVERY section 6).
type ClassAction string

const (
	ClassEvacuate ClassAction = "evacuate" // moved, as if their metadata said HA-enabled
	ClassLeave    ClassAction = "leave"    // not touched
	ClassError    ClassAction = "error"    // not moved, but set to error where they are
)

// Trait is what a condition of a class asks an instance for.
type Trait string

const (
	TraitMetadata  Trait = "metadata"  // metadata.KEY
	TraitFlavor    Trait = "flavor"    // the flavor's name, or flavor.SPEC: one of its extra specs
	TraitImage     Trait = "image"     // the image's id, or image.PROPERTY
	TraitProject   Trait = "project"   // the project's id
	TraitAggregate Trait = "aggregate" // name or id of an aggregate that its host is in
)

// Condition holds when the trait has one of the values; in them * stands for any text. Key is "" where the trait needs none.
type Condition struct {
	Trait  Trait
	Key    string
	Values []string
}

// String is the condition as the configuration has it.
func (c Condition) String() string {
	name := string(c.Trait)
	if c.Key != "" {
		name += "." + c.Key
	}
	return name + "=" + strings.Join(c.Values, "|")
}

// InstanceClass is a rule for the instances that meet all its conditions; without any, for each. Of several classes the first that
// fits decides.
type InstanceClass struct {
	Name       string
	Conditions []Condition
	Action     ClassAction
	Priority   *int // nil: as the metadata HA_Priority says
	// Waits says that instances of a lower priority are begun only when those of this one have arrived and Wait has passed since, or
	// when Cap has passed since the first of them was begun.
	Waits     bool
	Wait, Cap time.Duration
	Restart   *bool // whether a VM report restarts it; nil: as its metadata says
}

// String is the class's conditions, for people.
func (c InstanceClass) String() string {
	if len(c.Conditions) == 0 {
		return "every instance"
	}
	parts := make([]string, len(c.Conditions))
	for i, cond := range c.Conditions {
		parts[i] = cond.String()
	}
	return strings.Join(parts, ", ")
}

// fits reports whether the instance meets all conditions. on are the aggregates that its host is in.
func (c InstanceClass) fits(s Server, on []Aggregate) bool {
	return !slices.ContainsFunc(c.Conditions, func(cond Condition) bool { return !cond.holds(s, on) })
}

func (c Condition) holds(s Server, on []Aggregate) bool {
	switch c.Trait {
	case TraitMetadata:
		v, has := s.Metadata[c.Key]
		return has && c.matches(v)
	case TraitFlavor:
		if c.Key == "" {
			return s.Flavor != "" && c.matches(s.Flavor)
		}
		v, has := s.ExtraSpecs[c.Key]
		return has && c.matches(v)
	case TraitImage:
		if c.Key == "" {
			return s.Image != "" && c.matches(s.Image)
		}
		v, has := s.ImageProperties[c.Key]
		return has && c.matches(v)
	case TraitProject:
		return s.Project != "" && c.matches(s.Project)
	case TraitAggregate:
		return slices.ContainsFunc(on, func(a Aggregate) bool { return c.matches(a.Name) || c.matches(a.ID) })
	}
	return false
}

func (c Condition) matches(text string) bool {
	return slices.ContainsFunc(c.Values, func(pattern string) bool { return like(text, pattern) })
}

// like matches a text with a pattern in which * stands for any text.
func like(text, pattern string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return text == pattern
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// NeedsAggregates reports whether a class asks for the aggregates of the host: one more look, at a list.
func NeedsAggregates(classes []InstanceClass) bool {
	return slices.ContainsFunc(classes, func(c InstanceClass) bool {
		return slices.ContainsFunc(c.Conditions, func(c Condition) bool { return c.Trait == TraitAggregate })
	})
}

// AggregatesOf are those of all that the host is in.
func AggregatesOf(all []Aggregate, host string) (on []Aggregate) {
	for _, a := range all {
		if slices.Contains(a.Hosts, host) {
			on = append(on, a)
		}
	}
	return on
}

// ClassOfServer is the first class that the instance fits, nil when there is none.
func ClassOfServer(classes []InstanceClass, s Server, on []Aggregate) *InstanceClass {
	for i := range classes {
		if classes[i].fits(s, on) {
			return &classes[i]
		}
	}
	return nil
}
