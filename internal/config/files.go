package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const fileName = "masakari.conf"

// Sources says where options come from.
type Sources struct {
	Files []string // --config-file, in order; empty: the first masakari.conf of SearchDirs, if any
	Dirs  []string // --config-dir, in order; empty: the first masakari.conf.d of SearchDirs, if any
	After []int    // for each of Dirs, how many of Files are given before it; nil: all
	Env   []string // NAME=VALUE, as os.Environ returns them

	// SearchDirs are where files are looked for that are not named: nil means oslo.config's, ~/.masakari, ~,
	// /etc/masakari and /etc; an empty slice means nowhere.
	SearchDirs []string
}

func (s Sources) env(name string) string {
	for _, e := range slices.Backward(s.Env) {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			return v
		}
	}
	return ""
}

func (s Sources) searchDirs() []string {
	if s.SearchDirs != nil {
		return s.SearchDirs
	}
	var dirs []string
	if home := s.env("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".masakari"), home)
	}
	return append(dirs, "/etc/masakari", "/etc")
}

// files lists the files to read, the earliest first: later ones win. A named file or directory that is missing is an
// error. As in oslo.config, named files win over the default directory.
func (s Sources) files() ([]string, error) {
	var defaults, all []string
	if dir := s.env("OS_MASAKARI_CONFIG_DIR"); dir != "" && len(s.Files) == 0 {
		// Masakari's WSGI application reads it from there, and nowhere else.
		defaults = append(defaults, filepath.Join(dir, fileName))
	} else if len(s.Files) == 0 {
		if path, ok := search(s.searchDirs(), fileName); ok {
			defaults = append(defaults, path)
		}
	}
	all = append(all, defaults...)
	if len(s.Dirs) == 0 {
		if path, ok := search(s.searchDirs(), fileName+".d"); ok {
			inside, err := confFiles(path)
			if err != nil {
				return nil, err
			}
			all = append(all, inside...)
		}
	}
	done := 0
	for i, dir := range s.Dirs {
		inside, err := confFiles(dir)
		if err != nil {
			return nil, err
		}
		before := len(s.Files)
		if i < len(s.After) {
			before = s.After[i]
		}
		all = append(append(all, s.Files[done:before]...), inside...)
		done = before
	}
	return append(all, s.Files[done:]...), nil
}

// unread are files that Masakari's own programs read beside masakari.conf where no file is named, and salvor, which is one program, does not.
func (s Sources) unread() []string {
	var all []string
	if len(s.Files) > 0 || s.env("OS_MASAKARI_CONFIG_DIR") != "" {
		return nil
	}
	for _, name := range []string{"masakari-api.conf", "masakari-engine.conf", "masakari-api.conf.d", "masakari-engine.conf.d"} {
		if path, ok := search(s.searchDirs(), name); ok {
			all = append(all, path)
		}
	}
	return all
}

func search(dirs []string, name string) (string, bool) {
	for _, d := range dirs {
		path := filepath.Join(d, name)
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, true // one that may not be read is found; reading it says why not
		}
	}
	return "", false
}

// confFiles lists the *.conf files of a directory by name; as for a shell, * stands for no name that begins with a dot.
func confFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration directory: %w", err)
	}
	var all []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".conf") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// Places are the paths where a file may be that an option names relatively, such as policy.yaml: beside the configuration files, the
// last one first, then in the search directories. The first that is there counts, which may be another one later.
// As in Masakari, an old policy.json stands in for a policy.yaml that nobody has named and that is nowhere: it holds rules that
// must not be lost unnoticed.
func (c *Config) Places(name string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	names := []string{name}
	if name == DefaultPolicyFile && !c.IsSet("oslo_policy", "policy_file") {
		names = append(names, "policy.json")
	}
	var all []string
	for _, n := range names {
		for _, d := range c.dirs {
			all = append(all, filepath.Join(d, n))
		}
	}
	return all
}

// stateDir is the default of state_path.
func (s Sources) stateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/salvor"
	}
	if dir := s.env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "salvor")
	}
	if home := s.env("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "salvor")
	}
	return "/var/lib/salvor"
}
