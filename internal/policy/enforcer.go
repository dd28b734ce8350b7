package policy

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says where the rules are ([oslo_policy]).
type Config struct {
	File        []string   // policy_file: where it may be; the first that is there is read. While none is the defaults hold
	Dirs        [][]string // policy_dirs, read after the file: of each, where it may be
	DefaultRule string     // policy_default_rule: stands in for a rule that is not defined; "" means "default"
}

// checkEvery is how often, at most, the files are looked at for changes.
const checkEvery = time.Second

// Enforcer answers by the rules, and reads the files again when they have changed.
type Enforcer struct {
	cfg     Config
	log     *slog.Logger
	rules   atomic.Pointer[ruleset]
	mu      sync.Mutex // of what is below, held while reading
	seen    string     // what the files looked like when last read
	read    found      // which they were
	failed  string     // why the files cannot be used as they are now; "" when they are in use
	checked time.Time
}

// New reads the rules. A file that cannot be read, or not understood, is an error with its line.
func New(cfg Config, log *slog.Logger) (*Enforcer, error) {
	if cfg.DefaultRule == "" {
		cfg.DefaultRule = "default"
	}
	e := &Enforcer{cfg: cfg, log: log, checked: time.Now()}
	var err error
	if e.read, err = cfg.find(); err != nil {
		return nil, err
	}
	e.seen = look(e.read.files)
	rules, err := load(e.read.files, cfg.DefaultRule)
	if err != nil {
		return nil, err
	}
	e.use(&rules)
	return e, nil
}

func (e *Enforcer) use(rules *ruleset) {
	if missing := rules.undefined(); len(missing) > 0 {
		e.log.Warn("policy refers to rules that are not defined: they allow nobody, or what the default rule allows", "rules", missing)
	}
	e.rules.Store(rules)
}

// Allows reports whether the identity may do what the rule is about. A rule that is not defined allows nobody.
func (e *Enforcer) Allows(rule string, id Identity) bool {
	e.refresh()
	rules := *e.rules.Load()
	return rules.allows(rule, question{id: id, target: id.target(), rules: rules})
}

// Identify returns id with IsAdmin as the rule context_is_admin has it.
func (e *Enforcer) Identify(id Identity) Identity {
	e.refresh()
	id.IsAdmin = e.rules.Load().admin(id)
	return id
}

// refresh reads changed files again. While they cannot be read or understood, the rules that held stay in force; so they do
// when the policy file, or a whole directory, is gone, as it is for a moment while some tools replace it: the defaults may allow more.
// A file that was taken out of its directory counts no more, as with oslo.policy.
func (e *Enforcer) refresh() {
	if !e.mu.TryLock() {
		return // another request is looking
	}
	defer e.mu.Unlock()
	if time.Since(e.checked) < checkEvery {
		return
	}
	e.checked = time.Now()
	now, err := e.cfg.find()
	seen := look(now.files)
	if err == nil && seen == e.seen && e.failed == "" {
		return
	}
	if gone := e.read.gone(); err == nil && gone != "" {
		err = fmt.Errorf("%s is gone; put it back, or send salvor SIGHUP (systemctl reload) to go by what is left", gone)
	}
	var rules ruleset
	if err == nil {
		rules, err = load(now.files, e.cfg.DefaultRule)
	}
	if err != nil { // tried again each time: a right that was given changes neither size nor time
		if err.Error() != e.failed {
			e.log.Error("policy not changed: the new rules cannot be used, the old ones stay in force", "error", err)
		}
		e.failed = err.Error()
		return
	}
	e.seen, e.read, e.failed = seen, now, ""
	e.use(&rules)
	e.log.Info("policy read again", "files", now.files)
}

// look describes files so that a change shows.
func look(files []string) string {
	var b strings.Builder
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintf(&b, "%s %v\n", f, err)
		}
	}
	return b.String()
}
