package copies

import "sync"

// buffers are what bytes pass through; there are a few for each worker.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 1<<20)
	return &b
}}
