package openstack

import (
	"testing"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// processFailure: a nova-compute dies without its host and is started again (RECOVERY section 4). Nova answers the first PUT
// late, as it waits for the dead process.
func (s *suite) processFailure(t *testing.T) {
	const host = "compute-4"
	t.Parallel()
	process := func(event, name string) map[string]string {
		return map[string]string{"event": event, "process_name": name}
	}
	s.awaitNotification(t, s.report(t, "PROCESS", host, process("STOPPED", "libvirtd")), "finished")
	if s.onMaintenance(t, host) {
		t.Error("another process than nova-compute took the host out of service")
	}

	must(t, s.lab.Kill(t.Context(), host))
	s.awaitNotification(t, s.report(t, "PROCESS", host, process("STOPPED", "nova-compute")), "finished")
	if v := s.service(t, host); v.Status != "disabled" || v.ForcedDown || v.DisabledReason != "Masakari detected process failed." {
		t.Errorf("nova-compute is not disabled with the reason: %+v", v)
	}
	if !s.onMaintenance(t, host) {
		t.Error("the host is not on maintenance")
	}

	must(t, s.lab.Revive(t.Context(), host))
	s.awaitNotification(t, s.report(t, "PROCESS", host, process("STARTED", "nova-compute")), "finished")
	must(t, s.lab.AwaitService(t.Context(), host, "enabled again", soon, func(v lab.Service) bool {
		return v.Status == "enabled" && v.State == "up"
	}))
	if s.onMaintenance(t, host) {
		t.Error("maintenance did not end with the process's return")
	}
}
