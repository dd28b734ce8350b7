package imports

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The schema versions that are in use (contract section 7), as SQL: Debian has only the first.
var versions = []string{"migrate 7", "migrate 8", "8f848eb45d03", "8bdf5929c5a6", "13adff5efb9a"}

// hasVMoves and hasMessage say which versions have the table vmoves, and the notifications' columns failover_segment_uuid and message.
func hasVMoves(version string) bool {
	return version == "migrate 8" || version == "8bdf5929c5a6" || hasMessage(version)
}

func hasMessage(version string) bool { return version == "13adff5efb9a" }

// The uuids of the fixture's rows: of their table and id.
func uuidOf(table string, id int) string {
	n := 1 + slices.Index([]string{"segment", "host", "notification", "vmove", "flow", "atom", "instance"}, table)
	return fmt.Sprintf("%d%07d-0000-4000-8000-000000000000", n, id)
}

// uuids replaces {u:table:id} by uuids.
func uuids(text string) string {
	for {
		begin := strings.Index(text, "{u:")
		if begin < 0 {
			return text
		}
		end := begin + strings.Index(text[begin:], "}")
		table, id, _ := strings.Cut(text[begin+3:end], ":")
		var n int
		_, _ = fmt.Sscan(id, &n)
		text = text[:begin] + uuidOf(table, n) + text[end+1:]
	}
}

