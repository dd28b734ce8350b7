package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2   // wrong arguments; the api's 400 too
	exitNotFound = 3   // there is no such thing
	exitRefused  = 4   // the api, or Keystone, says no
	exitAway     = 5   // the api, or Keystone, does not answer or cannot now
	exitStopped  = 130 // by Ctrl-C, as shells have it
)

// Env is what a run of the command line touches of its process.
type Env struct {
	Program string   // the name that it was called by: Masakari's are answered to as well
	Args    []string // without the program's name
	Environ []string // NAME=VALUE
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// OSEnv is the process's own.
func OSEnv() Env {
	return Env{Program: filepath.Base(os.Args[0]), Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// Main carries a command line out until it is done or ctx ends, and returns the exit code: 0 ok, 1 failed, 2 usage.
func Main(ctx context.Context, env Env) int {
	if as := aliases[env.Program]; as != nil {
		return as(ctx, env)
	}
	return carryOut(ctx, env)
}

// carryOut is Main for salvor's own command line.
func carryOut(ctx context.Context, env Env) int {
	root := newRoot(env)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if out, kept := root.OutOrStdout().(*keptWriter); kept && err == nil {
		err = out.err
	}
	var usage *usageError
	var status *statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "required flag"):
		fmt.Fprintf(env.Stderr, "salvor: %v\nSee: %s --help\n", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, errSilent):
		return exitFailed
	case errors.As(err, &status):
		return status.code
	default:
		text, code := explain(err)
		fmt.Fprintf(env.Stderr, "salvor: %s\n", text)
		return code
	}
}

// keptWriter keeps its first error: what a command printed for nobody, as on a full disk, is no success.
type keptWriter struct {
	to  io.Writer
	err error
}

func (w *keptWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errSilent is a failure whose command has said everything.
var errSilent = errors.New("failed")

func newRoot(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "salvor",
		Short: "Instance high availability for OpenStack",
		Long: `salvor brings instances back when their hypervisor dies: monitors report to it, it makes sure
that the host is really dead, and has Nova evacuate its instances. It takes Masakari's place:
the same API, the same masakari.conf.`,
		Example: `  salvor demo                                   a host dies in a simulated cloud; watch it
  salvor serve                                  api and engine, with an embedded database
  salvor api --config-file masakari.conf        the api alone, as many as wanted
  salvor engine --config-file masakari.conf     an engine alone, as many as wanted`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() {
			if _, rest, _ := root.Find(env.Args); len(rest) > 0 && !strings.HasPrefix(rest[0], "-") { // its options are of a command that there is not
				err = unknownCommand(cmd, rest[0])
			}
		}
		return &usageError{flagError(err)}
	})
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupTry, Title: "Try:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	root.AddCommand(
		serveCommand(env), apiCommand(env), engineCommand(env), agentCommand(env),
		demoCommand(env), simCommand(env),
		segmentCommand(env), hostCommand(env), notificationCommand(env), vmoveCommand(env), recoveryCommand(env),
		pauseCommand(env), resumeCommand(env), coverageCommand(env), planCommand(env), blobCommand(env), transferCommand(env), episodeCommand(env),
		dbCommand(env), fenceCommand(env), doctorCommand(env), configCommand(env), policyCommand(env), statusCommand(env), versionCommand(),
	)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(&keptWriter{to: env.Stdout}) // before what follows, which keeps it
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Print the script of a shell that completes commands and names; bash needs the package bash-completion"
		}
	}
	checkArguments(root)
	return root
}

// flagError says what was expected of a flag, instead of how its reading failed.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) || !errors.Is(err, strconv.ErrSyntax) && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	f, expected := invalid.GetFlag(), "a number"
	switch f.Value.Type() {
	case "bool":
		expected = "true or false"
	case "int", "uint64":
		expected = "a whole number"
	}
	return fmt.Errorf("--%s %q: expected %s", f.Name, invalid.GetValue(), expected)
}

const (
	groupRun     = "run"
	groupTry     = "try"
	groupOperate = "operate"
)

// checkArguments makes errors of arguments usage errors, and unknown names below a group of commands errors at all. Files are completed for
// what names files, and for nothing else.
func checkArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		for _, flag := range []string{"config-file", "config-dir", "log"} {
			_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // where it has it
		}
		if c.HasSubCommands() && !c.Runnable() {
			c.Args, c.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
			c.RunE = func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return &usageError{unknownCommand(c, args[0])}
				}
				return c.Help()
			}
		} else if check := c.Args; check != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				if check(c, args) != nil {
					return usagef("%s", wrongArguments(c, args))
				}
				return nil
			}
		}
		checkArguments(c)
	}
}

// wrongArguments says what is missing, or is one too many, by the names in the command's first line.
func wrongArguments(c *cobra.Command, args []string) string {
	var names []string
	needed := 0
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		names = append(names, word)
		if !strings.HasPrefix(word, "[") {
			needed++
		}
	}
	if len(args) < needed {
		return fmt.Sprintf("%s is missing", strings.TrimSuffix(names[len(args)], "..."))
	}
	surplus, hint := args[len(names)], ""
	if _, err := strconv.ParseBool(surplus); err == nil {
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" && hint == "" {
				hint = fmt.Sprintf("; a yes or no goes with its option by an equals sign, such as --%s=%s", f.Name, strings.ToLower(surplus))
			}
		})
	}
	if len(names) == 0 {
		return fmt.Sprintf("%q is one too many: there are no arguments%s", surplus, hint)
	}
	return fmt.Sprintf("%q is one too many: expected %s%s", surplus, strings.Join(names, " "), hint)
}

func unknownCommand(c *cobra.Command, name string) error {
	return fmt.Errorf("unknown command %q for %q%s", name, c.CommandPath(), suggestion(c, name))
}

// otherVerbs are words of OpenStack's and other clients for salvor's.
var otherVerbs = map[string]string{"set": "update", "unset": "update", "ls": "list", "get": "show", "add": "create", "remove": "delete", "rm": "delete"}

func suggestion(c *cobra.Command, name string) string {
	for _, sub := range c.Commands() {
		if sub.Name() == otherVerbs[name] {
			return " (did you mean " + sub.Name() + "?)"
		}
	}
	for _, other := range c.Root().Commands() {
		if other.Name() == name && other != c {
			return " (did you mean " + other.CommandPath() + "?)"
		}
	}
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return ""
}
