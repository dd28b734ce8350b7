//go:build unix && !linux

package fencing

import "syscall"

// ofItsOwn gives a child a session of its own.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
