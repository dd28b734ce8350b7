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
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop() // in good order
		if second, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(second)) // at once
		}
	}()
	os.Exit(cli.Main(ctx, cli.OSEnv()))
}
