package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

// copied is what salvor has copied since the store died.
func (w *world) copied(affected int) []wire.BlobTransfer {
	w.until("the ends of all transfers are told", time.Minute, func() (bool, string) { // the copies are told first
		n := len(w.transfers("running"))
		return n == 0, fmt.Sprint(n, " are not")
	})
	transfers := slices.DeleteFunc(w.transfers("done"), func(t wire.BlobTransfer) bool { return w.before[t.UUID] })
	if len(transfers) < affected {
		w.tb.Fatalf("%d transfers for %d blobs", len(transfers), affected)
	}
	return transfers
}

// bare copies the same, from and to the same hosts' directories: a plain GET into a file, which is then made durable and renamed. No order, no row,
// and no hash, unless asked.
func (w *world) bare(transfers []wire.BlobTransfer, hashed bool) loop {
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
		defer s.Close()
		sources[h] = s.URL
		close(queues[h])
	}
	w.coldCaches()
	began, before := time.Now(), cpu(os.Getpid())
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
					if err := fetch(sources[*t.Source]+"/"+t.BlobUUID[:2]+"/"+t.BlobUUID, filepath.Join(into, t.BlobUUID), w.blobs[t.BlobUUID], hashed); err != nil {
						failures <- err
					}
				}
			})
		}
	}
	all.Wait()
	l := loop{time.Since(began), cpu(os.Getpid()) - before}
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
	return l
}

// fetch copies one file.
func fetch(from, path string, b client.NewBlob, hashed bool) error {
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
	into, sum := io.Writer(f), sha256.New()
	if hashed {
		into = io.MultiWriter(f, sum)
	}
	n, err := io.Copy(into, resp.Body)
	if err == nil && n != b.Size {
		err = fmt.Errorf("%s: %d bytes instead of %d", from, n, b.Size)
	}
	if err == nil && hashed && hex.EncodeToString(sum.Sum(nil)) != b.SHA256 {
		err = fmt.Errorf("%s: it is not the blob", from)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}
