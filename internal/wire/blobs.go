package wire

import (
	"encoding/json"
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Blob is an immutable file of the catalogue.
type Blob struct {
	ID         int64      `json:"id"`
	UUID       string     `json:"uuid"`
	Size       int64      `json:"size"`
	SHA256     string     `json:"sha256"`
	WantCopies int        `json:"want_copies"`
	Copies     int        `json:"copies"` // good ones
	Durability string     `json:"durability"`
	InUse      bool       `json:"in_use"`
	Why        *string    `json:"why"`     // why it is not ok
	LostBy     *string    `json:"lost_by"` // who has given it up
	CreatedAt  Timestamp  `json:"created_at"`
	UpdatedAt  *Timestamp `json:"updated_at"`
}

// BlobLocation is a copy of a blob on a host.
type BlobLocation struct {
	HostUUID    string     `json:"host_uuid"`
	Host        *string    `json:"host"`
	State       string     `json:"state"`
	Why         *string    `json:"why"`
	EpisodeUUID *string    `json:"episode_uuid"` // which made it suspect
	Since       Timestamp  `json:"since"`
	VerifiedAt  *Timestamp `json:"verified_at"`
}

// BlobTransfer is a copy on its way, or one that was.
type BlobTransfer struct {
	ID         int64      `json:"id"`
	UUID       string     `json:"uuid"`
	BlobUUID   string     `json:"blob_uuid"`
	SourceUUID string     `json:"source_uuid"`
	Source     *string    `json:"source"`
	TargetUUID string     `json:"target_uuid"`
	Target     *string    `json:"target"`
	State      string     `json:"state"`
	Rescue     bool       `json:"rescue"`
	Size       int64      `json:"size"`
	Bytes      int64      `json:"bytes"`
	Why        *string    `json:"why"`
	StartedAt  Timestamp  `json:"started_at"`
	MovedAt    Timestamp  `json:"moved_at"` // when its target's agent last spoke of it
	EndedAt    *Timestamp `json:"ended_at"`
}

// BlobDetails is a blob with its copies and its latest transfers, the newest first.
type BlobDetails struct {
	Blob
	Locations []BlobLocation `json:"locations"`
	Transfers []BlobTransfer `json:"transfers"`
}

// BlobBody, BlobList and TransferList are the response bodies.
type (
	BlobBody struct {
		Blob BlobDetails `json:"blob"`
	}
	BlobList struct {
		Blobs []Blob `json:"blobs"`
	}
	TransferList struct {
		Transfers []BlobTransfer `json:"transfers"`
	}
)

func newBlob(b ha.Blob) Blob {
	return Blob{ID: b.ID, UUID: b.UUID, Size: b.Size, SHA256: b.SHA256, WantCopies: b.WantCopies, Copies: b.Copies, Durability: string(b.Durability),
		InUse: b.InUse, Why: present(b.Why), LostBy: present(b.LostBy), CreatedAt: Timestamp{b.CreatedAt}, UpdatedAt: timestamp(b.UpdatedAt)}
}

// NewBlobs renders a page of the catalogue.
func NewBlobs(blobs []ha.Blob) BlobList {
	list := make([]Blob, len(blobs))
	for i, b := range blobs {
		list[i] = newBlob(b)
	}
	return BlobList{list}
}

// NewBlobDetails renders one blob.
func NewBlobDetails(d ha.BlobDetails) BlobBody {
	out := BlobDetails{Blob: newBlob(d.Blob), Locations: make([]BlobLocation, len(d.Locations)), Transfers: NewTransfers(d.Transfers, d.Hosts).Transfers}
	for i, l := range d.Locations {
		out.Locations[i] = BlobLocation{HostUUID: l.HostUUID, Host: present(d.Hosts[l.HostUUID]), State: string(l.State), Why: present(l.Why),
			EpisodeUUID: present(l.EpisodeUUID), Since: Timestamp{l.Since}, VerifiedAt: timestamp(l.VerifiedAt)}
	}
	return BlobBody{out}
}

// NewTransfers renders transfers; hosts are names by uuid.
func NewTransfers(transfers []ha.Transfer, hosts map[string]string) TransferList {
	list := make([]BlobTransfer, len(transfers))
	for i, t := range transfers {
		list[i] = BlobTransfer{ID: t.ID, UUID: t.UUID, BlobUUID: t.BlobUUID, SourceUUID: t.From, Source: present(hosts[t.From]), TargetUUID: t.To,
			Target: present(hosts[t.To]), State: string(t.State), Rescue: t.Rescue, Size: t.Size, Bytes: t.Bytes, Why: present(t.Why),
			StartedAt: Timestamp{t.StartedAt}, MovedAt: Timestamp{t.MovedAt}, EndedAt: timestamp(t.EndedAt)}
	}
	return TransferList{list}
}

// AgentOrdersOf renders what is open for a host.
func AgentOrdersOf(orders []ha.AgentOrder) []AgentOrder {
	list := make([]AgentOrder, min(len(orders), MaxOrders))
	for i := range list {
		o := orders[i]
		list[i] = AgentOrder{ID: o.ID, Kind: string(o.Kind), Blob: o.Blob, Size: o.Size, SHA256: o.SHA256}
		for _, s := range o.Sources {
			list[i].Sources = append(list[i].Sources, AgentSource{Host: s.Host, URL: s.URL, Ticket: s.Ticket})
		}
	}
	return list
}

// defaultCopies is want_copies where nothing is said.
const defaultCopies = 2

// mostHosts bounds the hosts that a new blob is said to be on.
const mostHosts = 16

var (
	sumRule  = all(typed("string"), matching(sha256Pattern.String()))
	blobRule = wrapped("blob", shape{
		properties: []property{
			{"uuid", all(typed("string"), format("uuid", func(s string) bool { _, ok := ha.CanonicalUUID(s); return ok }))},
			{"size", integer}, {"sha256", sumRule}, {"want_copies", copiesRule}, {"in_use", typed("boolean")}, {"hosts", items(mostHosts, nameRule)},
		},
		required: []string{"size", "sha256"},
	}.rule())
	dropRule = shape{
		properties: []property{{"host", nameRule}, {"reason", reasonRule}, {"force", typed("boolean")}},
		required:   []string{"host", "reason"},
	}.rule()
)

func copiesRule(field string, v any) *violation {
	if bad := integer(field, v); bad != nil {
		return bad
	}
	n, err := v.(json.Number).Int64()
	if err != nil || n < 1 || n > 100 {
		return &violation{field: field, value: v, text: fmt.Sprintf("%s is not from 1 to 100", repr(v))}
	}
	return nil
}

// NewBlob reads the body of POST ext/blobs; hosts are names. UUID is "" when none is given.
func (b Body) NewBlob() (blob ha.Blob, hosts []string, err error) {
	o, err := b.check("blob", blobRule)
	if err != nil {
		return ha.Blob{}, nil, err
	}
	blob = ha.Blob{Size: o.whole("size"), SHA256: o.word("sha256"), WantCopies: defaultCopies}
	blob.UUID, _ = ha.CanonicalUUID(o.word("uuid"))
	if n := o.whole("want_copies"); n > 0 {
		blob.WantCopies = int(n)
	}
	if v, ok := o.get("in_use"); ok {
		blob.InUse, _ = v.(bool)
	}
	return blob, o.words("hosts"), nil
}

// DropOrder reads the body of POST ext/blobs/{id}/drop-location; the host is a name, or a uuid.
func (b Body) DropOrder() (host, reason string, force bool, err error) {
	v := b.value
	if v == nil {
		v = &object{}
	}
	if bad := dropRule("", v); bad != nil {
		return "", "", false, bad.error()
	}
	o := v.(*object)
	f, _ := o.get("force")
	force, _ = f.(bool)
	return o.word("host"), o.word("reason"), force, nil
}

// BlobList reads the query of GET ext/blobs; host is a name, "" when none is given.
func (q Query) BlobList() (f ha.BlobFilter, host string, limit int, marker string, err error) {
	r := reader{q: q}
	limit, marker = r.limit(), r.marker()
	f.Durability = r.choice("durability", string(ha.DurabilityOK), string(ha.DurabilityUnder), string(ha.DurabilityAtRisk), string(ha.DurabilityLost))
	if h := r.text("host"); h != nil {
		host = *h
	}
	return f, host, limit, marker, r.err
}

// TransferList reads the query of GET ext/transfers; host is the target's name.
func (q Query) TransferList() (f ha.TransferFilter, host string, limit int, marker string, err error) {
	r := reader{q: q}
	limit, marker = r.limit(), r.marker()
	f.State = r.choice("state", string(ha.TransferRunning), string(ha.TransferDone), string(ha.TransferFailed), string(ha.TransferCancelled))
	f.BlobUUID = r.text("blob")
	if h := r.text("host"); h != nil {
		host = *h
	}
	return f, host, limit, marker, r.err
}

// choice reads a filter with a closed list of values, nil when it was not given.
func (r *reader) choice(name string, words ...string) *string {
	s := r.text(name)
	if s == nil {
		return nil
	}
	for _, w := range words {
		if *s == w {
			return s
		}
	}
	r.fail("Invalid value for %s: %s is not one of %s", name, repr(*s), pythonList(words))
	return nil
}
