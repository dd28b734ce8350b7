package disks

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// roomLeft is how much a filesystem must have left not to be full, in bytes.
const roomLeft = 1 << 20

// readOnly is ST_RDONLY of statfs(2).
const readOnly = 1

// probe looks at one directory. The order is: is it there, is it the filesystem that it was, can it be written. Every call may hang.
func probe(q Question) Finding {
	dir, err := os.OpenFile(q.Path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return opened(q.Path, err)
	}
	defer dir.Close()
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(dir.Fd()), &st); err != nil {
		return Finding{Status: statusOf(err), Detail: "statfs: " + err.Error()}
	}
	p := prober{Question: q, dir: dir, ro: st.Flags&readOnly != 0}
	p.found.Total, p.found.Free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	p.found.Status = ha.CheckOK
	if !p.identify() || !p.writable() {
		return p.found
	}
	if lack := lacking(st); lack != "" {
		p.is(ha.CheckFull, lack)
	}
	return p.found
}

// lacking says what a filesystem has too little of, "" for nothing. Some do not count their blocks or inodes, and show none.
func lacking(st syscall.Statfs_t) string {
	total, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	switch {
	case st.Blocks > 0 && free < roomLeft:
		return fmt.Sprintf("%d bytes are left of %d", free, total)
	case st.Files > 0 && st.Ffree == 0:
		return "no inodes are left"
	}
	return ""
}

func opened(path string, err error) Finding {
	f := Finding{Status: statusOf(err), Detail: err.Error()}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Status, f.Detail = ha.CheckMissing, "there is no such directory"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		f.Status, f.Detail = ha.CheckMissing, "it is a symbolic link, or no directory: name the directory itself"
		if target, err := os.Readlink(path); err == nil {
			f.Detail = fmt.Sprintf("it is a symbolic link to %.200q: name the directory itself", target)
		}
	}
	return f
}

// statusOf is what an error of the kernel says about a filesystem.
func statusOf(err error) ha.CheckStatus {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return ha.CheckWriteFailed
	}
	switch no {
	case syscall.EIO, syscall.EREMOTEIO, syscall.ESTALE, syscall.ENOTCONN, syscall.ECONNABORTED, syscall.ECONNREFUSED, syscall.EHOSTDOWN,
		syscall.EHOSTUNREACH, syscall.ENODEV, syscall.ENXIO, syscall.ENOMEDIUM, syscall.EUCLEAN, syscall.ESHUTDOWN, syscall.ENODATA, syscall.EBADMSG,
		syscall.ENOLINK, syscall.ECOMM:
		return ha.CheckIOError
	case syscall.EROFS:
		return ha.CheckReadOnly
	case syscall.ETIMEDOUT:
		return ha.CheckTimeout
	case syscall.ENOSPC, syscall.EDQUOT:
		return ha.CheckFull
	default:
		return ha.CheckWriteFailed
	}
}

type prober struct {
	Question
	dir   *os.File
	ro    bool
	found Finding
}

func (p *prober) is(s ha.CheckStatus, detail string) bool {
	p.found.Status, p.found.Detail = s, detail
	return s == ha.CheckOK
}

func (p *prober) failed(what string, err error) bool {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return p.is(statusOf(err), what+": "+err.Error())
}

// at is the path of a file in the directory that is open, whatever is mounted over it meanwhile.
func (p *prober) at(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/self/fd/%d", p.dir.Fd()), name)
}

func (p *prober) open(name string, flags int) (*os.File, error) {
	return os.OpenFile(p.at(name), flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0o644)
}

func (p *prober) read(name string) ([]byte, error) {
	f, err := p.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, maxMarker)
	n, err := f.Read(text)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return text[:n], nil
}

// identify compares the marker with the pin; without a pin it adopts the filesystem.
func (p *prober) identify() bool {
	text, err := p.read(markerFile(p.Host))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return p.failed("reading the marker "+markerFile(p.Host), err)
	}
	there, bad := ParseMarker(text)
	if bad == nil && there.Host == p.Host {
		p.found.Pin = there
	}
	switch {
	case p.Pin.Value == "" && p.found.Pin.Value != "":
		return true // of this host, and whoever lost its own note of it takes it up again
	case p.Pin.Value == "":
		return p.adopt(!missing)
	case missing:
		return p.is(ha.CheckWrongFilesystem, "the directory has no marker of this host ("+markerFile(p.Host)+"): its filesystem is not mounted, or it is another one")
	case p.found.Pin.Value != p.Pin.Value:
		return p.is(ha.CheckWrongFilesystem, "the directory has another marker ("+markerFile(p.Host)+") than this agent has left there: it is another filesystem")
	}
	return true
}

// adopt leaves the marker. torn: there is one that nobody can read, and no pin that it could be compared with.
func (p *prober) adopt(torn bool) bool {
	if p.ro {
		return p.is(ha.CheckReadOnly, "it is mounted read-only, and never had a marker of this host")
	}
	filesystem, err := p.filesystem()
	if err != nil {
		return p.failed("leaving "+filesystemFile, err)
	}
	if torn {
		if err := os.Remove(p.at(markerFile(p.Host))); err != nil {
			return p.failed("replacing a torn marker", err)
		}
	}
	pin := Pin{Host: p.Host, Value: p.New, Filesystem: filesystem}
	if err := p.create(markerFile(p.Host), pin.Text()); err != nil {
		return p.failed("leaving the marker "+markerFile(p.Host), err)
	}
	p.found.Pin = pin
	return true
}

// filesystem is the name of the filesystem, which the first host that comes gives it.
func (p *prober) filesystem() (string, error) {
	text, err := p.read(filesystemFile)
	if errors.Is(err, fs.ErrNotExist) {
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		if err = p.create(filesystemFile, filesystemMark+" "+hex.EncodeToString(random[:])+"\n"); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		text, err = p.read(filesystemFile)
	}
	if err != nil {
		return "", err
	}
	id, err := parseFilesystem(text)
	if err != nil {
		return "", fmt.Errorf("%s is there, but %w: remove it", filesystemFile, err)
	}
	return id, nil
}

// create makes a file whole and durable, or not at all; fs.ErrExist when there is one. Where a filesystem has no links, a crash can leave it torn.
func (p *prober) create(name, text string) error {
	var random [6]byte
	_, _ = rand.Read(random[:])
	draft := name + "." + hex.EncodeToString(random[:])
	if err := p.writeNew(draft, text); err != nil {
		return err
	}
	defer func() { _ = os.Remove(p.at(draft)) }()
	err := os.Link(p.at(draft), p.at(name))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EMLINK) {
		err = p.writeNew(name, text)
	}
	if err != nil {
		return err
	}
	return p.dir.Sync()
}

func (p *prober) writeNew(name, text string) error {
	f, err := p.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(p.at(name))
	}
	return err
}

// writable says read_only as soon as the mount is, and else, if it is asked for, writes behind the marker's line, which is never written
// again, and waits for the disk.
func (p *prober) writable() bool {
	if p.ro {
		return p.is(ha.CheckReadOnly, "it is mounted read-only")
	}
	if !p.Write {
		return true
	}
	p.found.Wrote = true
	f, err := p.open(markerFile(p.Host), os.O_RDWR)
	if err != nil {
		return p.failed("opening the marker to write", err)
	}
	defer f.Close()
	text := fmt.Sprintf("probe %s %d\n", time.Now().UTC().Format(time.RFC3339), os.Getpid())
	if _, err := f.WriteAt([]byte(text), probeOffset); err != nil {
		return p.failed("writing", err)
	}
	if err := f.Sync(); err != nil {
		return p.failed("fsync", err)
	}
	return true
}
