package disks

import "syscall"

// ofItsOwn gives a probe a process group of its own, so that a signal to the agent's does not make a verdict. It is killed when the agent is.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
