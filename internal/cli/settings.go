package cli

import (
	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// settings are the flags of every command that reads masakari.conf.
type settings struct {
	env   Env
	files []string
	dirs  []string
	after []int // of each of dirs: how many of files stand before it
}

// dirFlag is --config-dir, which notes its place among the files: what is given later wins.
type dirFlag struct{ s *settings }

func (d dirFlag) Set(path string) error {
	d.s.dirs, d.s.after = append(d.s.dirs, path), append(d.s.after, len(d.s.files))
	return nil
}
func (dirFlag) Type() string   { return "stringArray" }
func (dirFlag) String() string { return "" }

func addSettings(cmd *cobra.Command, env Env) *settings {
	s := &settings{env: env}
	f := cmd.PersistentFlags()
	f.StringArrayVar(&s.files, "config-file", nil, "a masakari.conf; given again, later files win "+
		"(default: the first of ~/.masakari, ~, /etc/masakari and /etc that has one)")
	f.Var(dirFlag{s}, "config-dir", "a directory of *.conf files; what is given later wins, be it a file or a directory")
	return s
}

func (s *settings) sources() config.Sources {
	return config.Sources{Files: s.files, Dirs: s.dirs, After: s.after, Env: s.env.Environ}
}

// load reads the configuration, opens its log, and says there what in it has no effect.
func (s *settings) load(role string) (*config.Config, *telemetry.Log, error) {
	c, warnings, err := config.Load(s.sources())
	if err != nil {
		return nil, nil, err
	}
	log, err := openLog(c, role, s.env.Stderr)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		log.Warn(w.String())
	}
	return c, log, nil
}
