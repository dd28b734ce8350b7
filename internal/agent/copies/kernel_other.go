//go:build !linux

package copies

import (
	"errors"
	"math"
	"os"
	"syscall"
)

func lowPriority() {}

func dropCache(*os.File) {}

func newBuffer() buffer { return buffer{make([]byte, bufferSize), func() {}} }

func inMemory(*os.File, int64) bool { return true }

func setDirect(*os.File, bool) error { return errors.ErrUnsupported }

// BoundUnread is a net.Dialer's Control: the kernel's own limits stand.
func BoundUnread(string, string, syscall.RawConn) error { return nil }

func readOnlyError(err error) bool { return errors.Is(err, syscall.EROFS) }

func freeBytes(*os.File) (int64, error) { return math.MaxInt64, nil }
