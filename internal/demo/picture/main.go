// Command picture draws the demonstration as an animated SVG, from a real run:
//
//	go run ./internal/demo/picture > docs/demo.svg
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/salvor-ha/salvor/internal/demo"
)

const (
	columns = 96
	rows    = 27
)

func main() {
	frames, err := demo.Record(context.Background(), demo.Options{Hosts: 6, Instances: 24, Seed: 1}, columns, rows)
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
	fmt.Print(draw(frames))
}
