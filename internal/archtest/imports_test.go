package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms is the table of docs/architecture.md: what a room may import besides the standard library, level 0 and itself. Level 0 may import
// nothing of ours.
var rooms = []struct {
	level string
	rooms string
	may   string
}{
	{"0", "ha lease policy config telemetry", ""},
	{"1", "plan wire", ""},
	{"2", "engine", "plan blob"},
	{"2", "service doctor", "plan"},
	{"2", "blob", ""},
	{"2", "client", "wire"},
	{"2", "agent", "wire"},
	{"3", "store nova fencing keystone sim", ""},
	{"3", "announce", "wire"},
	{"api", "api", "wire service"},
	{"4", "app", "*"},
	{"cli", "demo", "app client wire"},
	{"cli", "cli", "app client wire demo"},
}

const levelZero = "ha lease policy config telemetry"

// allowed is the table, turned into what each room may import.
func allowed() map[string][]string {
	may := map[string][]string{}
	for _, row := range rooms {
		for _, r := range strings.Fields(row.rooms) {
			may[r] = append(strings.Fields(row.may), r)
			if row.level != "0" {
				may[r] = append(may[r], strings.Fields(levelZero)...)
			}
		}
	}
	return may
}

// roomFault says what is wrong with importing our package pkg into f, "" when nothing is.
func roomFault(f file, pkg string, may map[string][]string) string {
	from, to := room(f.pkg), room(pkg)
	targets, known := may[from]
	switch {
	case from != "" && !known:
		return "room " + from + " is not in the table: give it a level"
	case isTestOnly(pkg):
		return pkg + " is for tests"
	case from == "" && f.pkg == "cmd/salvor" && to != "cli":
		return "the command only calls cli, not " + pkg
	case from != "" && !slices.Contains(targets, "*") && !slices.Contains(targets, to):
		return "a room of its level may not import " + pkg + " (docs/architecture.md, \"The rooms\")"
	}
	return ""
}

func TestRoomsImportWhatTheyMay(t *testing.T) {
	may := allowed()
	eachFile(t, product, func(t *testing.T, f file) {
		for _, i := range f.imports {
			if pkg, ours := strings.CutPrefix(i, module); ours {
				if fault := roomFault(f, pkg, may); fault != "" {
					t.Errorf("%s: %s", f.path, fault)
				}
			}
		}
	})
}

// TestTheTableBites: what the design forbids is a fault by this table.
func TestTheTableBites(t *testing.T) {
	may := allowed()
	for _, tt := range []struct {
		from, to string
		fault    bool
	}{
		{"internal/ha", "internal/config", true}, {"internal/plan", "internal/ha", false}, {"internal/plan", "internal/wire", true},
		{"internal/engine", "internal/plan", false}, {"internal/engine", "internal/store", true}, {"internal/engine", "internal/service", true},
		{"internal/nova", "internal/store", true}, {"internal/nova", "internal/config", false}, {"internal/store", "internal/engine", true},
		{"internal/api", "internal/service", false}, {"internal/api", "internal/engine", true}, {"internal/wire", "internal/service", true},
		{"internal/sim/simhttp", "internal/sim", false}, {"internal/app", "internal/nova", false}, {"internal/app", "internal/testkit", true},
		{"internal/drawer", "internal/ha", true}, {"cmd/salvor", "internal/cli", false}, {"cmd/salvor", "internal/app", true},
	} {
		if got := roomFault(file{pkg: tt.from}, tt.to, may); (got != "") != tt.fault {
			t.Errorf("%s imports %s: %q", tt.from, tt.to, got)
		}
	}
	for _, tt := range []struct {
		library, pkg string
		fine         bool
	}{
		{"database/sql", "internal/store/memstore", true}, {"database/sql", "internal/engine", false}, {"database/sql/driver", "internal/api", false},
		{"github.com/gophercloud/gophercloud/v2/pagination", "internal/engine", false}, {"github.com/spf13/cobra", "internal/cli", true},
		{"github.com/google/go-cmp/cmp", "internal/api", false}, {"unsafe", "internal/store", false},
	} {
		where, listed := placeOf(tt.library)
		if !listed || inside(tt.pkg, where) != tt.fine {
			t.Errorf("%s in %s: listed %v, allowed in %q", tt.library, tt.pkg, listed, where)
		}
	}
}

// TestTheTablesNameWhatIsThere: a room that is gone would keep its rights for whoever takes its name.
func TestTheTablesNameWhatIsThere(t *testing.T) {
	there, used := map[string]bool{}, map[string]bool{}
	eachFile(t, product, func(_ *testing.T, f file) {
		there[room(f.pkg)] = true
		for _, i := range f.imports {
			for _, l := range libraries {
				used[l.library] = used[l.library] || i == l.library || strings.HasPrefix(i, l.library+"/")
			}
		}
	})
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for r := range allowed() {
		if !there[r] {
			t.Errorf("there is no room %s", r)
		}
		if !regexp.MustCompile(`(?m)^\|[^|]*\|[^|]*\b` + r + `\b[^|]*\|`).Match(text) {
			t.Errorf("docs/architecture.md gives room %s no level", r)
		}
	}
	for _, l := range libraries {
		if l.where != "" && !used[l.library] {
			t.Errorf("nobody imports %s", l.library)
		}
	}
}

