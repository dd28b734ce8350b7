package copies

import "sync"

// bufferSize is one huge page: in one piece of memory it goes to and from a disk as one request, where pages from everywhere are many small ones.
const bufferSize = 2 << 20

// ahead is how many parts whoever copies makes of one: one is written while the next one fills.
const ahead = 2

// pool are buffers that bytes pass through. What nobody uses is given back, but for a few.
type pool struct {
	mu   sync.Mutex
	free []buffer
	used int
}

// buffer is memory from a multiple of the block on.
type buffer struct {
	bytes   []byte
	release func()
}

// spareBuffers are kept while others are in use, idleBuffers always.
const (
	spareBuffers = 8
	idleBuffers  = 1
)

var buffers pool

func (p *pool) get() buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used++
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return newBuffer()
}

// put takes a buffer back. Its bytes are nobody's any more.
func (p *pool) put(b buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.free = append(p.free, b)
	most := spareBuffers
	if p.used == 0 {
		most = idleBuffers
	}
	for len(p.free) > most {
		n := len(p.free) - 1
		p.free[n].release()
		p.free = p.free[:n]
	}
}
