package app

import (
	"errors"
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
)

// checkServed refuses what this version would have to do for safety's sake and cannot, and warns of what else it does not do.
func (b *builder) checkServed() error {
	if b.role == roleAPI {
		return nil
	}
	var refused []error
	if b.cfg.Salvor.FencingFile != "" {
		refused = append(refused, errors.New("[salvor] fencing_file is set, but this version cannot fence: unset it, and do not count on fencing"))
	}
	for _, name := range editedFlows(b.cfg) {
		b.log.Warn("recoveries take salvor's own steps: the option is checked, and has no effect", "group", flowGroup, "option", name)
	}
	return errors.Join(refused...)
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