// TestAdaptersDoNotKnowEachOther also holds for what only tests of a room use: a test of nova may use the simulator and
// the interfaces that nova is for, but no other adapter.
func TestAdaptersDoNotKnowEachOther(t *testing.T) {
	adapters := []string{"store", "nova", "fencing", "announce", "keystone"}
	eachFile(t, func(f file) bool { return slices.Contains(adapters, room(f.pkg)) }, func(t *testing.T, f file) {
		for _, i := range f.imports {
			pkg, _ := strings.CutPrefix(i, module)
			if to := room(pkg); to != room(f.pkg) && slices.Contains(adapters, to) {
				t.Errorf("%s imports %s", f.path, pkg)
			}
		}
	})
}

// libraries is where each library may be imported by product code; a name ends at a slash.
var libraries = []struct{ library, where string }{
	{"database/sql", "internal/store"},
	{"github.com/uptrace/bun", "internal/store"},
	{"github.com/go-sql-driver/mysql", "internal/store"},
	{"github.com/jackc/pgx", "internal/store"},
	{"modernc.org/sqlite", "internal/store"},
	{"github.com/gophercloud/gophercloud", "internal/nova internal/keystone internal/sim/simhttp"},
	{"github.com/rabbitmq/amqp091-go", "internal/announce"},
	{"github.com/prometheus/client_golang", "internal/telemetry"},
	{"go.opentelemetry.io", "internal/telemetry"},
	{"github.com/spf13/cobra", "internal/cli"},
	{"github.com/spf13/pflag", "internal/cli"},
	{"charm.land", "internal/cli internal/demo"},
	{"github.com/charmbracelet", "internal/cli internal/demo"},
	{"gopkg.in/yaml.v3", "internal/client internal/cli internal/fencing"},
	{"github.com/google/uuid", "internal"},
	{"golang.org/x", "internal"},
	// For tests only.
	{"github.com/google/go-cmp", ""},
	{"pgregory.net/rapid", ""},
	{"github.com/getkin/kin-openapi", ""},
	{"testing", ""},
	{"net/http/httptest", ""},
	{"unsafe", "internal/agent/copies"}, // the kernel's mincore, and where memory lies
	// Never.
	{"C", ""},
	{"plugin", ""},
	{"math/rand", ""}, // the old one; see TestChance for math/rand/v2
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	eachFile(t, product, func(t *testing.T, f file) {
		for _, i := range f.imports {
			if strings.HasPrefix(i, module) || i == "math/rand/v2" {
				continue
			}
			where, listed := placeOf(i)
			switch {
			case !listed && strings.Contains(strings.SplitN(i, "/", 2)[0], "."):
				t.Errorf("%s imports %s: a new library; give it a room in this test's table", f.path, i)
			case listed && !inside(f.pkg, where):
				t.Errorf("%s imports %s, which belongs to %q only", f.path, i, where)
			}
		}
	})
}

func placeOf(library string) (where string, listed bool) {
	for _, l := range libraries {
		if library == l.library || strings.HasPrefix(library, l.library+"/") {
			return l.where, true
		}
	}
	return "", false
}

func inside(pkg, where string) bool {
	for _, w := range strings.Fields(where) {
		if pkg == w || strings.HasPrefix(pkg, w+"/") {
			return true
		}
	}
	return false
}

// TestChance: randomness that can be guessed is for jitter and for the simulation; secrets and names come from crypto/rand.
func TestChance(t *testing.T) {
	may := "internal/sim internal/store internal/announce internal/client internal/agent"
	eachFile(t, product, func(t *testing.T, f file) {
		if slices.Contains(f.imports, "math/rand/v2") && !inside(f.pkg, may) {
			t.Errorf("%s imports math/rand/v2: use crypto/rand, or say here why chance that can be guessed is enough", f.path)
		}
	})
}

// TestLanguageHasNoOutside: the rules can be read and tested without I/O, clock or goroutines.
func TestLanguageHasNoOutside(t *testing.T) {
	forbidden := []string{"net", "net/http", "os", "os/exec", "io/fs", "log", "log/slog", "sync", "encoding/json", "database/sql"}
	eachFile(t, func(f file) bool { return product(f) && slices.Contains([]string{"ha", "plan"}, room(f.pkg)) }, func(t *testing.T, f file) {
		for _, i := range f.imports {
			if slices.Contains(forbidden, i) {
				t.Errorf("%s imports %s: the language and the rules know no outside", f.path, i)
			}
		}
	})
}
