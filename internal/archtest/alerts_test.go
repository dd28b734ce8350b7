package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestAlertsPage: docs/alerts.md has a line for every kind of alarm, and names no metric that is not there.
func TestAlertsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ha.Alarms {
		if !strings.Contains(string(page), "\n| "+string(a)+" | ") {
			t.Errorf("docs/alerts.md does not say what to do about the alarm %s", a)
		}
	}
	var source strings.Builder
	files, err := filepath.Glob("../telemetry/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of telemetry: %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	names := regexp.MustCompile(`salvor_([a-z_]+)`).FindAllStringSubmatch(string(page), -1)
	if len(names) < 10 {
		t.Fatalf("%d metrics are named", len(names))
	}
	for _, n := range names {
		if !strings.Contains(source.String(), `"`+n[1]+`"`) && !strings.Contains(source.String(), `"_`+n[1]+`"`) {
			t.Errorf("docs/alerts.md names the metric %s, which telemetry does not have", n[0])
		}
	}
}
