package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

// TestInstanceClasses: what a file says is what the engine gets.
func TestInstanceClasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.conf")
	text := "[salvor]\n" +
		"instance_class = gold: metadata.tier=gold|platinum, action=evacuate, priority=100, wait=30\n" +
		"instance_class = pinned:flavor.hw:pci=*gpu*,action=error, restart=yes\n" +
		"instance_class = lb: project=0123, image.owner_tag=lb, aggregate=a b, action=leave, restart=no\n" +
		"instance_class = slow: flavor=m1.*, action=evacuate, priority=-5, wait=10, cap=20\n" +
		"instance_class = rest: action=evacuate\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Sources{Files: []string{path}, SearchDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	want := []InstanceClass{
		{Name: "gold", Conditions: []ClassCondition{{"metadata", "tier", []string{"gold", "platinum"}}}, Action: "evacuate", Priority: ptr(100), Waits: true, Wait: 30 * time.Second, Cap: 600 * time.Second},
		{Name: "pinned", Conditions: []ClassCondition{{"flavor", "hw:pci", []string{"*gpu*"}}}, Action: "error", Restart: ptr(true)},
		{Name: "lb", Conditions: []ClassCondition{{"project", "", []string{"0123"}}, {"image", "owner_tag", []string{"lb"}}, {"aggregate", "", []string{"a b"}}}, Action: "leave", Restart: ptr(false)},
		{Name: "slow", Conditions: []ClassCondition{{"flavor", "", []string{"m1.*"}}}, Action: "evacuate", Priority: ptr(-5), Waits: true, Wait: 10 * time.Second, Cap: 20 * time.Second},
		{Name: "rest", Action: "evacuate"},
	}
	if !reflect.DeepEqual(c.Salvor.InstanceClasses, want) {
		t.Errorf("read\n%+v\nwant\n%+v", c.Salvor.InstanceClasses, want)
	}
}

// TestInstanceClassMistakes: each is refused, and the error says what is wrong and where.
func TestInstanceClassMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"gold":                                          "expected NAME: CONDITION",
		"go ld: action=leave":                           "a class's name is",
		": action=leave":                                "a class's name is",
		"g: metadata.tier=gold":                         "class g has no action",
		"g:":                                            `class g: "" is no KEY=VALUE`,
		"g: action=leave,":                              `class g: "" is no KEY=VALUE`,
		"g: action":                                     `class g: "action" is no KEY=VALUE`,
		"g: action=":                                    `"action=" is no KEY=VALUE`,
		"g: action=move":                                "action=move: expected evacuate, leave or error",
		"g: meta.tier=x, action=leave":                  "meta.tier is unknown: one of action",
		"g: metadata=x, action=leave":                   "metadata is unknown",
		"g: metadata.=x, action=leave":                  "metadata. is unknown",
		"g: project.x=y, action=leave":                  "project.x is unknown",
		"g: project=a|, action=leave":                   "project=a|: a value is empty",
		"g: project=a, project=b, action=leave":         "project is given twice",
		"g: action=evacuate, priority=high":             "priority=high: expected an integer",
		"g: action=evacuate, priority=1000001":          "expected an integer from -1000000 to 1000000",
		"g: action=evacuate, priority=1, wait=-1":       "wait=-1: expected a whole number of seconds",
		"g: action=evacuate, priority=1, wait=1.5":      "wait=1.5: expected a whole number",
		"g: action=evacuate, wait=5":                    "wait and cap need a priority",
		"g: action=leave, priority=5":                   "priority, wait and cap are for action=evacuate",
		"g: action=evacuate, priority=1, wait=9, cap=5": "cap, how long lower priorities wait at most, is less than wait",
		"g: action=leave, restart=perhaps":              "restart=perhaps: expected true or false",
		"g: action=leave\ninstance_class = h: project=x, action=leave":            "class h can never apply: class g before it",
		"g: project=x, action=leave\ninstance_class = g: project=y, action=leave": "two classes are named g",
	} {
		path := filepath.Join(t.TempDir(), "c.conf")
		if err := os.WriteFile(path, []byte("[salvor]\ninstance_class = "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(Sources{Files: []string{path}, SearchDirs: []string{}})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %q and the file", text, err, says)
		}
	}
}

// FuzzInstanceClass: whatever stands there, it is read or refused, and what was read is within its bounds.
func FuzzInstanceClass(f *testing.F) {
	f.Add("gold: metadata.tier=gold|x, action=evacuate, priority=100, wait=30, cap=60, restart=yes")
	f.Add("a:flavor.hw:x=*y*,action=error")
	f.Add(":,=|")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := instanceClasses().parse([]string{text, text})
		if err == nil && len(all) > 0 {
			t.Fatalf("%q: the same class twice was taken: %+v", text, all)
		}
		all, err = instanceClasses().parse([]string{text})
		if err != nil {
			return
		}
		for _, c := range all {
			if c.Name == "" || c.Action == "" || c.Wait < 0 || c.Wait > c.Cap || c.Cap > 2*maxClassSeconds*time.Second || c.Waits && c.Priority == nil {
				t.Fatalf("%q was taken as %+v", text, c)
			}
			for _, cond := range c.Conditions {
				if len(cond.Values) == 0 || (cond.Trait == "metadata") && cond.Key == "" {
					t.Fatalf("%q was taken as %+v", text, c)
				}
			}
		}
	})
}
