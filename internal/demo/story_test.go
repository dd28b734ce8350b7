package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/salvor-ha/salvor/internal/wire"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func entry(seconds float64, kind, text string, act, task string) wire.TimelineEntry {
	e := wire.TimelineEntry{At: wire.Timestamp{Time: at(seconds)}, Kind: kind, Text: text}
	if act != "" {
		e.Act = &act
	}
	if task != "" {
		e.Task = &task
	}
	return e
}

// anIncident is one at its end: four instances, three of which came back.
func anIncident() Incident {
	message := "1 not: 00000000-aaaa: no valid host"
	ended := wire.Timestamp{Time: at(9)}
	return Incident{
		Host: "host-1", DiedAt: at(1), ReportedAt: at(2), Notification: "n", settled: true,
		Recovery: wire.Recovery{Status: "failed", Message: &message, Unit: &wire.Unit{EndedAt: &ended}, Timeline: []wire.TimelineEntry{
			entry(2, "gate", "Nova still hears host-1: waiting until it has been silent for 3s (now 0s)", "", "proof"),
			entry(2.5, "gate", "4 of 6 hosts are down", "", "brake"),
			entry(2.5, "alarm", "recovery of host host-1 is held by the brake: 4 of 6 hosts are down", "", ""),
			entry(5, "gate", "segment demo is enabled", "", "segment"),
			entry(5, "gate", "Nova answers", "", "nova"),
			entry(5, "gate", "reported: host-1 has not been heard for 3s", "", "proof"),
			entry(5, "progress", "Disabling compute service on host: 'host-1'", "", "DisableComputeServiceTask"),
			entry(5, "outcome", "compute service of host-1: forced_down true disable: done", "service", ""),
			entry(8, "alarm", "00000000-aaaa may run twice", "", ""),
		}},
		Victims: []Victim{
			{ID: "00000000-aaaa", Name: "vm-1", OrderedAt: at(6), Orders: 2},
			{ID: "00000000-bbbb", Name: "vm-2", OrderedAt: at(6.1), Orders: 1, To: "host-2", BackAt: at(7)},
			{ID: "00000000-cccc", Name: "vm-9", OrderedAt: at(6.5), Orders: 1, To: "host-3", BackAt: at(7.5), Locked: true},
		},
	}
}

func TestStory(t *testing.T) {
	var got []string
	for _, l := range (Scene{Began: t0, Incidents: []Incident{anIncident()}}).Story() {
		got = append(got, l.At.Sub(t0).String()+" "+l.Text)
	}
	want := []string{
		"1s host-1 loses power, and 3 instances with it",
		"2s a monitor reports host-1 STOPPED",
		"2s waits at gate proof: Nova still hears host-1: waiting until it has been silent for 3s",
		"2.5s host-1 waits at gate brake: 4 of 6 hosts are down",
		"5s host-1 passes the gates segment, nova",
		"5s proof of death: host-1 has not been heard for 3s",
		"5s in Nova, host-1 is forced down and disabled, in one call",
		"6s evacuation ordered: vm-1, vm-2",
		"6.5s evacuation ordered: vm-9",
		"7s vm-2 runs again, on host-2",
		"7.5s vm-9 runs again, on host-3",
		"8s vm-1 may run twice",
		"9s host-1 failed: 1 not: vm-1: no valid host",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReportNamesWhatIsWrong: a script must not take a bad end for a good one.
func TestReportNamesWhatIsWrong(t *testing.T) {
	r := Scene{Double: 1}.report(anIncident())
	if r.OK || r.FirstOrder != 4 || r.Total != 5.5 {
		t.Errorf("%+v", r)
	}
	all := r.String()
	for _, want := range []string{`is "failed", not finished`, "vm-1 does not run", "vm-1 was ordered 2 times", "vm-9 is still locked", "1 instance ran", "host-1: 2 of 3 back; "} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
	good := anIncident()
	good.Victims, good.Recovery.Status = good.Victims[1:2], "finished"
	if r := (Scene{}).report(good); !r.OK || len(r.Problems) > 0 || r.Instances[0].Evacuations != 1 {
		t.Errorf("%+v", r)
	}
}

// crowd is a scene with many hosts and instances, and several incidents.
func crowd(hosts, each int) Scene {
	s := Scene{At: at(75.5), Began: t0, URL: "http://127.0.0.1:12345", Trouble: "something is wrong"}
	for h := range hosts {
		host := Host{Name: "host-" + strings.Repeat("x", h%20), Powered: h != 3, Up: h != 3 && h != 4, ForcedDown: h == 3, Disabled: h == 3}
		for i := range each {
			host.Instances = append(host.Instances, Instance{Name: "vm-" + strings.Repeat("1", 1+i%5), State: state(i % 4)})
		}
		s.Hosts = append(s.Hosts, host)
	}
	for range 5 {
		s.Incidents = append(s.Incidents, anIncident())
	}
	return s
}

// TestTheScreenFits, whatever its size and however much there is to show.
func TestTheScreenFits(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {100, 30}, {200, 60}, {60, 24}} {
		for _, s := range []Scene{crowd(0, 0), crowd(6, 4), crowd(6, 40), crowd(60, 4), crowd(60, 200)} {
			screen := render(s, size.width, size.height)
			lines := strings.Split(screen, "\n")
			if len(lines) != size.height {
				t.Errorf("%v, %d hosts: %d lines", size, len(s.Hosts), len(lines))
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > size.width {
					t.Errorf("%v, %d hosts: %d columns: %q", size, len(s.Hosts), w, l)
				}
			}
			if plain := ansi.Strip(screen); !strings.Contains(plain, "1:15.5") || !strings.Contains(plain, "q quit") || len(s.Hosts) > 0 && !strings.Contains(plain, "✗ no power") {
				t.Errorf("%v, %d hosts: something is missing in\n%s", size, len(s.Hosts), plain)
			}
		}
	}
}

// TestNoNameIsCutOff: on a narrow screen what happened goes on in the next line.
func TestNoNameIsCutOff(t *testing.T) {
	i := anIncident()
	i.Victims = nil
	for k := range 8 {
		i.Victims = append(i.Victims, Victim{ID: string(rune('a' + k)), Name: "a-long-name-of-instance-" + string(rune('a'+k)), OrderedAt: at(6), Orders: 1})
	}
	i.Recovery.Status = "finished"
	screen := ansi.Strip(render(Scene{At: at(10), Began: t0, Incidents: []Incident{i}}, 60, 60))
	for _, v := range i.Victims {
		if !strings.Contains(screen, v.Name) {
			t.Errorf("%s is cut off in\n%s", v.Name, screen)
		}
	}
	if !strings.Contains(screen, "first order") || !strings.Contains(screen, "all back") {
		t.Errorf("the summary is cut off in\n%s", screen)
	}
}
