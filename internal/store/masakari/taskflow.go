package masakari

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Task is one task of a run of a recovery, as TaskFlow kept it (contract sections 7 and 9).
type Task struct {
	Name     string
	State    string
	Progress float64 // the last that it reported, 0 to 1
	Items    []Item
}

// Item is one line of a task.
type Item struct {
	At       time.Time
	Progress float64
	Message  string
}

// Run is one run of a notification's recovery: a retry adds one.
type Run []Task

// order is the order of Masakari's own tasks, for those that began in the same moment.
var order = []string{ha.TaskDisableService, ha.TaskPrepare, ha.TaskEvacuate, ha.TaskStop, ha.TaskStart, ha.TaskConfirmActive, ha.TaskDisableNode, ha.TaskConfirmNode}

// Runs reads how the recoveries of these notifications went, by notification, in true order. db holds TaskFlow's tables. Tasks that
// reported nothing are left away, as Masakari does. unread says, by notification, which tasks salvor cannot take, and why.
func Runs(ctx context.Context, db bun.IDB, notifications []string) (runs map[string][]Run, unread map[string][]string, err error) {
	if notifications = slices.DeleteFunc(notifications, func(u string) bool { return u == "" }); len(notifications) == 0 {
		return nil, nil, nil
	}
	flows, err := records(ctx, db, "SELECT uuid, parent_uuid, created_at FROM flowdetails WHERE parent_uuid IN (?) ORDER BY created_at, uuid",
		bun.List(spellings(notifications)))
	if err != nil || len(flows) == 0 {
		return nil, nil, err
	}
	uuids, of := make([]string, len(flows)), make(map[string]string, len(flows))
	for i, f := range flows {
		uuids[i] = f.words("uuid")
		of[uuids[i]] = spelt(f.words("parent_uuid"))
	}
	atoms, err := records(ctx, db, "SELECT uuid, parent_uuid, name, state, meta FROM atomdetails WHERE parent_uuid IN (?) ORDER BY uuid", bun.List(uuids))
	if err != nil {
		return nil, nil, err
	}
	tasks := map[string][]Task{}
	unread = map[string][]string{}
	for _, a := range atoms {
		t, some := readTask(a)
		if a.fault != "" {
			n := of[a.words("parent_uuid")]
			unread[n] = append(unread[n], fmt.Sprintf("%s, task %s: %s", a.words("uuid"), t.Name, a.fault))
		} else if some {
			tasks[a.words("parent_uuid")] = append(tasks[a.words("parent_uuid")], t)
		}
	}
	runs = map[string][]Run{}
	for _, f := range flows {
		run := tasks[f.words("uuid")]
		slices.SortStableFunc(run, func(a, b Task) int {
			return cmp.Or(a.Items[0].At.Compare(b.Items[0].At), cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name)))
		})
		if len(run) > 0 {
			n := of[f.words("uuid")]
			runs[n] = append(runs[n], run)
		}
	}
	return runs, unread, nil
}

// readTask reads an atom; some is false for one that reported no progress.
func readTask(r *record) (t Task, some bool) {
	t = Task{Name: rules.Text(r.words("name"), 100), State: rules.Text(r.words("state"), 36)}
	var meta struct {
		Progress float64 `json:"progress"`
		Outer    struct {
			Details struct {
				Items []struct {
					Timestamp string  `json:"timestamp"`
					Progress  float64 `json:"progress"`
					Message   string  `json:"message"`
				} `json:"progress_details"`
			} `json:"details"`
		} `json:"progress_details"`
	}
	text := r.words("meta")
	if text == "" || strings.HasPrefix(t.Name, "_TaskFlow_") {
		return t, false
	}
	err := json.Unmarshal([]byte(text), &meta)
	if other, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		r.bad("meta is not as TaskFlow writes it: %s is a JSON %s", cmp.Or(other.Field, "it"), other.Value)
	} else if err != nil {
		r.bad("meta cannot be read: %v", err)
	}
	if err != nil {
		return t, false
	}
	t.Progress = meta.Progress
	for _, i := range meta.Outer.Details.Items {
		at, err := rules.ReadTime(i.Timestamp)
		if err != nil {
			r.bad("timestamp: %v", err)
			return t, false
		}
		if !rules.TimeFits(at) {
			r.bad("timestamp %.40q is out of range: its year must be from %d to %d", i.Timestamp, rules.MinYear, rules.MaxYear)
			return t, false
		}
		t.Items = append(t.Items, Item{At: at, Progress: i.Progress, Message: rules.Text(i.Message, rules.MaxText)})
	}
	return t, len(t.Items) > 0
}
