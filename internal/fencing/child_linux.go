package fencing

import "syscall"

// ofItsOwn gives a child a session of its own; it is killed when this process is, so that it does not outlive a kill -9.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
