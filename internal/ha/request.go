package ha

import "context"

type requestKey struct{}

// WithRequestID returns a context that carries the id under which a client's request is known. Adapters hand it on in
// the header X-OpenStack-Request-ID, so that one id finds the request in the logs of every service (contract 5.3).
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id that ctx carries, "" when the work was not begun by a request.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
