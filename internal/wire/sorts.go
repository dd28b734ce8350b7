package wire

import "github.com/salvor-ha/salvor/internal/ha"

// The keys by which each list can be sorted: every column by its name on the wire (contract 1.6 and 7). Masakari's ORM
// relations, failover_segment and hosts, are none (contract 12, row 6).
var (
	segmentSorts = sorts(map[string]ha.Field{
		"uuid": ha.FieldUUID, "name": ha.FieldName, "service_type": ha.FieldServiceType, "enabled": ha.FieldEnabled,
		"description": ha.FieldDescription, "recovery_method": ha.FieldRecoveryMethod,
	})
	hostSorts = sorts(map[string]ha.Field{
		"uuid": ha.FieldUUID, "name": ha.FieldName, "failover_segment_id": ha.FieldSegment, "type": ha.FieldType,
		"reserved": ha.FieldReserved, "control_attributes": ha.FieldControl, "on_maintenance": ha.FieldOnMaintenance,
	})
	notificationSorts = sorts(map[string]ha.Field{
		"notification_uuid": ha.FieldUUID, "generated_time": ha.FieldGeneratedTime, "source_host_uuid": ha.FieldSourceHostUUID,
		"type": ha.FieldType, "payload": ha.FieldPayload, "status": ha.FieldStatus, "failover_segment_uuid": ha.FieldSegment,
		"message": ha.FieldMessage,
	})
	vmoveSorts = sorts(map[string]ha.Field{
		"uuid": ha.FieldUUID, "notification_uuid": ha.FieldNotification, "instance_uuid": ha.FieldInstance,
		"instance_name": ha.FieldInstanceName, "source_host": ha.FieldSourceHost, "dest_host": ha.FieldDestHost,
		"start_time": ha.FieldStartTime, "end_time": ha.FieldEndTime, "type": ha.FieldType, "status": ha.FieldStatus,
		"message": ha.FieldMessage,
	})
)

// sorts adds the columns that every table begins with.
func sorts(own map[string]ha.Field) map[string]ha.Field {
	for _, f := range []ha.Field{ha.FieldID, ha.FieldCreatedAt, ha.FieldUpdatedAt, ha.FieldDeletedAt, ha.FieldDeleted} {
		own[string(f)] = f
	}
	return own
}
