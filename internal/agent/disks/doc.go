// Package disks tells whether directories of this host can still be worked with (docs/storage.md, "The agent"). Whatever touches such a
// directory runs in a child process that can be left behind: a mount that hangs blocks the child in the kernel, where no signal reaches it, and
// nothing else. The verdict over what the children find, over time, is kept here and can be tested in virtual time.
package disks
