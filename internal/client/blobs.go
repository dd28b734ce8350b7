package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/salvor-ha/salvor/internal/wire"
)

// NewBlob is what a blob begins with. UUID "" makes one; WantCopies 0 is the server's default. Hosts are names of hosts that have it.
type NewBlob struct {
	UUID       string   `json:"uuid,omitempty"`
	Size       int64    `json:"size"`
	SHA256     string   `json:"sha256"`
	WantCopies int      `json:"want_copies,omitempty"`
	InUse      bool     `json:"in_use,omitempty"`
	Hosts      []string `json:"hosts,omitempty"`
}

// AddBlob puts a blob into the catalogue.
func (c *Client) AddBlob(ctx context.Context, b NewBlob) (wire.BlobDetails, error) {
	return c.blob(ctx, http.MethodPost, "/ext/blobs", map[string]NewBlob{"blob": b})
}

// Blob shows a blob with its copies and its latest transfers.
func (c *Client) Blob(ctx context.Context, id string) (wire.BlobDetails, error) {
	return c.blob(ctx, http.MethodGet, "/ext/blobs/"+url.PathEscape(id), nil)
}

// RescueBlob has everything tried again that may still give the blob; LoseBlob gives it up.
func (c *Client) RescueBlob(ctx context.Context, id string, w Words) (wire.BlobDetails, error) {
	return c.blob(ctx, http.MethodPost, "/ext/blobs/"+url.PathEscape(id)+"/rescue", w.body())
}

func (c *Client) LoseBlob(ctx context.Context, id string, w Words) (wire.BlobDetails, error) {
	return c.blob(ctx, http.MethodPost, "/ext/blobs/"+url.PathEscape(id)+"/lost", w.body())
}

// DropLocation has the copy on a host dropped.
func (c *Client) DropLocation(ctx context.Context, id, host, reason string, force bool) (wire.BlobDetails, error) {
	return c.blob(ctx, http.MethodPost, "/ext/blobs/"+url.PathEscape(id)+"/drop-location", map[string]any{"host": host, "reason": reason, "force": force})
}

func (c *Client) blob(ctx context.Context, method, path string, body any) (wire.BlobDetails, error) {
	var out wire.BlobBody
	err := c.call(ctx, method, path, body, &out)
	return out.Blob, err
}

// EachBlob gives the blobs of a list to use, the oldest first, a page at a time; more says that there are others behind Limit.
func (c *Client) EachBlob(ctx context.Context, q Query, use func([]wire.Blob) error) (more bool, err error) {
	return each(ctx, c, "/ext/blobs", q, func(b wire.BlobList) []wire.Blob { return b.Blobs }, func(b wire.Blob) int64 { return b.ID }, use)
}

// EachTransfer does so with transfers, the newest first.
func (c *Client) EachTransfer(ctx context.Context, q Query, use func([]wire.BlobTransfer) error) (more bool, err error) {
	return each(ctx, c, "/ext/transfers", q, func(b wire.TransferList) []wire.BlobTransfer { return b.Transfers },
		func(t wire.BlobTransfer) int64 { return t.ID }, use)
}
