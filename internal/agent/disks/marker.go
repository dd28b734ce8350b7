package disks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// Pin is what ties a resource to one filesystem: adopted once, kept in the resource's directory (the marker) and in the agent's own state
// directory. Value is random; Filesystem names the filesystem, and is the same on all hosts that share it.
type Pin struct {
	Host       string
	Value      string
	Filesystem string
}

// maxMarker bounds a marker's text, in bytes. What the write probe writes begins at probeOffset, in a block of its own.
const (
	maxMarker   = 1024
	probeOffset = 4096
)

var (
	randomWord = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hostWord   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)
)

// The files in a resource's directory: one per filesystem, and one per host.
const filesystemFile = ".salvor-filesystem"

func markerFile(host string) string { return ".salvor-agent-" + host }

const (
	markerMark     = "salvor-marker-1"
	filesystemMark = "salvor-filesystem-1"
)

// Text is the marker's first line.
func (p Pin) Text() string {
	return strings.Join([]string{markerMark, p.Host, p.Value, p.Filesystem}, " ") + "\n"
}

// ParseMarker reads a marker: the first line of the text; what follows it is the write probe's.
func ParseMarker(text []byte) (Pin, error) {
	fields, err := firstLine(text, markerMark, 4)
	if err != nil {
		return Pin{}, err
	}
	p := Pin{Host: fields[1], Value: fields[2], Filesystem: fields[3]}
	if !hostWord.MatchString(p.Host) || !randomWord.MatchString(p.Value) || !randomWord.MatchString(p.Filesystem) {
		return Pin{}, fmt.Errorf("it is no marker of an agent")
	}
	return p, nil
}

func parseFilesystem(text []byte) (string, error) {
	fields, err := firstLine(text, filesystemMark, 2)
	if err != nil {
		return "", err
	}
	if !randomWord.MatchString(fields[1]) {
		return "", fmt.Errorf("it names no filesystem")
	}
	return fields[1], nil
}

func firstLine(text []byte, mark string, n int) ([]string, error) {
	line, _, ok := strings.Cut(string(text[:min(len(text), maxMarker)]), "\n")
	fields := strings.Split(line, " ")
	if !ok || len(fields) != n || fields[0] != mark {
		return nil, fmt.Errorf("it is no %s", mark)
	}
	return fields, nil
}

// SamePin reports, with an error that says what is there instead, whether a directory still has the marker of a pin. Unlike a probe it is a
// call in this process: it may hang.
func SamePin(dir, host string, pin Pin) error {
	f, err := os.OpenFile(filepath.Join(dir, markerFile(host)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("the marker of %s is not there: %w", dir, err)
	}
	defer f.Close()
	text := make([]byte, maxMarker)
	n, err := f.Read(text)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	there, err := ParseMarker(text[:n])
	if err != nil {
		return fmt.Errorf("the marker of %s: %w", dir, err)
	}
	if there.Value != pin.Value || pin.Value == "" {
		return fmt.Errorf("%s has another marker than this agent has left there: it is another filesystem", dir)
	}
	return nil
}
