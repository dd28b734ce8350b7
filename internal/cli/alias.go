package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/salvor-ha/salvor/internal/app"
	"github.com/salvor-ha/salvor/internal/config"
)

// aliases are Masakari's own commands (contract section 11): called by one of these names, by a symbolic link, salvor behaves as
// that does, so that unit files, cron jobs and deployment tools stay as they are.
var aliases = map[string]func(context.Context, Env) int{
	"masakari-api":    func(ctx context.Context, env Env) int { return serviceAlias(ctx, env, "api") },
	"masakari-engine": func(ctx context.Context, env Env) int { return serviceAlias(ctx, env, "engine") },
	"masakari-manage": manageAlias,
	"masakari-status": statusAlias,
}

// osloLine is a command line as oslo.config reads it.
type osloLine struct {
	files, dirs   []string
	after         []int             // of each of dirs: how many of files stand before it
	environ       []string          // options of [DEFAULT], as the environment gives them: it wins over files, as the command line does
	values        map[string]string // of the command's own options, by their names
	words         []string          // what is no option
	help, version bool
}

// osloFlags are the options that every service of OpenStack has: the option of [DEFAULT] that each sets, and to what; "" for what
// follows it.
var osloFlags = map[string][2]string{
	"--debug": {"DEBUG", "true"}, "-d": {"DEBUG", "true"}, "--nodebug": {"DEBUG", "false"},
	"--log-config-append": {"LOG_CONFIG_APPEND", ""}, "--log-config": {"LOG_CONFIG_APPEND", ""}, "--log-date-format": {"LOG_DATE_FORMAT", ""},
	"--watch-log-file": {"WATCH_LOG_FILE", "true"}, "--nowatch-log-file": {"WATCH_LOG_FILE", "false"},
	"--log-file": {"LOG_FILE", ""}, "--logfile": {"LOG_FILE", ""}, "--log-dir": {"LOG_DIR", ""}, "--logdir": {"LOG_DIR", ""},
	"--use-syslog": {"USE_SYSLOG", "true"}, "--nouse-syslog": {"USE_SYSLOG", "false"}, "--syslog-log-facility": {"SYSLOG_LOG_FACILITY", ""},
	"--use-journal": {"USE_JOURNAL", "true"}, "--nouse-journal": {"USE_JOURNAL", "false"},
	"--use-json": {"USE_JSON", "true"}, "--nouse-json": {"USE_JSON", "false"},
}

