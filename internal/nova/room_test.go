package nova

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestRoom: hosts by their compute services' names, what they have left summed up over a host's providers; a provider that is no
// hypervisor is none; the list of hypervisors is read once.
func TestRoom(t *testing.T) {
	f := newFake(t)
	f.answer("GET /placement/allocation_candidates", ok(`{
		"allocation_requests": [
			{"allocations": {"rp1-numa": {"resources": {"VCPU": 2}}, "rp1": {"resources": {"MEMORY_MB": 512}}, "share": {"resources": {"DISK_GB": 1}}}, "mappings": {}},
			{"allocations": {"rp2": {"resources": {"VCPU": 2, "MEMORY_MB": 512}}, "share": {"resources": {"DISK_GB": 1}}}}],
		"provider_summaries": {
			"rp1": {"root_provider_uuid": "rp1", "parent_provider_uuid": null, "traits": [], "resources": {"MEMORY_MB": {"capacity": 4096, "used": 1024}}},
			"rp1-numa": {"root_provider_uuid": "rp1", "parent_provider_uuid": "rp1", "traits": [], "resources": {"VCPU": {"capacity": 8, "used": 5}, "PCPU": {"capacity": 8, "used": 0}}},
			"rp2": {"root_provider_uuid": "rp2", "parent_provider_uuid": null, "traits": [], "resources": {"VCPU": {"capacity": 4, "used": 6}, "MEMORY_MB": {"capacity": 2048, "used": 0}}},
			"share": {"root_provider_uuid": "share", "parent_provider_uuid": null, "traits": [], "resources": {"DISK_GB": {"capacity": 100, "used": 1}}}}}`))
	f.answer("GET /compute/v2.1/os-hypervisors/detail", ok(`{"hypervisors": [
		{"id": "rp1", "hypervisor_hostname": "compute-1.example.com", "service": {"host": "compute-1"}},
		{"id": "rp2", "hypervisor_hostname": "compute-2.example.com", "service": {"host": "compute-2"}}]}`))
	c := f.client(t)
	needs := ha.NeedsOf(map[string]int64{"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 1}, []string{"HW_CPU_X86_AVX2", "!CUSTOM_SLOW"})
	want := []ha.Room{{Host: "compute-1", Free: map[string]int64{"VCPU": 3, "MEMORY_MB": 3072}}, {Host: "compute-2", Free: map[string]int64{"VCPU": 0, "MEMORY_MB": 2048}}}
	for range 2 {
		got, err := c.Room(ctx(t), needs)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	}
	calls := f.calls("GET /placement/allocation_candidates")
	if got := calls[0].query; got != "limit=1000&required=%21CUSTOM_SLOW%2CHW_CPU_X86_AVX2&resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A2" {
		t.Errorf("asked for %s", got)
	}
	if got := calls[0].header.Get("OpenStack-API-Version"); got != "placement 1.29" {
		t.Errorf("version %q", got)
	}
	if n := len(f.calls("GET /compute/v2.1/os-hypervisors/detail")); n != 1 {
		t.Errorf("hypervisors were listed %d times", n)
	}
	f.answer("GET /placement/allocation_candidates", fault(406, `{"errors": [{"status": 406, "detail": "Unacceptable version header: 1.29"}]}`))
	if _, err := c.Room(ctx(t), needs); ha.TextOf(err) != "Unacceptable version header: 1.29" {
		t.Errorf("an old Placement: %v", err)
	}
}

// TestNeeds: what Nova asks Placement for, from the flavor in the server.
func TestNeeds(t *testing.T) {
	for _, tt := range []struct {
		flavor string
		image  bool
		want   ha.Needs
	}{
		{`{"vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 5, "swap": 1500, "extra_specs": {}}`, true, ha.Needs{Resources: "DISK_GB:27,MEMORY_MB:2048,VCPU:2"}},
		{`{"vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 0, "swap": ""}`, false, ha.Needs{Resources: "MEMORY_MB:2048,VCPU:2"}},
		{`{"vcpus": 4, "ram": 512, "disk": 1, "extra_specs": {"hw:cpu_policy": "dedicated", "trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_OLD": "forbidden"}}`, true,
			ha.Needs{Resources: "DISK_GB:1,MEMORY_MB:512,PCPU:4", Traits: "!CUSTOM_OLD,HW_CPU_X86_AVX2"}},
		{`{"vcpus": 8, "ram": 512, "disk": 1, "extra_specs": {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_BAREMETAL": "1"}}`, true,
			ha.Needs{Resources: "CUSTOM_BAREMETAL:1"}},
		{`{"id": "1", "links": []}`, true, ha.Needs{}},
	} {
		var f flavor
		if err := json.Unmarshal([]byte(tt.flavor), &f); err != nil {
			t.Fatal(err)
		}
		got := f.needs(tt.image)
		if got != tt.want || got.Known() != (tt.want != ha.Needs{}) {
			t.Errorf("%s: %+v", tt.flavor, got)
		}
		if again := ha.NeedsOf(got.Amounts(), nil); again.Resources != got.Resources {
			t.Errorf("%q read as %v", got.Resources, got.Amounts())
		}
	}
}
