package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// bare copies what salvor has copied, from and to the same hosts' directories: a plain GET into a file, which is then made durable and renamed. No
// hash, no order, no row.
func (w *world) bare(r *result) {
	transfers := slices.DeleteFunc(w.transfers("done"), func(t wire.BlobTransfer) bool { return w.before[t.UUID] })
	if len(transfers) < r.affected {
		w.tb.Fatalf("%d transfers for %d blobs", len(transfers), r.affected)
	}
	queues := map[string]chan wire.BlobTransfer{}
	for _, h := range w.hosts {
		queues[h] = make(chan wire.BlobTransfer, len(transfers))
	}
	for _, t := range transfers {
		queues[*t.Target] <- t
	}
	sources := map[string]string{}
	for h, dir := range w.dirs {
		s := httptest.NewServer(http.FileServer(http.Dir(dir)))
		w.tb.Cleanup(s.Close)
		sources[h] = s.URL
		close(queues[h])
	}
	w.coldCaches()
	began, computed := time.Now(), cpu(os.Getpid())
	var all sync.WaitGroup
	failures := make(chan error, len(transfers))
	for _, h := range w.hosts {
		into := filepath.Join(w.dirs[h], "bare")
		if len(queues[h]) > 0 {
			if err := os.MkdirAll(into, 0o700); err != nil {
				w.tb.Fatal(err)
			}
		}
		for range w.o.parallel {
			all.Go(func() {
				for t := range queues[h] {
					if err := fetch(sources[*t.Source]+"/"+t.BlobUUID[:2]+"/"+t.BlobUUID, filepath.Join(into, t.BlobUUID), t.Size); err != nil {
						failures <- err
					}
				}
			})
		}
	}
	all.Wait()
	r.bare, r.bareCPU = time.Since(began), cpu(os.Getpid())-computed
	for _, h := range w.hosts {
		if err := os.RemoveAll(filepath.Join(w.dirs[h], "bare")); err != nil {
			w.tb.Fatal(err)
		}
	}
	select {
	case err := <-failures:
		w.tb.Fatal(err)
	default:
	}
}

// fetch copies one file.
func fetch(from, path string, size int64) error {
	resp, err := http.Get(from)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(path + ".partial")
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(f, resp.Body)
	if err == nil && n != size {
		err = fmt.Errorf("%s: %d bytes instead of %d", from, n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}
