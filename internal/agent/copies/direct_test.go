package copies

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestServedFromTheDisk: a large copy is given whole, and any part of it, whether the kernel has it in memory or not; one that it has not, it has
// not afterwards either.
func TestServedFromTheDisk(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	const size = 2*bufferSize + 3*block + 77
	content := lay(t, source.store.dir, blobA, size)
	f, err := os.Open(source.file(blobA, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	able := setDirect(f, true) == nil && setDirect(f, false) == nil
	for _, memory := range []bool{true, false} {
		for _, tt := range []struct{ from, to int }{
			{0, size}, {1, size}, {block, size}, {bufferSize - 1, size}, {bufferSize, bufferSize + 1}, {size - 1, size}, {700001, 700002}, {77, 2*bufferSize + 1}, {3 * block, size - block},
		} {
			t.Run(fmt.Sprint(memory, tt), func(t *testing.T) {
				if memory {
					_, _ = io.Copy(io.Discard, io.NewSectionReader(f, 0, size))
				} else {
					_ = f.Sync()
					dropCache(f)
				}
				had := inMemory(f, size)
				got := fetched(t, source, fmt.Sprintf("bytes=%d-%d", tt.from, tt.to-1))
				if !bytes.Equal(got, content[tt.from:tt.to]) {
					t.Errorf("%d bytes of %d came, or others", len(got), tt.to-tt.from)
				}
				if has := inMemory(f, size); able && !had && has {
					t.Error("it is in the kernel's memory now")
				}
			})
		}
	}
	if several := fetched(t, source, "bytes=1-2,4194304-4194306"); !bytes.Contains(several, content[1:3]) || !bytes.Contains(several, content[4194304:4194307]) {
		t.Errorf("of two parts came %q", several)
	}
}

// TestManyReaders: however many copies are read by others at a time, only so many take memory of the agent's; the others are served all the same.
func TestManyReaders(t *testing.T) {
	const readers = maxPast + 8
	source := open(t, there, t.TempDir(), func(c *Config) { c.Serving = readers })
	content := lay(t, source.store.dir, blobA, 16<<20) // more than connections hold
	f, err := os.Open(source.file(blobA, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = f.Sync()
	dropCache(f)
	var bodies []io.Reader
	for range readers {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, source.url+"/blobs/"+blobA, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Ticket "+ticket(t, source, blobA, time.Minute))
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %+v", err, resp)
		}
		defer resp.Body.Close()
		bodies = append(bodies, resp.Body)
	}
	buffers.mu.Lock()
	used := buffers.used
	buffers.mu.Unlock()
	if used > maxPast {
		t.Errorf("%d buffers are in use", used)
	}
	for _, i := range []int{0, readers - 1} {
		if got, err := io.ReadAll(bodies[i]); err != nil || !bytes.Equal(got, content) {
			t.Errorf("reader %d got %d bytes, or others (%v)", i, len(got), err)
		}
	}
}

func fetched(t *testing.T, source *place, part string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, source.url+"/blobs/"+blobA, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Ticket "+ticket(t, source, blobA, time.Minute))
	req.Header.Set("Range", part)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusPartialContent {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return got
}

// TestACopyThatBecameShorter: who reads it hears of it, and is not kept waiting.
func TestACopyThatBecameShorter(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	lay(t, source.store.dir, blobA, 3*large)
	f, size, err := source.store.open(blobA, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = f.Sync()
	dropCache(f)
	from, is := directly(f, size).(*direct)
	if !is {
		t.Skip("SKIPPED: the directory for temporary files is on a filesystem that reads through memory only")
	}
	if err := os.Truncate(f.Name(), large+5); err != nil {
		t.Fatal(err)
	}
	if n, err := from.sendTo(io.Discard, size); n != large+5 || err == nil {
		t.Errorf("%d bytes were sent (%v)", n, err)
	}
}
