package telemetry

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// checkEvery is how often a log file's name is compared with the open file.
const checkEvery = time.Second

// logFile is opened anew when its name no longer leads to it: logrotate moved it, or somebody removed it.
type logFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	checked time.Time
}

func openLogFile(path string) (*logFile, error) {
	f := &logFile{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *logFile) open() error {
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("cannot open the log file: %w", err)
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file = file
	return nil
}

func (f *logFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return 0, os.ErrClosed
	}
	if now := time.Now(); now.Sub(f.checked) >= checkEvery {
		f.checked = now
		if f.moved() {
			_ = f.open() // on failure the old file serves on
		}
	}
	return f.file.Write(line)
}

func (f *logFile) moved() bool {
	named, err := os.Stat(f.path)
	if err != nil {
		return true
	}
	open, err := f.file.Stat()
	return err != nil || !os.SameFile(named, open)
}

func (f *logFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
