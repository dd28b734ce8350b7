package copies

import "sync"

// buffers are what bytes pass through; there are as many as workers.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 1<<20)
	return &b
}}
