package api

import (
	"net/http"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

// blobRoutes are the operators' side of the catalogue of blobs.
func blobRoutes() []route {
	line := func(method, path, act string, status int, do action) route {
		return route{method, strings.Split("ext/"+path, "/"), wire.Op{Resource: "ext", Action: act}, status, do}
	}
	rows := []route{
		line(http.MethodGet, "blobs", "index", http.StatusOK, listBlobs),
		line(http.MethodPost, "blobs", "create", http.StatusCreated, addBlob),
		line(http.MethodGet, "blobs/{id}", "show", http.StatusOK, showBlob),
		line(http.MethodPost, "blobs/{id}/drop-location", "drop-location", http.StatusAccepted, dropLocation),
		line(http.MethodGet, "transfers", "index", http.StatusOK, listTransfers),
	}
	for _, order := range []string{"rescue", "lost"} {
		rows = append(rows, line(http.MethodPost, "blobs/{id}/"+order, order, http.StatusAccepted, orderBlob))
	}
	return rows
}

func listBlobs(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("blobs", "index")); err != nil {
		return nil, err
	}
	f, host, limit, marker, err := a.list(c).BlobList()
	if err != nil {
		return nil, err
	}
	blobs, err := a.service.Blobs(c.ctx, f, host, limit, marker)
	return wire.NewBlobs(blobs), err
}

func addBlob(a *api, c *call) (any, error) {
	blob, hosts, err := c.body.NewBlob()
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("blobs", "create")); err != nil {
		return nil, err
	}
	return blobBody(a.service.AddBlob(c.ctx, blob, hosts))
}

func showBlob(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("blobs", "detail")); err != nil {
		return nil, err
	}
	return blobBody(a.service.Blob(c.ctx, c.params["id"]))
}

// orderBlob has a blob rescued or gives it up, and shows it as it then stands.
func orderBlob(a *api, c *call) (any, error) {
	order, err := c.body.OrderOf(c.op.Action)
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("blobs", c.op.Action)); err != nil {
		return nil, err
	}
	do := a.service.RescueBlob
	if c.op.Action == "lost" {
		do = a.service.LoseBlob
	}
	return blobBody(do(c.ctx, c.params["id"], c.user.Name(), order.Reason))
}

func dropLocation(a *api, c *call) (any, error) {
	host, reason, force, err := c.body.DropOrder()
	if err != nil {
		return nil, err
	}
	if err := a.allow(c, policy.ExtRule("blobs", "drop-location")); err != nil {
		return nil, err
	}
	return blobBody(a.service.DropLocation(c.ctx, c.params["id"], host, c.user.Name(), reason, force))
}

func listTransfers(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("transfers", "index")); err != nil {
		return nil, err
	}
	f, host, limit, marker, err := a.list(c).TransferList()
	if err != nil {
		return nil, err
	}
	transfers, names, err := a.service.Transfers(c.ctx, f, host, limit, marker)
	return wire.NewTransfers(transfers, names), err
}

func blobBody(d ha.BlobDetails, err error) (any, error) { return wire.NewBlobDetails(d), err }
