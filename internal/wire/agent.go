package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// What an agent (`salvor agent`, one per hypervisor) and the API say to each other, below /v1/ext/agents/{host}.

// AgentKeyHeader carries a host's own key, instead of a Keystone token. Such a key may speak for its host only.
const AgentKeyHeader = "X-Agent-Key"

// Bounds of a report, so that one fits into the default max_request_body_size, and of an answer. An agent that has more to say sends
// several reports, one after the other; an API that has more orders gives the others when these are done.
const (
	MaxResources      = 32
	MaxCopies         = 300
	MaxTransfers      = 100
	MaxOrders         = 200
	MaxDetail         = 500 // code points of a detail, or of a transfer's error
	maxPath           = 1024
	maxSources        = 16
	maxHex            = 64
	maxNames          = 3
	maxURL            = 255
	longestOrdersWait = 60 // seconds
)

// AgentReport is what an agent tells. Epoch moves with each start of the agent, Seq with each report of an epoch: a report whose
// (Epoch, Seq) is not newer than the stored one is answered, and otherwise ignored; one of an older epoch is refused (409).
type AgentReport struct {
	Epoch      int64           `json:"epoch"`
	Seq        int64           `json:"seq"`
	URL        string          `json:"url"`              // where the agent serves its blobs, "" when it has none
	Domain     string          `json:"domain,omitempty"` // failure domain: copies go to different ones first; the host's own when it names none
	TotalBytes int64           `json:"total_bytes"`
	FreeBytes  int64           `json:"free_bytes"` // of the blob directory's filesystem, 0 and 0 when it has none or it does not answer
	Resources  []AgentResource `json:"resources"`
	Copies     []AgentCopy     `json:"copies,omitempty"`
	Transfers  []AgentTransfer `json:"transfers,omitempty"`
}

// AgentResource is the verdict over one directory. All resources of the agent are in each report.
type AgentResource struct {
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	Kinds        []string `json:"kinds"`  // instance, blob, upload; none: nobody said what needs it
	Status       string   `json:"status"` // ok, full, missing, read_only, io_error, timeout, wrong_filesystem, write_failed
	Detail       string   `json:"detail"`
	FilesystemID string   `json:"filesystem_id"` // "" while it is not known
	// CheckedAt is when the verdict was last seen to hold, by the agent's clock.
	CheckedAt Timestamp `json:"checked_at"`
}

