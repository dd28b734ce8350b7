// Command salvor is instance high availability for OpenStack; see internal/cli for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/salvor-ha/salvor/internal/cli"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends ctx; from then on signals have their own effect again: a second one ends the process at once.
	context.AfterFunc(ctx, restore)
	os.Exit(cli.Main(ctx, cli.OSEnv()))
}
