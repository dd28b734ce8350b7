package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is what a rule says of an identity, and why.
type Answer struct {
	Rule    string `json:"rule"`
	Allowed bool   `json:"allowed"`
	Text    string `json:"text"`   // of the rule; "" when it is not defined and nothing stands in for it
	Source  string `json:"source"` // file:line, or default
}

// Explain asks every rule of the API about an identity, and lists after them what else the files define, by name. Findings
// are likely mistakes in the files: rules that nobody asks for, and references to rules that are not defined. It reads the
// files as New does.
func Explain(cfg Config, id Identity) (answers []Answer, findings []string, err error) {
	if cfg.DefaultRule == "" {
		cfg.DefaultRule = "default"
	}
	read, err := cfg.find()
	if err != nil {
		return nil, nil, err
	}
	rules, err := load(read.files, cfg.DefaultRule)
	if err != nil {
		return nil, nil, err
	}
	asked := defaults()
	ask := func(rule string) Answer {
		o := rules.origins[rule]
		return Answer{rule, rules.allows(rule, question{id: id, target: id.target(), rules: rules}), o.text, o.source}
	}
	id.IsAdmin = rules.admin(id)
	names := slices.Sorted(maps.Keys(rules.checks))
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	for _, name := range names {
		answers = append(answers, ask(name))
	}
	referred := map[string]bool{cfg.DefaultRule: true}
	for _, c := range rules.checks {
		c.refers(func(rule string) { referred[rule] = true })
	}
	for _, name := range names {
		if _, known := asked[name]; !known && !referred[name] {
			findings = append(findings, fmt.Sprintf("%s: nobody asks for rule %s: is its name misspelled?", rules.origins[name].source, name))
		}
	}
	for _, name := range rules.undefined() {
		findings = append(findings, fmt.Sprintf("a rule refers to rule:%s, which is not defined: it allows nobody, or what rule %s allows", name, cfg.DefaultRule))
	}
	return answers, findings, nil
}

// order puts the API's rules first: Masakari's, then salvor's own.
func order(rule string) int {
	switch {
	case strings.HasPrefix(rule, "os_masakari_api:"):
		return 0
	case strings.HasPrefix(rule, "salvor_api:"):
		return 1
	default:
		return 2
	}
}