// AgentCopy is what an agent knows anew about one copy: it hashed it and it is right (present), or it is not and is quarantined
// (corrupt), or it is gone (missing). Size and SHA256 are what was read; "" and 0 of a missing one. A copy for which the agent was never
// told what it should be (a file laid there by hand) is reported as present with what it is: the catalogue says whether that is right,
// and an order to verify with the right sum lets the agent quarantine it.
type AgentCopy struct {
	Blob   string `json:"blob"`
	State  string `json:"state"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// AgentTransfer is how an order stands, of any kind: running, done or failed. Bytes of a copy are those that have arrived and are hashed, of
// all attempts together. Error says why, also while it is running (a source that broke). An agent tells the end of an order until a
// report that says so was accepted.
type AgentTransfer struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

// The kinds of orders. All are idempotent by their id: one that is done already is reported as done again.
const (
	OrderCopy    = "copy"    // fetch the blob from one of the sources; the end is a copy that is present
	OrderVerify  = "verify"  // hash the copy now; the outcome is among the copies
	OrderDrop    = "drop"    // unlink the copy, what is quarantined or half of it too; the end is a copy that is missing
	OrderRestore = "restore" // hash the quarantined copy again and take it back if it is right
	OrderCancel  = "cancel"  // stop the copy whose id it has, and keep its bytes for a later one; the end is that the copy has failed
)

// AgentOrder is one thing that an agent is to do.
type AgentOrder struct {
	ID      string        `json:"id"`
	Kind    string        `json:"kind"`
	Blob    string        `json:"blob"`
	Size    int64         `json:"size"`
	SHA256  string        `json:"sha256"`
	Sources []AgentSource `json:"sources,omitempty"` // of a copy, the best first
}

// AgentSource is a host that has the blob, with the ticket that opens it (ha.Ticket). The same order may come again with other sources or
// newer tickets.
type AgentSource struct {
	Host   string `json:"host"` // its uuid, as in the ticket
	URL    string `json:"url"`
	Ticket string `json:"ticket"`
}

// AgentReportBody is the request body of a report.
type AgentReportBody struct {
	Report AgentReport `json:"report"`
}

// AgentAnswer is what a report is answered. TicketKey, in hex, is the key by which this host checks tickets (ha.CheckTicket), and Host its
// uuid, which they name as their source.
type AgentAnswer struct {
	Host      string       `json:"host"`
	Health    string       `json:"health"` // ok or error: of the host as salvor sees it
	TicketKey string       `json:"ticket_key"`
	Orders    []AgentOrder `json:"orders"`
	Version   string       `json:"version"` // OrdersVersion of the orders
}

// AgentAnswerBody is the response body of a report.
type AgentAnswerBody struct {
	Report AgentAnswer `json:"report"`
}

// OrdersBody is the response body of GET orders: all that is open for the host, at most MaxOrders.
type OrdersBody struct {
	Orders  []AgentOrder `json:"orders"`
	Version string       `json:"version"`
}

// OrdersVersion names a list of orders. Tickets do not count: they are new each time.
func OrdersVersion(orders []AgentOrder) string {
	h := sha256.New()
	for _, o := range orders {
		fmt.Fprintf(h, "%s %s %s\n", o.ID, o.Kind, o.Blob)
		for _, s := range o.Sources {
			fmt.Fprintf(h, " %s %s\n", s.Host, s.URL)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// NewOrders renders what is open for a host.
func NewOrders(orders []AgentOrder) OrdersBody {
	return OrdersBody{Orders: append([]AgentOrder{}, orders...), Version: OrdersVersion(orders)}
}

// AgentOrders reads the query of GET orders: how long to wait for orders whose version is not known already. An unknown version, or none, is
// answered at once.
func (q Query) AgentOrders() (wait time.Duration, known string, err error) {
	r := reader{q: q}
	seconds, _ := r.count("wait")
	known, _ = r.last("version")
	return time.Duration(min(seconds, longestOrdersWait)) * time.Second, known, r.err
}

var (
	sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hexWord       = forText(func(s string) string {
		if s == "" || sha256Pattern.MatchString(s) {
			return ""
		}
		return repr(s) + " is not a sha256 in lower-case hex"
	})
	uuidWord = all(typed("string"), length(32, maxHex), format("uuid", func(s string) bool {
		c, ok := ha.CanonicalUUID(s)
		return ok && c == s // a blob's id becomes a file's name
	}))
	detailRule   = all(typed("string"), length(0, MaxDetail), descriptionRule)
	resourceRule = openShape{
		properties: []property{
			{"name", nameRule}, {"path", all(typed("string"), length(1, maxPath), descriptionRule)},
			{"kinds", items(maxNames, word("instance", "blob", "upload"))},
			{"status", word("ok", "full", "missing", "read_only", "io_error", "timeout", "wrong_filesystem", "write_failed")},
			{"detail", detailRule}, {"filesystem_id", all(typed("string"), length(0, 255), descriptionRule)},
			{"checked_at", all(typed("string"), format("date-time", isTime))},
		},
		required: []string{"name", "path", "kinds", "status", "checked_at"},
	}.rule()
	copyRule = openShape{
		properties: []property{
			{"blob", uuidWord}, {"state", word("present", "corrupt", "missing")}, {"size", integer}, {"sha256", all(typed("string"), hexWord)},
		},
		required: []string{"blob", "state"},
	}.rule()
	transferRule = openShape{
		properties: []property{
			{"id", all(typed("string"), length(1, maxHex), descriptionRule)}, {"state", word("running", "done", "failed")},
			{"bytes", integer}, {"error", detailRule},
		},
		required: []string{"id", "state"},
	}.rule()
	agentReportRule = wrapped("report", openShape{
		properties: []property{
			{"epoch", integer}, {"seq", integer}, {"url", all(typed("string"), length(0, maxURL), descriptionRule, servesBlobs)},
			{"domain", all(typed("string"), length(0, maxURL), descriptionRule)},
			{"total_bytes", integer}, {"free_bytes", integer}, {"resources", items(MaxResources, resourceRule)},
			{"copies", items(MaxCopies, copyRule)}, {"transfers", items(MaxTransfers, transferRule)},
		},
		required: []string{"epoch", "seq", "resources"},
	}.rule())
)

// openShape is a shape that lets unknown keys pass: an agent may be newer than the API.
type openShape shape

func (s openShape) rule() rule { return all(typed("object"), shape(s).declared, shape(s).requiredKeys) }

// integer is a whole number that is not negative and fits a BIGINT.
func integer(field string, v any) *violation {
	n, ok := v.(json.Number)
	if !ok {
		return &violation{field: field, value: v, text: repr(v) + " is not of type 'integer'"}
	}
	if i, err := n.Int64(); err != nil || i < 0 || i == math.MaxInt64 {
		return &violation{field: field, value: v, text: repr(v) + " is not an integer of at least 0"}
	}
	return nil
}

// servesBlobs is an address that other agents may be sent to: http or https, a host, and nothing that only a server here would know.
func servesBlobs(field string, v any) *violation {
	s := v.(string)
	if u, err := url.Parse(s); s == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" {
		return nil
	}
	return &violation{field: field, value: v, text: repr(v) + " is not an http:// or https:// URL"}
}

// items is the rule for each element of a list of at most that many.
func items(most int, r rule) rule {
	return all(typed("array"), func(field string, v any) *violation {
		list := v.([]any)
		if len(list) > most {
			return &violation{field: field, value: nil, text: fmt.Sprintf("%d elements are too many, at most %d", len(list), most)}
		}
		for _, e := range list {
			if bad := r(field, e); bad != nil {
				return bad
			}
		}
		return nil
	})
}

// AgentReport reads the body of a report. It fails with *ha.InvalidError, also when two resources have one name.
func (b Body) AgentReport() (AgentReport, error) {
	o, err := b.check("report", agentReportRule)
	if err != nil {
		return AgentReport{}, err
	}
	r := AgentReport{Epoch: o.whole("epoch"), Seq: o.whole("seq"), URL: o.word("url"), Domain: o.word("domain"), TotalBytes: o.whole("total_bytes"), FreeBytes: o.whole("free_bytes")}
	seen := map[string]bool{}
	for _, e := range o.objects("resources") {
		at, _ := parseTime(e.word("checked_at"))
		name := e.word("name")
		if seen[name] {
			return AgentReport{}, &ha.InvalidError{Text: fmt.Sprintf("Two resources are named %s.", cut(name))}
		}
		seen[name] = true
		r.Resources = append(r.Resources, AgentResource{Name: name, Path: e.word("path"), Kinds: e.words("kinds"), Status: e.word("status"),
			Detail: e.word("detail"), FilesystemID: e.word("filesystem_id"), CheckedAt: Timestamp{at}})
	}
	for _, e := range o.objects("copies") {
		r.Copies = append(r.Copies, AgentCopy{Blob: e.word("blob"), State: e.word("state"), Size: e.whole("size"), SHA256: e.word("sha256")})
	}
	for _, e := range o.objects("transfers") {
		r.Transfers = append(r.Transfers, AgentTransfer{ID: e.word("id"), State: e.word("state"), Bytes: e.whole("bytes"), Error: e.word("error")})
	}
	return r, nil
}

// word returns a string property, "" when it is absent.
func (o *object) word(key string) string {
	v, _ := o.get(key)
	s, _ := v.(string)
	return s
}

// whole returns a property that the rule integer has passed, 0 when it is absent.
func (o *object) whole(key string) int64 {
	v, _ := o.get(key)
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return i
}

func (o *object) objects(key string) []*object {
	v, _ := o.get(key)
	list, _ := v.([]any)
	out := make([]*object, 0, len(list))
	for _, e := range list {
		if inner, ok := e.(*object); ok {
			out = append(out, inner)
		}
	}
	return out
}

func (o *object) words(key string) []string {
	v, _ := o.get(key)
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
