package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// coldCaches has the kernel forget what it holds of the blobs in memory, so that both contestants read from the disk.
func (w *world) coldCaches() {
	for _, dir := range w.dirs {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			_ = f.Sync()
			_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, 4, 0, 0) // POSIX_FADV_DONTNEED
			return nil
		})
	}
}
