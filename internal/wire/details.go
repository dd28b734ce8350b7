package wire

import "github.com/salvor-ha/salvor/internal/ha"

// detailTime is how the items of recovery_workflow_details show times: UTC, with a blank.
const detailTime = "2006-01-02 15:04:05.000000"

// Progress is a share from 0 to 1, written as Python writes a float: 1.0, not 1.
type Progress float64

// MarshalJSON writes a JSON number with a point.
func (p Progress) MarshalJSON() ([]byte, error) { return []byte(pythonFloat(float64(p))), nil }

// WorkflowTask is one element of recovery_workflow_details (contract section 9).
type WorkflowTask struct {
	Name            string         `json:"name"`
	Progress        Progress       `json:"progress"`
	ProgressDetails []ProgressItem `json:"progress_details"`
	State           string         `json:"state"`
}

// ProgressItem is one line of a task. Its progress is a text, unlike the task's.
type ProgressItem struct {
	Timestamp string `json:"timestamp"`
	Progress  string `json:"progress"`
	Message   string `json:"message"`
}

// NewWorkflow reads recovery_workflow_details out of a notification's journal: the tasks that reported progress, in true
// order, again for each attempt. The list is never nil.
func NewWorkflow(journal []ha.Entry) []WorkflowTask {
	w := workflow{current: map[string]int{}}
	for _, e := range journal {
		switch e.Kind {
		case ha.EntryTask:
			w.task(e)
		case ha.EntryProgress:
			w.progress(e)
		}
	}
	tasks := []WorkflowTask{}
	for _, t := range w.tasks {
		if len(t.ProgressDetails) > 0 {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// workflow collects runs of tasks; current is the latest run of each, in unit work.
type workflow struct {
	tasks   []WorkflowTask
	current map[string]int
	work    int64
}

// run returns the run of e's task that e belongs to. One that has ended goes on in a new run, when begins says so.
func (w *workflow) run(e ha.Entry, begins func(*WorkflowTask) bool) *WorkflowTask {
	if e.WorkID != w.work { // an operator's retry of an ended recovery is a new unit
		w.work = e.WorkID
		clear(w.current)
	}
	i, ok := w.current[e.Task]
	if !ok || w.tasks[i].State != ha.TaskRunning && begins(&w.tasks[i]) {
		i = len(w.tasks)
		w.current[e.Task] = i
		w.tasks = append(w.tasks, WorkflowTask{Name: e.Task, State: ha.TaskRunning})
	}
	return &w.tasks[i]
}

func (w *workflow) task(e ha.Entry) {
	t := w.run(e, func(*WorkflowTask) bool { return e.State == ha.TaskRunning })
	t.State = e.State
	if p := Progress(e.Progress); p > t.Progress { // an imported task's own, which may be beyond its last line's
		t.Progress = p
	}
}

// progress adds a line. An ended task that reports less than it did last has begun anew.
func (w *workflow) progress(e ha.Entry) {
	t := w.run(e, func(t *WorkflowTask) bool { return e.Progress < float64(t.Progress) })
	t.Progress = Progress(e.Progress)
	t.ProgressDetails = append(t.ProgressDetails, ProgressItem{
		Timestamp: e.At.UTC().Format(detailTime), Progress: pythonFloat(e.Progress), Message: e.Text,
	})
}
