package ha

import "time"

// Field is a stored field by which lists are sorted. Wire names and column names are the wire's and the store's.
type Field string

const (
	FieldID             Field = "id"
	FieldUUID           Field = "uuid"
	FieldCreatedAt      Field = "created_at"
	FieldUpdatedAt      Field = "updated_at"
	FieldDeletedAt      Field = "deleted_at"
	FieldDeleted        Field = "deleted"
	FieldName           Field = "name"
	FieldServiceType    Field = "service_type"
	FieldDescription    Field = "description"
	FieldRecoveryMethod Field = "recovery_method"
	FieldEnabled        Field = "enabled"
	FieldType           Field = "type"
	FieldReserved       Field = "reserved"
	FieldControl        Field = "control_attributes"
	FieldSegment        Field = "segment"
	FieldOnMaintenance  Field = "on_maintenance"
	FieldGeneratedTime  Field = "generated_time"
	FieldSourceHostUUID Field = "source_host_uuid"
	FieldPayload        Field = "payload"
	FieldStatus         Field = "status"
	FieldMessage        Field = "message"
	FieldNotification   Field = "notification"
	FieldInstance       Field = "instance"
	FieldInstanceName   Field = "instance_name"
	FieldSourceHost     Field = "source_host"
	FieldDestHost       Field = "dest_host"
	FieldStartTime      Field = "start_time"
	FieldEndTime        Field = "end_time"
)

// Sort is one key of an order.
type Sort struct {
	Field Field
	Desc  bool
}

// Page bounds a list (contract 1.6). Limit is never negative and always set: 0 gives an empty list. Marker is the integer
// id or the uuid of the last element already seen, "" for the first page. Sort is total: it ends with FieldID.
type Page struct {
	Limit  int
	Marker string
	Sort   []Sort
}

// SegmentFilter, HostFilter, NotificationFilter and VMoveFilter are exact equality on the fields that are not nil.
type SegmentFilter struct {
	RecoveryMethod *string
	ServiceType    *string
	Enabled        *bool
}

type HostFilter struct {
	SegmentUUID   string // always set by the api: hosts are listed by segment
	Type          *string
	OnMaintenance *bool
	Reserved      *bool
}

type NotificationFilter struct {
	SourceHostUUID *string
	Type           *string
	Status         *string
	GeneratedSince *time.Time // inclusive
}

type VMoveFilter struct {
	NotificationUUID string
	Type             *string
	Status           *string
}
