package disks

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Question is what one probe is to find out. It is told to the child on its standard input.
type Question struct {
	Path string `json:"path"`
	Host string `json:"host"`
	// Pin is the resource's, its Value "" while there is none: then the probe adopts the filesystem with the value of New, or with that of a
	// marker of this host that is there already.
	Pin   Pin    `json:"pin"`
	New   string `json:"new"`
	Write bool   `json:"write"` // also write and fsync
}

// Finding is what a probe found. Total and Free are bytes; 0 where nothing answered.
type Finding struct {
	Status ha.CheckStatus `json:"status"`
	Detail string         `json:"detail"`
	Pin    Pin            `json:"pin"` // as the directory has it; Value "" where it has none
	Total  int64          `json:"total"`
	Free   int64          `json:"free"`
	Wrote  bool           `json:"wrote"` // it came as far as a write that was tried
}

// maxAnswer bounds a child's answer, in bytes.
const maxAnswer = 16 << 10

// Answer is the child's part: it reads one question, probes, and writes one line. It may hang for ever.
func Answer(in io.Reader, out io.Writer) error {
	var q Question
	if err := json.NewDecoder(io.LimitReader(in, maxAnswer)).Decode(&q); err != nil {
		return fmt.Errorf("no question on standard input: %w", err)
	}
	if !hostWord.MatchString(q.Host) {
		return fmt.Errorf("%q is no name of a host", q.Host)
	}
	line, err := json.Marshal(probe(q))
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

func readFinding(line []byte) (Finding, error) {
	var f Finding
	if err := json.Unmarshal(line, &f); err != nil {
		return Finding{}, fmt.Errorf("a probe's answer cannot be read: %w", err)
	}
	for _, s := range ha.CheckStatuses {
		if f.Status == s {
			return f, nil
		}
	}
	return Finding{}, fmt.Errorf("a probe answered %q, which is no status", f.Status)
}
