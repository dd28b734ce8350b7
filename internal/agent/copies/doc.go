// Package copies keeps a host's copies of blobs (docs/storage.md, "Blobs"): <dir>/<first two hex>/<uuid>, fetched from other hosts by what
// the replicator orders, hashed when they arrive and ever again, served to hosts that show a ticket. Nothing here unlinks a copy but an order
// to drop it.
package copies
