package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Flow is a recovery workflow as the operator's file names its tasks.
type Flow struct {
	Pre, Main, Post []string
}

// tasks are the entry points that Masakari registers for its task flow driver (contract section 6). Tasks of third
// parties are Python and cannot run here: an unknown name is refused at start rather than skipped in a recovery.
var tasks = []string{
	"disable_compute_service_task", "prepare_HA_enabled_instances_task", "evacuate_instances_task",
	"stop_instance_task", "start_instance_task", "confirm_instance_active_task",
	"disable_compute_node_task", "confirm_compute_node_disabled_task", "no_op",
}

func flow() kind[Flow] {
	return single("pre:[…],main:[…],post:[…]", func(s string) (Flow, error) {
		f, err := parseFlow(s)
		if err != nil {
			return Flow{}, err
		}
		for _, name := range slices.Concat(f.Pre, f.Main, f.Post) {
			if !slices.Contains(tasks, name) {
				return Flow{}, fmt.Errorf("unknown task %q%s: tasks of third parties cannot run in salvor", name, didYouMean(name, tasks))
			}
		}
		return f, nil
	})
}

// parseFlow reads a dict of lists of oslo.config: pre:['a','b'],main:['c'],post:[]; quotes are optional.
func parseFlow(s string) (Flow, error) {
	var f Flow
	seen := map[string]bool{}
	for rest := strings.TrimSpace(s); rest != ""; {
		part, after, names, err := flowPart(rest)
		if err != nil {
			return Flow{}, err
		}
		if seen[part] {
			return Flow{}, fmt.Errorf("%s is given twice", part)
		}
		seen[part] = true
		switch part {
		case "pre":
			f.Pre = names
		case "main":
			f.Main = names
		case "post":
			f.Post = names
		default:
			return Flow{}, fmt.Errorf("expected pre, main or post before the colon, not %q", part)
		}
		rest = after
	}
	return f, nil
}

var errFlow = errors.New("expected pre:[TASK,…],main:[TASK,…],post:[TASK,…]")

// flowPart takes "name:[a,b]" and the comma behind it off the front of s.
func flowPart(s string) (part, rest string, names []string, err error) {
	part, s, ok := strings.Cut(s, ":")
	s = strings.TrimSpace(s)
	if !ok || !strings.HasPrefix(s, "[") {
		return "", "", nil, errFlow
	}
	inside, rest, ok := strings.Cut(s[1:], "]")
	if !ok {
		return "", "", nil, errFlow
	}
	rest = strings.TrimSpace(rest)
	if rest != "" {
		if rest[0] != ',' {
			return "", "", nil, errFlow
		}
		rest = strings.TrimSpace(rest[1:])
	}
	for _, name := range splitList(inside) {
		if name != "" && (name[0] == '\'' || name[0] == '"') {
			if len(name) < 2 || name[len(name)-1] != name[0] {
				return "", "", nil, fmt.Errorf("the quote before %s is not closed", name[1:])
			}
			name = name[1 : len(name)-1]
		}
		names = append(names, name)
	}
	return strings.TrimSpace(part), rest, names, nil
}
