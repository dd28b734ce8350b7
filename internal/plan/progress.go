package plan

import (
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// progress writes a line of recovery_workflow_details (contract section 9).
func (t *turn) progress(task string, done float64, format string, args ...any) {
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryProgress, Task: task, Progress: done, Text: fmt.Sprintf(format, args...)}})
}

// progressOnce writes it once per owner and attempt: a step that waits is asked again and again.
func (t *turn) progressOnce(task string, done float64, format string, args ...any) {
	if key := fmt.Sprintf("progress/%d/%s/%s", t.rec.Attempt, task, fmt.Sprintf(format, args...)); !t.Memory.Said[key] {
		t.Memory.Said[key] = true
		t.progress(task, done, format, args...)
	}
}

// task writes that a task changed state.
func (t *turn) task(task, state string) {
	t.change(ha.Write{Entry: ha.Entry{Kind: ha.EntryTask, Task: task, State: state}})
}

func (t *turn) taskOnce(task, state string) {
	if key := fmt.Sprintf("task/%d/%s/%s", t.rec.Attempt, task, state); !t.Memory.Said[key] {
		t.Memory.Said[key] = true
		t.task(task, state)
	}
}