// optionNamed finds an option as argparse does: by its name, or by a beginning that no other has. "" for none.
func optionNamed(given string, known []string) (string, error) {
	if slices.Contains(known, given) || !strings.HasPrefix(given, "--") {
		return given, nil
	}
	// An underscore is as good as a dash: --log_config, --age-in-days.
	folded := func(s string) string { return strings.ReplaceAll(s, "_", "-") }
	var found []string
	for _, name := range known {
		if folded(name) == folded(given) {
			return name, nil
		}
		if strings.HasPrefix(folded(name), folded(given)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("ambiguous option: %s could match %s", given, strings.Join(found, ", "))
	}
}

// readOslo takes a command line apart. own are the command's own options with a value, switches those without.
func readOslo(args []string, own, switches []string) (osloLine, error) {
	l := osloLine{values: map[string]string{}}
	all := slices.Concat(slices.Collect(maps.Keys(osloFlags)), []string{"--help", "--version", "--config-file", "--config-dir"}, own, switches)
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") || name == "-" {
			l.words = append(l.words, args[i])
			continue
		}
		name, err := optionNamed(name, all)
		if err != nil {
			return l, err
		}
		follows := func() error {
			if given {
				return nil
			}
			if i++; i == len(args) {
				return fmt.Errorf("argument %s: expected one argument", name)
			}
			value = args[i]
			return nil
		}
		set, known := osloFlags[name]
		switch {
		case name == "-h" || name == "--help":
			l.help = true
		case name == "--version":
			l.version = true
		case name == "--config-file":
			err = follows()
			l.files = append(l.files, value)
		case name == "--config-dir":
			err = follows()
			l.dirs, l.after = append(l.dirs, value), append(l.after, len(l.files))
		case known && set[1] != "":
			l.environ = append(l.environ, "OS_DEFAULT__"+set[0]+"="+set[1])
		case known:
			err = follows()
			l.environ = append(l.environ, "OS_DEFAULT__"+set[0]+"="+value)
		case slices.Contains(own, name):
			err = follows()
			l.values[name] = value
		case slices.Contains(switches, name):
			l.values[name] = "true"
		default:
			err = fmt.Errorf("unrecognized arguments: %s", args[i])
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// as is the environment of salvor's own command with the same settings.
func (l osloLine) as(env Env, args ...string) Env {
	done := 0
	for i, d := range l.dirs { // the later wins, also here
		for ; done < l.after[i]; done++ {
			args = append(args, "--config-file", l.files[done])
		}
		args = append(args, "--config-dir", d)
	}
	for _, f := range l.files[done:] {
		args = append(args, "--config-file", f)
	}
	env.Program, env.Args = "", args
	env.Environ = append(slices.Clone(env.Environ), l.environ...)
	return env
}

// badUsage is how argparse refuses a command line.
func badUsage(env Env, usage, format string, args ...any) int {
	fmt.Fprintf(env.Stderr, "usage: %s %s\n%s: error: %s\n", env.Program, usage, env.Program, fmt.Sprintf(format, args...))
	return exitUsage
}

const osloUsage = "[-h] [--config-dir DIR] [--config-file PATH] [--debug] [--log-dir LOG_DIR] [--log-file PATH] [--version]"

// serviceAlias is masakari-api and masakari-engine.
func serviceAlias(ctx context.Context, env Env, role string) int {
	l, err := readOslo(env.Args, nil, nil)
	switch {
	case err != nil:
		return badUsage(env, osloUsage, "%v", err)
	case len(l.words) > 0:
		return badUsage(env, osloUsage, "unrecognized arguments: %s", strings.Join(l.words, " "))
	case l.help:
		fmt.Fprintf(env.Stdout, "usage: %s %s\n\nThis is salvor: see salvor %s --help\n", env.Program, osloUsage, role)
		return exitOK
	case l.version:
		fmt.Fprintln(env.Stdout, app.Version)
		return exitOK
	}
	return carryOut(ctx, l.as(env, role))
}

// statusAlias is masakari-status.
func statusAlias(ctx context.Context, env Env) int {
	const usage = "[-h] [--config-dir DIR] [--config-file PATH] [--version]\n                       {upgrade} ..."
	l, err := readOslo(env.Args, nil, []string{"--json"})
	switch {
	case err != nil:
		return badUsage(env, usage, "%v", err)
	case l.help:
		fmt.Fprintf(env.Stdout, "usage: %s %s\n\nThis is salvor: see salvor status upgrade check --help\n", env.Program, usage)
		return exitOK
	case l.version:
		fmt.Fprintln(env.Stdout, app.Version)
		return exitOK
	case len(l.words) == 0:
		return badUsage(env, usage, "the following arguments are required: command")
	case l.words[0] != "upgrade":
		return badUsage(env, usage, "argument command: invalid choice: '%s' (choose from 'upgrade')", l.words[0])
	case len(l.words) == 1:
		return badUsage(env, "upgrade [-h] [--json] check", "the following arguments are required: check")
	case len(l.words) > 2: // what stands for check may be any word, there too
		return badUsage(env, usage, "unrecognized arguments: %s", strings.Join(l.words[2:], " "))
	}
	args := []string{"status", "upgrade", "check"}
	if l.values["--json"] != "" {
		args = append(args, "--json")
	}
	return carryOut(ctx, l.as(env, args...))
}

const manageUsage = "[-h] [--config-dir DIR] [--config-file PATH] [--version] db {purge,sync,version} ..."

// manageAlias is masakari-manage: silent where that is.
func manageAlias(ctx context.Context, env Env) int {
	if len(env.Args) == 0 {
		fmt.Fprintf(env.Stdout, "\nOpenStack masakari version: %s\n\n%s category action [<args>]\nAvailable categories:\n\tdb\n", app.Version, env.Program)
		return exitUsage
	}
	own := []string{"--age_in_days", "--max_rows"}
	l, err := readOslo(env.Args, own, nil)
	switch {
	case err != nil:
		return badUsage(env, manageUsage, "%v", err)
	case l.help:
		fmt.Fprintf(env.Stdout, "usage: %s %s\n\nThis is salvor: see salvor db --help\n", env.Program, manageUsage)
		return exitOK
	case l.version:
		fmt.Fprintln(env.Stdout, app.Version)
		return exitOK
	case len(l.words) == 0 || l.words[0] != "db":
		return badUsage(env, manageUsage, "argument category: invalid choice: '%s' (choose from 'db')", strings.Join(l.words, " "))
	case len(l.words) == 1:
		return badUsage(env, manageUsage, "the following arguments are required: action")
	}
	action, rest := l.words[1], l.words[2:]
	if action == "sync" && len(rest) > 0 { // a version: it never had a meaning (contract section 12, row 35)
		if _, err := strconv.Atoi(rest[0]); err != nil {
			return badUsage(env, manageUsage, "argument version: invalid int value: '%s'", rest[0])
		}
		rest = rest[1:]
	}
	if action != "purge" {
		rest = append(rest, slices.Sorted(maps.Keys(l.values))...)
	}
	if len(rest) > 0 { // who writes purge 90 must not lose what is older than 30 days
		return badUsage(env, manageUsage, "unrecognized arguments: %s", strings.Join(rest, " "))
	}
	if code := missingFiles(env, l); code != exitOK {
		return code
	}
	switch action {
	case "sync":
		return quietly(ctx, env, l, "db", "sync")
	case "version":
		return manageVersion(ctx, env, l)
	case "purge":
		args := []string{"db", "purge"}
		for _, name := range own {
			if v, ok := l.values[name]; ok {
				if _, err := strconv.Atoi(v); err != nil {
					return badUsage(env, manageUsage, "argument %s: invalid int value: '%s'", name, v)
				}
				args = append(args, name+"="+v)
			}
		}
		return quietly(ctx, env, l, args...)
	default:
		return badUsage(env, manageUsage, "argument action: invalid choice: '%s' (choose from 'purge', 'sync', 'version')", action)
	}
}

// missingFiles refuses files that are not there in masakari-manage's words.
func missingFiles(env Env, l osloLine) int {
	var missing []string
	for _, f := range l.files {
		if _, err := os.Stat(f); err != nil {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(env.Stdout, "Failed to read configuration file(s): %s\n", strings.Join(missing, ", "))
		return exitUsage
	}
	for _, d := range l.dirs {
		if s, err := os.Stat(d); err != nil || !s.IsDir() {
			fmt.Fprintf(env.Stdout, "Invalid directory: Failed to read config file directory: %s\n", d)
			return exitUsage
		}
	}
	return exitOK
}

// quietly carries a command of salvor's out and shows nothing but an error's text.
func quietly(ctx context.Context, env Env, l osloLine, args ...string) int {
	own := l.as(env, args...)
	root := newRoot(own)
	root.SetArgs(own.Args)
	root.SetOut(io.Discard)
	root.SetErr(env.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(env.Stderr, err) // bounds of purge too: there they are no usage errors (contract section 11)
		return exitFailed
	}
	return exitOK
}

// manageVersion prints the bare version, None without tables.
func manageVersion(ctx context.Context, env Env, l osloLine) int {
	have, err := tablesVersion(ctx, config.Sources{Files: l.files, Dirs: l.dirs, After: l.after, Env: append(slices.Clone(env.Environ), l.environ...)})
	if err != nil {
		fmt.Fprintln(env.Stdout, err)
		return exitFailed
	}
	if have == "" {
		have = "None"
	}
	fmt.Fprintln(env.Stdout, have)
	return exitOK
}

func tablesVersion(ctx context.Context, from config.Sources) (string, error) {
	c, _, err := config.Load(from)
	if err != nil {
		return "", err
	}
	db, err := app.OpenDBAsItIs(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	have, _, err := db.Version(ctx)
	return have, errors.Join(err, db.Close())
}
