# How to build, test and generate. The stages of the tests, with their times, are in scripts/test.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: help build test test-all lint generate clean

help:           ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

build:          ## the binary, static, in ./salvor
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/salvor-ha/salvor/internal/app.Version=$(VERSION)" -o salvor ./cmd/salvor

test:           ## what a change must pass (about 20 minutes on 2 cores)
	scripts/test change

test-all:       ## that, many more seeds, fuzzing and the benchmarks (some hours)
	scripts/test all

lint:           ## format, vet and linters
	scripts/test format lint

generate:       ## the documents that are made from code
	go generate ./...

clean:          ## what the targets above have made
	rm -rf salvor tmp
