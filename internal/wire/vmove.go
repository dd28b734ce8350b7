package wire

import "github.com/salvor-ha/salvor/internal/ha"

// VMove is an instance's evacuation in a response (contract 1.10).
type VMove struct {
	ID               int64      `json:"id"`
	UUID             string     `json:"uuid"`
	NotificationUUID string     `json:"notification_uuid"`
	InstanceUUID     string     `json:"instance_uuid"`
	InstanceName     string     `json:"instance_name"`
	SourceHost       string     `json:"source_host"`
	DestHost         *string    `json:"dest_host"`
	StartTime        *Timestamp `json:"start_time"`
	EndTime          *Timestamp `json:"end_time"`
	Type             string     `json:"type"`
	Status           string     `json:"status"`
	Message          *string    `json:"message"`
	Stamps
}

// VMoveBody and VMoveList are the response bodies.
type (
	VMoveBody struct {
		VMove VMove `json:"vmove"`
	}
	VMoveList struct {
		VMoves []VMove `json:"vmoves"`
	}
)

// NewVMove renders m.
func NewVMove(m ha.VMove) VMove {
	return VMove{
		ID: m.ID, UUID: m.UUID, NotificationUUID: m.NotificationUUID, InstanceUUID: m.InstanceUUID,
		InstanceName: m.InstanceName, SourceHost: m.SourceHost, DestHost: m.DestHost, StartTime: timestamp(m.StartTime),
		EndTime: timestamp(m.EndTime), Type: m.Type, Status: string(m.Status), Message: m.Message, Stamps: stamps(m.Stamps),
	}
}

// NewVMoveList renders a page of moves.
func NewVMoveList(moves []ha.VMove) VMoveList {
	list := make([]VMove, len(moves))
	for i, m := range moves {
		list[i] = NewVMove(m)
	}
	return VMoveList{list}
}
