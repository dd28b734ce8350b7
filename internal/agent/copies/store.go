package copies

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// What stands beside a copy <uuid> in its directory.
const (
	partialEnd    = ".partial"     // it arrives
	quarantineEnd = ".quarantined" // its bytes are not the blob's
	sumEnd        = ".sha256"      // what it should be, as sha256sum writes it; its time is when the copy was last hashed and right
)

// store is the directory of one host's copies. All its calls may hang with the filesystem: they are made by workers of which there are
// few.
type store struct {
	dir string

	making sync.Mutex
	made   int // directories, and one that an earlier process may have made

	keeping sync.Mutex // taken before making
	kept    int        // of those, that are durable
}

// newStore returns the store in a directory; it touches nothing.
func newStore(dir string) *store { return &store{dir: dir, made: 1} }

// path is the place of a blob's copy. Only an id in canonical form has one: nothing else becomes a file's name.
func (s *store) path(blob string) (string, error) {
	if c, ok := ha.CanonicalUUID(blob); !ok || c != blob {
		return "", fmt.Errorf("%.80q: it is no blob's id", blob)
	}
	return filepath.Join(s.dir, blob[:2], blob), nil
}

// open opens a copy to read it, and tells its size. Anything but a plain file is refused.
func (s *store) open(blob, end string) (*os.File, int64, error) {
	path, err := s.path(blob)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(path+end, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// makePlace makes the directory of a blob. It is durable with the first copy in it.
func (s *store) makePlace(path string) error {
	s.making.Lock()
	defer s.making.Unlock()
	err := os.Mkdir(filepath.Dir(path), 0o750)
	if err == nil {
		s.made++
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// keepPlaces makes the directories durable that were made since it was called last. Whoever comes meanwhile waits: his may be among them.
func (s *store) keepPlaces() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.making.Lock()
	made := s.made
	s.making.Unlock()
	if s.kept == made {
		return nil
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	s.kept = made
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// commit makes a whole and hashed file, which f still has open, the copy: durable, then under its name, and that durable.
func (s *store) commit(f *os.File, path, sum string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := s.note(path, sum, time.Now()); err != nil {
		return err
	}
	if err := os.Rename(path+partialEnd, path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return s.keepPlaces()
}

// note writes what the copy should be, and when it was seen to be that. It need not outlive a crash: a copy without is hashed anew, and the
// catalogue says whether that is right.
func (s *store) note(path, sum string, at time.Time) error {
	text := sum + "  " + filepath.Base(path) + "\n"
	if err := os.WriteFile(path+sumEnd, []byte(text), 0o640); err != nil {
		return err
	}
	return os.Chtimes(path+sumEnd, at, at)
}

var sumLine = regexp.MustCompile(`^([0-9a-f]{64})  [0-9a-f-]{36}\n$`)

// noted reads what the copy should be; "" when nobody knows.
func (s *store) noted(path string) (sum string, at time.Time, err error) {
	info, err := os.Lstat(path + sumEnd)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > 200) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, err
	}
	text, err := os.ReadFile(path + sumEnd)
	if err != nil {
		return "", time.Time{}, err
	}
	m := sumLine.FindStringSubmatch(string(text))
	if m == nil {
		return "", time.Time{}, nil
	}
	return m[1], info.ModTime(), nil
}

// has reports whether a copy of that size and sum is there, as it was when it was last hashed.
func (s *store) has(blob string, size int64, sum string) (bool, error) {
	path, err := s.path(blob)
	if err != nil {
		return false, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	noted, _, err := s.noted(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size && noted == sum, err
}

// quarantine renames a copy out of the way. Its bytes stay until an order drops them.
func (s *store) quarantine(path string) error {
	if err := os.Rename(path, path+quarantineEnd); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// restore takes a quarantined copy back to its place; a copy that is there already stays.
func (s *store) restore(path, sum string) error {
	if err := os.Link(path+quarantineEnd, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.note(path, sum, time.Now()); err != nil {
		return err
	}
	if err := os.Remove(path + quarantineEnd); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// drop unlinks a copy and all that stands beside it. What is not there is dropped.
func (s *store) drop(blob string) error {
	path, err := s.path(blob)
	if err != nil {
		return err
	}
	any := false
	for _, end := range []string{"", partialEnd, quarantineEnd, sumEnd} {
		err := os.Remove(path + end)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		any = any || err == nil
	}
	if !any {
		return nil
	}
	return syncDir(filepath.Dir(path))
}

// known is the blob of a file's name, and what the file is to it: "" for the copy itself, or one of the ends.
func known(name string) (blob, end string, ok bool) {
	for _, e := range []string{partialEnd, quarantineEnd, sumEnd} {
		if b, cut := strings.CutSuffix(name, e); cut {
			name, end = b, e
			break
		}
	}
	c, ok := ha.CanonicalUUID(name)
	return name, end, ok && c == name
}

// hashOf reads all that r has, in steps after each of which pace may wait or stop it.
func hashOf(r io.Reader, h hash.Hash, pace func(n int) error) (int64, error) {
	buf := buffers.get()
	defer buffers.put(buf)
	var all int64
	for {
		n, err := r.Read(buf.bytes)
		_, _ = h.Write(buf.bytes[:n]) // never fails
		all += int64(n)
		if n > 0 {
			if err := pace(n); err != nil {
				return all, err
			}
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// hashFile hashes a copy.
func (s *store) hashFile(blob, end string, pace func(n int) error) (size int64, sum string, err error) {
	f, _, err := s.open(blob, end)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = hashOf(f, h, pace); err != nil {
		return 0, "", err
	}
	return size, sumOf(h), nil
}
