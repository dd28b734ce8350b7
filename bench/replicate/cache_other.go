//go:build !linux

package main

func (w *world) coldCaches() {}
