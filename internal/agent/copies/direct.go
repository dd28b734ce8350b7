package copies

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
)

// direct reads a large copy past the kernel's memory, for who sends it: what is read once only drives out nothing of the instances', and costs
// no new page of memory for each that is read.
type direct struct {
	f    *os.File
	size int64
	at   int64
}

// directly has a copy sent so; it returns f itself where that is small, is in memory already, or is on a filesystem that cannot do so.
func directly(f *os.File, size int64) io.ReadSeeker {
	if size < large || inMemory(f, min(size, sampled)) || setDirect(f, true) != nil {
		return f
	}
	return &direct{f: f, size: size}
}

// sampled is how much of a copy's beginning says whether it is in memory.
const sampled = 16 << 20

// Seek is io.Seeker's.
func (s *direct) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("there is nothing before a file's beginning")
	}
	s.at = offset
	return offset, nil
}

// Read is io.Reader's, for who does not take sendTo.
func (s *direct) Read(p []byte) (int, error) {
	if err := setDirect(s.f, false); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(p, s.at)
	s.at += int64(n)
	return n, err
}

// sendTo writes n bytes: one buffer goes out while the next one is read.
func (s *direct) sendTo(w io.Writer, n int64) (sent int64, err error) {
	skip := s.at % block // it is read from a multiple of the block on
	if _, err := s.f.Seek(s.at-skip, io.SeekStart); err != nil {
		return 0, err
	}
	spare, full, stop := make(chan []byte, ahead), make(chan []byte, ahead), make(chan struct{})
	buf := buffers.get()
	defer buffers.put(buf)
	for part := range slices.Chunk(buf.bytes, bufferSize/ahead) {
		spare <- part
	}
	var broken error
	ended := make(chan struct{})
	go func() { // ends before sendTo does
		defer close(ended)
		defer close(full)
		for left := skip + n; left > 0; {
			select {
			case <-stop:
				return
			case buf := <-spare:
				var got int
				if got, broken = s.next(buf); got == 0 {
					return
				}
				full <- buf[:got]
				left -= int64(got)
			}
		}
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	for buf := range full {
		part := buf[min(skip, int64(len(buf))):]
		skip -= int64(len(buf) - len(part))
		out, err := w.Write(part[:min(int64(len(part)), n-sent)])
		sent += int64(out)
		s.at += int64(out)
		if err != nil {
			return sent, err
		}
		spare <- buf[:cap(buf)]
	}
	if sent < n && broken == nil {
		broken = io.ErrUnexpectedEOF
	}
	return sent, broken
}

// next reads on, past the kernel's memory as long as that is possible.
func (s *direct) next(buf []byte) (int, error) {
	n, err := s.f.Read(buf)
	if !errors.Is(err, syscall.EINVAL) { // else this filesystem has larger blocks, or the file has become shorter
		return n, err
	}
	if err := setDirect(s.f, false); err != nil {
		return 0, err
	}
	return s.f.Read(buf)
}