// makeMasakari makes a database as a Masakari of this version has it, with rows of every kind, good and bad.
func makeMasakari(t *testing.T, kind, url, version string) {
	t.Helper()
	id, datetime, flag := "INTEGER PRIMARY KEY", "DATETIME", "BOOLEAN"
	switch kind {
	case "mariadb":
		id, flag = "INT AUTO_INCREMENT PRIMARY KEY", "TINYINT(1)"
	case "postgresql":
		id, datetime = "SERIAL PRIMARY KEY", "TIMESTAMP"
	}
	head := strings.NewReplacer("ID", id, "DATETIME", datetime).Replace("created_at DATETIME, updated_at DATETIME, deleted_at DATETIME, deleted INT, id ID, ")
	extra := ""
	if hasMessage(version) {
		extra = ", failover_segment_uuid VARCHAR(36), message TEXT"
	}
	db := connect(t, url)
	run(t, db,
		"CREATE TABLE failover_segments ("+head+"uuid VARCHAR(36) NOT NULL, name VARCHAR(255) NOT NULL, service_type VARCHAR(255) NOT NULL, "+
			"description TEXT, recovery_method VARCHAR(36) NOT NULL, enabled "+flag+")",
		"CREATE TABLE hosts ("+head+"uuid VARCHAR(36) NOT NULL, name VARCHAR(255) NOT NULL, reserved "+flag+", type VARCHAR(255) NOT NULL, "+
			"control_attributes TEXT NOT NULL, failover_segment_id VARCHAR(36) NOT NULL, on_maintenance "+flag+")",
		"CREATE TABLE notifications ("+head+"notification_uuid VARCHAR(36) NOT NULL, generated_time "+datetime+" NOT NULL, "+
			"source_host_uuid VARCHAR(36) NOT NULL, type VARCHAR(36) NOT NULL, payload TEXT, status VARCHAR(36) NOT NULL"+extra+")",
		// TaskFlow's, as far as they matter.
		"CREATE TABLE logbooks (created_at "+datetime+", updated_at "+datetime+", meta TEXT, name VARCHAR(255), uuid VARCHAR(64) PRIMARY KEY)",
		"CREATE TABLE flowdetails (created_at "+datetime+", updated_at "+datetime+", parent_uuid VARCHAR(64), meta TEXT, name VARCHAR(255), state VARCHAR(255), uuid VARCHAR(64) PRIMARY KEY)",
		"CREATE TABLE atomdetails (created_at "+datetime+", updated_at "+datetime+", meta TEXT, parent_uuid VARCHAR(64), name VARCHAR(255), version TEXT, state VARCHAR(255), uuid VARCHAR(64) PRIMARY KEY)",
	)
	if number, old := strings.CutPrefix(version, "migrate "); old {
		run(t, db, "CREATE TABLE migrate_version (repository_id VARCHAR(250) NOT NULL, repository_path TEXT, version INT)",
			"INSERT INTO migrate_version VALUES ('masakari', '/usr/lib', "+number+")")
	} else {
		run(t, db, "CREATE TABLE masakari_alembic_version (version_num VARCHAR(32) NOT NULL)",
			"INSERT INTO masakari_alembic_version VALUES ('"+version+"')")
	}
	yes, no := "1", "0"
	if kind == "postgresql" {
		yes, no = "TRUE", "FALSE"
	}
	insert := func(table, columns string, rows ...string) {
		for _, r := range rows {
			run(t, db, "INSERT INTO "+table+" ("+columns+") VALUES ("+strings.NewReplacer("YES", yes, "NO", no).Replace(uuids(r))+")")
		}
	}
	insert("failover_segments", "id, created_at, updated_at, deleted_at, deleted, uuid, name, service_type, description, recovery_method, enabled",
		"1, '2024-01-01 00:00:01', NULL, NULL, 0, '{u:segment:1}', 'rack-1', 'COMPUTE', 'grün', 'auto', NULL", // from before the column
		"2, '2024-01-01 00:00:02', '2024-02-01 00:00:00', NULL, 0, '{u:segment:2}', 'rack-2', 'COMPUTE', NULL, 'reserved_host', NO",
		"3, '2024-01-01 00:00:03', NULL, '2024-02-01 00:00:00', 3, '{u:segment:3}', 'rack-1', 'COMPUTE', NULL, 'rh_priority', YES",
		"4, '2024-01-01 00:00:04', NULL, NULL, 0, '{u:segment:4}', 'odd', 'COMPUTE', NULL, 'by_hand', YES",
	)
	insert("hosts", "id, created_at, deleted_at, deleted, uuid, name, reserved, type, control_attributes, failover_segment_id, on_maintenance",
		"1, '2024-01-02 00:00:01', NULL, 0, '{u:host:1}', 'cmp-01', NO, 'COMPUTE', 'SSH', '{u:segment:1}', NO",
		"2, '2024-01-02 00:00:02', NULL, 0, '{u:host:2}', 'cmp-02', NULL, 'COMPUTE', 'SSH', '{u:segment:1}', YES",
		"3, '2024-01-02 00:00:03', NULL, 0, '{u:host:3}', 'cmp-03', YES, 'COMPUTE', 'SSH', '{u:segment:2}', NO",
		"4, '2024-01-02 00:00:04', '2024-02-01 00:00:00', 4, '{u:host:4}', 'cmp-01', NO, 'COMPUTE', 'SSH', '{u:segment:3}', NO",
		"5, '2024-01-02 00:00:05', NULL, 0, '{u:host:5}', 'cmp-05', NO, 'COMPUTE', 'SSH', '{u:segment:9}', NO", // no such segment
		"6, '2024-01-02 00:00:06', NULL, 0, '{u:host:6}', 'CMP-03', NO, 'COMPUTE', 'SSH', '{u:segment:1}', NO", // SQLite and PostgreSQL allow it
		"7, '2024-01-02 00:00:07', NULL, 0, '{u:host:7}', 'cmp-07', NO, 'COMPUTE', 'SSH', '{u:segment:4}', NO", // its segment is odd
	)
	death := `{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}`
	vm := uuids(`{"event": "LIFECYCLE", "instance_uuid": "{u:instance:1}", "vir_domain_event": "STOPPED_FAILED"}`)
	process := `{"event": "STOPPED", "process_name": "nova-compute"}`
	for _, n := range []struct {
		id, host              int
		kind, payload, status string
	}{
		{1, 1, "COMPUTE_HOST", death, "finished"}, {2, 1, "VM", vm, "failed"}, {3, 2, "PROCESS", process, "running"},
		{4, 1, "COMPUTE_HOST", death, "error"}, {5, 3, "VM", vm, "new"}, {6, 1, "VM", "not JSON", "finished"}, {7, 1, "VM", vm, "sleeping"},
		{8, 8, "COMPUTE_HOST", death, "ignored"}, {9, 4, "COMPUTE_HOST", death, "new"}, {10, 1, "COMPUTE_HOST", "[]", "finished"},
	} {
		columns := "id, created_at, updated_at, deleted, notification_uuid, generated_time, source_host_uuid, type, payload, status"
		values := fmt.Sprintf("%d, '2024-01-03 00:00:%02d', '2024-01-03 00:01:00', 0, '%s', '2024-01-03 00:00:%02d', '%s', '%s', '%s', '%s'",
			n.id, n.id, uuidOf("notification", n.id), n.id, uuidOf("host", n.host), n.kind, n.payload, n.status)
		if hasMessage(version) && n.id == 2 {
			columns, values = columns+", failover_segment_uuid, message", values+", '{u:segment:1}', 'the instance vanished'"
		}
		insert("notifications", columns, values)
	}
	if hasVMoves(version) {
		run(t, db, "CREATE TABLE vmoves ("+head+"uuid VARCHAR(36) NOT NULL, notification_uuid VARCHAR(36) NOT NULL, instance_uuid VARCHAR(36) NOT NULL, "+
			"instance_name VARCHAR(255) NOT NULL, source_host VARCHAR(255), dest_host VARCHAR(255), start_time "+datetime+", end_time "+datetime+
			", type VARCHAR(36), status VARCHAR(255), message TEXT)")
		insert("vmoves", "id, created_at, deleted, uuid, notification_uuid, instance_uuid, instance_name, source_host, dest_host, start_time, end_time, type, status, message",
			"1, '2024-01-03 00:00:01', 0, '{u:vmove:1}', '{u:notification:1}', '{u:instance:1}', 'vm-1', 'cmp-01', 'cmp-02', '2024-01-03 00:00:02', '2024-01-03 00:00:09', 'evacuation', 'succeeded', NULL",
			"2, '2024-01-03 00:00:01', 0, '{u:vmove:2}', '{u:notification:3}', '{u:instance:2}', 'vm-2', 'cmp-02', NULL, '2024-01-03 00:00:02', NULL, 'evacuation', 'ongoing', NULL",
			"3, '2024-01-03 00:00:01', 0, '{u:vmove:3}', '{u:notification:4}', '{u:instance:3}', 'vm-3', 'cmp-01', NULL, NULL, NULL, 'evacuation', 'failed', 'Failed reason: timeout.'",
			"4, '2024-01-03 00:00:01', 0, '{u:vmove:4}', '{u:notification:99}', '{u:instance:4}', 'vm-4', 'cmp-01', NULL, NULL, NULL, 'evacuation', 'failed', NULL",
		)
	}
	item := func(at, progress, message string) string {
		return `{"timestamp": "2024-01-03 00:00:` + at + `", "progress": ` + progress + `, "message": "` + message + `"}`
	}
	meta := func(items ...string) string {
		return `{"progress": 1.0, "progress_details": {"at_progress": 1.0, "details": {"progress_details": [` + strings.Join(items, ", ") + `]}}}`
	}
	insert("flowdetails", "created_at, parent_uuid, name, state, uuid",
		"'2024-01-03 00:00:01', '{u:notification:1}', 'instance_evacuate_engine', 'REVERTED', '{u:flow:2}'",
		"'2024-01-03 00:02:01', '{u:notification:1}', 'instance_evacuate_engine', 'SUCCESS', '{u:flow:1}'") // a retry
	insert("atomdetails", "created_at, parent_uuid, name, state, uuid, meta",
		"'2024-01-03 00:00:01', '{u:flow:2}', 'DisableComputeServiceTask', 'REVERTED', '{u:atom:1}', '"+meta(item("01.5", "0.0", "Disabling"))+"'",
		"'2024-01-03 00:00:01', '{u:flow:1}', 'EvacuateInstancesTask', 'SUCCESS', '{u:atom:2}', '"+meta(item("20.25", "0.5", "Evacuation of instance started"), item("21", "1.0", "completed"))+"'",
		"'2024-01-03 00:00:01', '{u:flow:1}', 'DisableComputeServiceTask', 'SUCCESS', '{u:atom:3}', '"+meta(item("10.5", "0.0", "Disabling"), item("11.5", "1.0", "Disabled"))+"'",
		"'2024-01-03 00:00:01', '{u:flow:1}', '_TaskFlow_INJECTOR', 'SUCCESS', '{u:atom:4}', NULL",
		"'2024-01-03 00:00:01', '{u:flow:1}', 'PrepareHAEnabledInstancesTask', 'PENDING', '{u:atom:5}', '{broken'")
}
