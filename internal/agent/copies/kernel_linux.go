package copies

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// lowPriority lets this goroutine's thread read when nobody else wants the disk, and compute when nobody else does. The goroutine keeps its
// thread to its end.
func lowPriority() {
	const process, idle = 1, 3 << 13 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE
	runtime.LockOSThread()
	_, _, _ = syscall.Syscall(syscall.SYS_IOPRIO_SET, process, 0, idle)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
}

// dropCache lets the kernel forget a file's pages.
func dropCache(f *os.File) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0)
}

// newBuffer is memory outside the heap, a huge page where the kernel has one to give.
func newBuffer() buffer {
	const hugePage = 14 // MADV_HUGEPAGE
	mapped, err := syscall.Mmap(-1, 0, 2*bufferSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return buffer{make([]byte, bufferSize), func() {}}
	}
	at := -uintptr(unsafe.Pointer(&mapped[0])) & (bufferSize - 1) // what is before and behind is never touched
	own := mapped[at : at+bufferSize : at+bufferSize]
	_ = syscall.Madvise(own, hugePage)
	return buffer{own, func() { _ = syscall.Munmap(mapped) }}
}

// inMemory reports whether the kernel holds most of a file's first n bytes in memory.
func inMemory(f *os.File, n int64) bool {
	mapped, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED) // only asked about, never read
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	page := os.Getpagesize()
	there := make([]byte, (int(n)+page-1)/page)
	if _, _, no := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(n), uintptr(unsafe.Pointer(&there[0]))); no != 0 {
		return false
	}
	held := 0
	for _, b := range there {
		held += int(b & 1)
	}
	return 2*held > len(there)
}

// setDirect has what is written to a file, or read from it, go past the kernel's memory, or no longer. Not all filesystems can.
func setDirect(f *os.File, on bool) error {
	flags, _, no := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	if no == 0 {
		if flags &^= syscall.O_DIRECT; on {
			flags |= syscall.O_DIRECT
		}
		_, _, no = syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFL, flags)
	}
	if no != 0 {
		return no
	}
	return nil
}

// mostUnread is what a connection holds that this process has not read, in bytes. It is lost, and fetched again, when the process dies; by itself the
// kernel takes up to tens of MiB. It is enough for 1 Gbit/s over 15 ms.
const mostUnread = 2 << 20

// BoundUnread is a net.Dialer's Control. Where this process may not say so, the kernel's own limits stand: the smaller ones that anybody may set
// would make long ways slow.
func BoundUnread(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, mostUnread)
	})
}

func readOnlyError(err error) bool { return errors.Is(err, syscall.EROFS) }

// freeBytes is what a file's filesystem has left for this process.
func freeBytes(f *os.File) (int64, error) {
	var st syscall.Statfs_t
	err := syscall.Fstatfs(int(f.Fd()), &st)
	return int64(st.Bavail) * st.Bsize, err
}
