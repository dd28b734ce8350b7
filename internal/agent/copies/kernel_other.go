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

func setDirect(*os.File, bool) error { return errors.ErrUnsupported }

func readOnlyError(err error) bool { return errors.Is(err, syscall.EROFS) }

func freeBytes(*os.File) (int64, error) { return math.MaxInt64, nil }
