package agent

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/agent/disks"
)

// state is what an agent must not lose. It is one small file in the agent's own directory, replaced as a whole.
type state struct {
	Epoch     int64                    `json:"epoch"`
	Host      string                   `json:"host"`       // this host's uuid, as the API said last
	TicketKey string                   `json:"ticket_key"` // hex, likewise: a secret
	Verdicts  map[string]disks.Verdict `json:"verdicts"`   // by resource
}

// keeper keeps the state and the pins.
type keeper struct {
	dir string

	mu sync.Mutex
	state
	unsaved bool // the file is not as this is: it could not be written
}

const (
	stateFile = "agent.json"
	maxState  = 1 << 20
)

// openKeeper reads the state of the last start and begins a new epoch. A state that cannot be read is an error: it may hold a verdict.
func openKeeper(dir string, now time.Time) (*keeper, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	}
	k := &keeper{dir: dir}
	text, err := readSmall(filepath.Join(dir, stateFile), maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	default:
		if err := json.Unmarshal(text, &k.state); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w; it holds this host's verdicts: remove it if they are known to be good", filepath.Join(dir, stateFile), err)
		}
	}
	// Not merely one more: an agent whose directory was lost must not count from the beginning, or its reports would be old ones.
	k.Epoch = max(k.Epoch+1, now.Unix())
	if k.Verdicts == nil {
		k.Verdicts = map[string]disks.Verdict{}
	}
	if err := k.save(); err != nil {
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	}
	return k, nil
}

func readSmall(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a plain file of at most %d bytes", path, most)
	}
	return os.ReadFile(path)
}

// save writes the state; k.mu is held, or nobody else has k yet.
func (k *keeper) save() error {
	text, err := json.MarshalIndent(k.state, "", " ")
	if err == nil {
		err = replace(filepath.Join(k.dir, stateFile), text)
	}
	k.unsaved = err != nil
	return err
}

// replace writes a file as a whole, durable: a crash leaves the old one or the new one, and at most a draft that the next one is written over.
// No two write one file at a time.
func replace(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// setVerdict keeps a verdict.
func (k *keeper) setVerdict(name string, v disks.Verdict) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Verdicts[name] = v
	return k.save()
}

// setHost keeps what the API says about this host, if it is new, and what could not be kept before: each report brings it here.
func (k *keeper) setHost(uuid, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if uuid == k.Host && key == k.TicketKey && !k.unsaved {
		return nil
	}
	k.Host, k.TicketKey = uuid, key
	return k.save()
}

// key is what tickets are checked with.
func (k *keeper) key() (key []byte, host string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, err := hex.DecodeString(k.TicketKey)
	if err != nil {
		return nil, k.Host
	}
	return key, k.Host
}

// pinned is a pin's file.
type pinned struct {
	Path       string `json:"path"`
	Host       string `json:"host"`
	Value      string `json:"value"`
	Filesystem string `json:"filesystem"`
}

func pinFile(dir, name string) string { return filepath.Join(dir, "pin-"+name+".json") }

// Pin reads a resource's pin; none for one that has none, or had it at another path.
func (k *keeper) Pin(name, path string) (disks.Pin, error) {
	text, err := readSmall(pinFile(k.dir, name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return disks.Pin{}, nil
	}
	if err != nil {
		return disks.Pin{}, err
	}
	var p pinned
	if err := json.Unmarshal(text, &p); err != nil {
		return disks.Pin{}, fmt.Errorf("%s cannot be read: %w; if the directory is the right one: salvor agent adopt %s", pinFile(k.dir, name), err, name)
	}
	if p.Path != path {
		return disks.Pin{}, nil
	}
	return disks.Pin{Host: p.Host, Value: p.Value, Filesystem: p.Filesystem}, nil
}

// SetPin keeps a resource's pin.
func (k *keeper) SetPin(name, path string, p disks.Pin) error {
	text, err := json.MarshalIndent(pinned{Path: path, Host: p.Host, Value: p.Value, Filesystem: p.Filesystem}, "", " ")
	if err != nil {
		return err
	}
	return replace(pinFile(k.dir, name), text)
}

// Adopt forgets the pin of a resource: what is mounted at its path is taken for the right filesystem at the next probe, also by an agent that
// runs. It reports whether there was one.
func Adopt(dir, name string) (bool, error) {
	err := os.Remove(pinFile(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
