package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// InstanceClass is one [salvor] instance_class: a rule for the instances that meet all its conditions.
type InstanceClass struct {
	Name       string
	Conditions []ClassCondition // none: every instance
	Action     string           // evacuate, leave or error
	Priority   *int             // nil: as the instances' metadata HA_Priority says
	Waits      bool             // wait or cap is given: lower priorities wait for this one
	Wait, Cap  time.Duration
	Restart    *bool // nil: as the instances' metadata says
}

// ClassCondition asks for one trait of an instance: metadata.KEY, flavor, flavor.SPEC, image, image.PROPERTY, project or aggregate.
type ClassCondition struct {
	Trait  string
	Key    string   // "" where the trait has none
	Values []string // any of them; * stands for any text
}

// Bounds of a class, and how long a priority is waited for when cap is not given.
const (
	maxClasses      = 100
	maxPriority     = 1000000
	maxClassSeconds = 86400
	classCap        = 600 * time.Second
)

// classForm is shown with what cannot be read.
const classForm = "expected NAME: CONDITION, …, action=evacuate|leave|error, such as gold: metadata.tier=gold, action=evacuate, priority=100, wait=30"

var className = regexp.MustCompile(`^[A-Za-z0-9_-]{1,50}$`)

// instanceClasses reads [salvor] instance_class, which is given once for each class. Nothing is guessed: a word that is not known is
// an error, as a rule that is read otherwise than it is meant moves what it should not.
func instanceClasses() kind[[]InstanceClass] {
	return kind[[]InstanceClass]{name: "class, may be repeated", multi: true, parse: func(texts []string) ([]InstanceClass, error) {
		var all []InstanceClass
		for _, text := range texts {
			if strings.TrimSpace(text) == "" {
				continue
			}
			c, err := parseClass(text)
			if err != nil {
				return nil, err
			}
			for _, before := range all {
				switch {
				case before.Name == c.Name:
					return nil, fmt.Errorf("two classes are named %s", c.Name)
				case len(before.Conditions) == 0:
					return nil, fmt.Errorf("class %s can never apply: class %s before it has no condition and takes every instance", c.Name, before.Name)
				}
			}
			if all = append(all, c); len(all) > maxClasses {
				return nil, fmt.Errorf("more than %d classes", maxClasses)
			}
		}
		return all, nil
	}}
}

func parseClass(text string) (InstanceClass, error) {
	name, rest, found := strings.Cut(text, ":")
	c := InstanceClass{Name: strings.TrimSpace(name)}
	if !found {
		return c, errors.New(classForm)
	}
	if !className.MatchString(c.Name) {
		return c, errors.New("a class's name is 1 to 50 letters, digits, - and _; " + classForm)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, found := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !found || key == "" || value == "":
			return c, fmt.Errorf("class %s: %q is no KEY=VALUE", c.Name, strings.TrimSpace(part))
		case seen[key]:
			return c, fmt.Errorf("class %s: %s is given twice; several values of a condition are written VALUE|VALUE", c.Name, key)
		}
		seen[key] = true
		if err := c.set(key, value); err != nil {
			return c, fmt.Errorf("class %s: %w", c.Name, err)
		}
	}
	err := c.whole()
	return c, err
}

// set takes one KEY=VALUE.
func (c *InstanceClass) set(key, value string) (err error) {
	switch key {
	case "action":
		if c.Action = value; !slices.Contains([]string{"evacuate", "leave", "error"}, value) {
			return fmt.Errorf("action=%s: expected evacuate, leave or error", value)
		}
	case "priority":
		n, err := strconv.Atoi(value)
		if err != nil || n < -maxPriority || n > maxPriority {
			return fmt.Errorf("priority=%s: expected an integer from %d to %d", value, -maxPriority, maxPriority)
		}
		c.Priority = &n
	case "wait":
		c.Wait, err = classSeconds(key, value)
		c.Waits = true
	case "cap":
		c.Cap, err = classSeconds(key, value)
		c.Waits = true
	case "restart":
		yes, bad := boolean().parse([]string{value})
		if bad != nil {
			return fmt.Errorf("restart=%s: expected true or false", value)
		}
		c.Restart = &yes
	default:
		return c.condition(key, value)
	}
	return err
}

func classSeconds(key, value string) (time.Duration, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxClassSeconds {
		return 0, fmt.Errorf("%s=%s: expected a whole number of seconds from 0 to %d", key, value, maxClassSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

var classWords = []string{"action", "priority", "wait", "cap", "restart", "metadata.KEY", "flavor", "flavor.SPEC", "image", "image.PROPERTY", "project", "aggregate"}

func (c *InstanceClass) condition(key, value string) error {
	trait, of, keyed := strings.Cut(key, ".")
	ok := false
	switch trait {
	case "metadata":
		ok = keyed
	case "flavor", "image":
		ok = true
	case "project", "aggregate":
		ok = !keyed
	}
	if !ok || keyed && of == "" {
		return fmt.Errorf("%s is unknown: one of %s", key, strings.Join(classWords, ", "))
	}
	cond := ClassCondition{Trait: trait, Key: of}
	for v := range strings.SplitSeq(value, "|") {
		if v = strings.TrimSpace(v); v == "" {
			return fmt.Errorf("%s=%s: a value is empty", key, value)
		}
		cond.Values = append(cond.Values, v)
	}
	c.Conditions = append(c.Conditions, cond)
	return nil
}

// whole finds what does not go together.
func (c *InstanceClass) whole() error {
	switch {
	case c.Action == "":
		return fmt.Errorf("class %s has no action: evacuate, leave or error", c.Name)
	case c.Action != "evacuate" && (c.Waits || c.Priority != nil):
		return fmt.Errorf("class %s: priority, wait and cap are for action=evacuate", c.Name)
	case c.Waits && c.Priority == nil:
		return fmt.Errorf("class %s: wait and cap need a priority: it is the lower ones that wait", c.Name)
	}
	if c.Waits && c.Cap == 0 {
		c.Cap = max(classCap, 2*c.Wait)
	}
	if c.Cap < c.Wait {
		return fmt.Errorf("class %s: cap, how long lower priorities wait at most, is less than wait", c.Name)
	}
	return nil
}
