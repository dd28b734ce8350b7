package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

//go:generate go test -run TestCommandsReference -update .

// TestCommandsReference holds docs/reference/commands.md in step with the commands.
func TestCommandsReference(t *testing.T) {
	root := newRoot(Env{Stderr: io.Discard})
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"Generated from the commands themselves (`make generate`); `salvor COMMAND --help` says the same. What the exit status means is in\n" +
		"[the guide](../guide.md#at-the-command-line).\n\n")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			fmt.Fprintf(&b, "- [%s](#%s): %s\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
		}
	}
	for _, c := range root.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			describeCommand(&b, c, 2)
		}
	}
	path := filepath.Join("..", "..", "docs", "reference", "commands.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("%s is not what the commands say: run \"make generate\"\n%s", path, diff)
	}
}

func describeCommand(b *strings.Builder, c *cobra.Command, level int) {
	if !c.IsAvailableCommand() {
		return
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s.\n", strings.Repeat("#", level), c.CommandPath(), c.Short)
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", c.Long)
	}
	c.InitDefaultHelpFlag()
	_ = c.Flags().MarkHidden("help") // every command has it
	usage := ""
	if c.Runnable() && !c.HasAvailableSubCommands() {
		usage = c.UseLine() + "\n\n"
	}
	usage += c.NonInheritedFlags().FlagUsagesWrapped(120)
	for _, text := range []string{usage, c.Example} {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", text)
		}
	}
	for _, sub := range c.Commands() {
		describeCommand(b, sub, level+1)
	}
}
