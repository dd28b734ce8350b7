package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestAgentReports: what an agent writes is what the API reads; what no agent writes is refused by name.
func TestAgentReports(t *testing.T) {
	r := AgentReport{
		Epoch: 1767000000, Seq: 17, URL: "http://192.0.2.1:15869", TotalBytes: 1 << 40, FreeBytes: 7,
		Resources: []AgentResource{{Name: "blobs", Path: "/srv/blobs", Kinds: []string{"instance", "blob"}, Status: "read_only", Detail: "it is mounted read-only",
			FilesystemID: "f", CheckedAt: Timestamp{time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}}},
		Copies:    []AgentCopy{{Blob: "11111111-2222-3333-4444-555555555555", State: "present", Size: 3, SHA256: strings.Repeat("a", 64)}},
		Transfers: []AgentTransfer{{ID: "t-1", State: "failed", Bytes: 9, Error: "no space left"}},
	}
	text, err := json.Marshal(AgentReportBody{Report: r})
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) (AgentReport, error) {
		b, err := ParseBody([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return b.AgentReport()
	}
	if got, err := read(string(text)); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v\nwant %+v", got, err, r)
	}
	if _, err := read(strings.Replace(string(text), `"epoch"`, `"of_a_newer_agent":{},"epoch"`, 1)); err != nil {
		t.Errorf("a newer agent is refused: %v", err)
	}
	for _, change := range [][2]string{
		{`"read_only"`, `"fine"`}, {`"instance"`, `"image"`}, {`"epoch":1767000000`, `"epoch":-1`}, {`"seq":17`, `"seq":1.5`}, {`"seq":17`, `"seq":1e400`},
		{`"blobs"`, `""`}, {`11111111-2222-3333-4444-555555555555`, `../../../../etc/passwd/../../../../../`}, {`"present"`, `"suspect"`},
		{strings.Repeat("a", 64), "abc"}, {`"failed"`, `"lost"`}, {`"no space left"`, `"` + strings.Repeat("x", MaxDetail+1) + `"`}, {`"epoch":1767000000,`, ``},
		{`"/srv/blobs"`, `"/srv/\u0000"`}, {`"http://192.0.2.1:15869"`, `"file:///etc/passwd"`},
		{`"http://192.0.2.1:15869"`, `"http://192.0.2.1/?a=b"`}, {`"http://192.0.2.1:15869"`, `"192.0.2.1:15869"`}, {`"resources":[`, `"resources":[1,`}, {`"report"`, `"rapport"`},
		{`"resources":[`, `"resources":[{"name":"blobs","path":"/x","kinds":[],"status":"ok","checked_at":"2026-01-02T03:04:05"},`},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		var invalid *ha.InvalidError
		if got, err := read(changed); changed == string(text) || !errors.As(err, &invalid) {
			t.Errorf("%s instead of %s: %+v, %v", change[1], change[0], got, err)
		}
	}
	many := `{"report":{"epoch":1,"seq":1,"resources":[` + strings.TrimSuffix(strings.Repeat(`1,`, MaxResources+1), ",") + `]}}`
	if _, err := read(many); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("too many: %v", err)
	}
}

// TestTheLargestReportFits into the default max_request_body_size.
func TestTheLargestReportFits(t *testing.T) {
	r := AgentReport{Epoch: 1767000000, Seq: 1 << 40, TotalBytes: 1 << 50, FreeBytes: 1 << 50, URL: strings.Repeat("u", maxURL)}
	for range MaxCopies {
		r.Copies = append(r.Copies, AgentCopy{Blob: "11111111-2222-3333-4444-555555555555", State: "present", Size: 1 << 40, SHA256: strings.Repeat("a", 64)})
	}
	for range MaxTransfers {
		r.Transfers = append(r.Transfers, AgentTransfer{ID: "11111111-2222-3333-4444-555555555555", State: "failed", Bytes: 1 << 40, Error: strings.Repeat("e", 200)})
	}
	for range MaxResources / 2 {
		r.Resources = append(r.Resources, AgentResource{Name: strings.Repeat("n", 63), Path: strings.Repeat("p", 200), Status: "read_only", Detail: strings.Repeat("d", 200)})
	}
	text, err := json.Marshal(AgentReportBody{Report: r})
	if err != nil || len(text) > 114688 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestOrdersVersion(t *testing.T) {
	orders := []AgentOrder{{ID: "1", Kind: OrderCopy, Blob: "b", Sources: []AgentSource{{Host: "h", URL: "u", Ticket: "old"}}}}
	first := NewOrders(orders)
	orders[0].Sources[0].Ticket = "new"
	if v := OrdersVersion(orders); v != first.Version {
		t.Error("a newer ticket made other orders")
	}
	orders[0].Sources[0].Host = "other"
	if v := OrdersVersion(orders); v == first.Version {
		t.Error("another source made no other orders")
	}
	q := Query{Values: map[string][]string{"wait": {"99999"}, "version": {"v"}}, Max: 1}
	if wait, known, err := q.AgentOrders(); err != nil || wait != time.Minute || known != "v" {
		t.Errorf("%s, %q, %v", wait, known, err)
	}
}
