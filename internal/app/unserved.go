package app

import (
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
)

// warnUnserved names what is configured and has no effect.
func (b *builder) warnUnserved() {
	if b.role == roleAPI {
		return
	}
	for _, name := range editedFlows(b.cfg) {
		b.log.Warn("recoveries take salvor's own steps: the option is checked, and has no effect", "group", flowGroup, "option", name)
	}
}

const flowGroup = "taskflow_driver_recovery_flows"

// editedFlows names the recovery workflows that differ from Masakari's.
func editedFlows(c *config.Config) []string {
	defaults := map[string]string{}
	for _, o := range config.Options() {
		if o.Group == flowGroup {
			defaults[o.Name] = bare(o.Default)
		}
	}
	var names []string
	for _, s := range c.Effective() {
		if d, ok := defaults[s.Option]; ok && s.Group == flowGroup && s.Set && bare(s.Value) != d {
			names = append(names, s.Option)
		}
	}
	return names
}

// bare is a workflow's text without what says nothing.
func bare(s string) string {
	return strings.NewReplacer(" ", "", "'", "", `"`, "", "\n", "").Replace(s)
}
