package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines: a longer file asks to be divided. Generated files and tests with tables are aside.
const maxLines = 450

func TestFilesAreShort(t *testing.T) {
	eachFile(t, func(f file) bool { return product(f) && !f.generated }, func(t *testing.T, f file) {
		if f.lines > maxLines {
			t.Errorf("%s has %d lines; divide it where its ideas part (at most %d)", f.path, f.lines, maxLines)
		}
	})
}

func TestNoRoomIsADrawer(t *testing.T) {
	drawers := []string{"util", "utils", "common", "helper", "helpers", "misc", "model", "models", "base"}
	eachFile(t, func(file) bool { return true }, func(t *testing.T, f file) {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		for _, n := range []string{name, f.ast.Name.Name} {
			if slices.Contains(drawers, n) {
				t.Errorf("%s: %s says nothing about what is inside", f.path, n)
			}
		}
	})
}

// panics are the places where product code may panic, and why.
var panics = map[string]string{
	"internal/wire/append.go":          "a body of wire's own types that cannot be encoded is a programming error",
	"internal/sim/simhttp/exchange.go": "http.ErrAbortHandler is the documented way to drop a connection",
}

// calls are what product code does not call, and where it may all the same.
var calls = []struct{ call, why, but string }{
	{"time.Sleep", "wait for an event, a state or a timer with a context", ""},
	{"os.Exit", "return; the command exits", "cmd/salvor"},
	{"log.Fatal", "return an error", ""}, {"log.Fatalf", "return an error", ""}, {"log.Fatalln", "return an error", ""},
	{"log.Printf", "log through slog", ""}, {"log.Println", "log through slog", ""}, {"log.Print", "log through slog", ""},
	{"fmt.Print", "write to the writer that was given", ""}, {"fmt.Printf", "write to the writer that was given", ""},
	{"fmt.Println", "write to the writer that was given", ""},
	{"http.Get", "use a client with a timeout", ""}, {"http.Post", "use a client with a timeout", ""},
	{"http.Head", "use a client with a timeout", ""}, {"http.PostForm", "use a client with a timeout", ""},
	{"http.ListenAndServe", "use a server with timeouts", ""}, {"http.HandleFunc", "no global mux", ""}, {"http.Handle", "no global mux", ""},
	{"context.TODO", "pass the caller's context", ""},
	{"context.Background", "pass the caller's context", "cmd internal/store/pgdriver.go"},
	{"slog.SetDefault", "pass the logger", "internal/cli"}, {"slog.Default", "pass the logger", "internal/api/config.go"},
	{"exec.Command", "use exec.CommandContext", ""},
}

func TestWhatProductCodeDoesNotCall(t *testing.T) {
	eachFile(t, product, func(t *testing.T, f file) {
		for _, fault := range callFaults(f) {
			t.Error(fault)
		}
	})
}

func callFaults(f file) []string {
	var faults []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" && panics[f.path] == "" {
			faults = append(faults, f.at(call)+": panic: return an error; for a programming error, add file and reason to this test")
		}
		name := selector(call.Fun)
		for _, c := range calls {
			if name == c.call && !inside(f.pkg, c.but) && !inside(f.path, c.but) {
				faults = append(faults, f.at(call)+": "+c.call+": "+c.why)
			}
		}
		return true
	})
	return faults
}

func TestForbiddenCallsAreSeen(t *testing.T) {
	source := "package x\nfunc f() { time.Sleep(1); if err := g(); err != nil { panic(err) }; go func() { fmt.Println(context.Background()) }() }\n"
	path := filepath.Join(t.TempDir(), "x.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := parse(path, "internal/x/x.go")
	if err != nil {
		t.Fatal(err)
	}
	if faults := callFaults(f); len(faults) != 4 {
		t.Errorf("%q", faults)
	}
}

// selector is "pkg.Name" of a call of another package's function.
func selector(fun ast.Expr) string {
	s, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name + "." + s.Sel.Name
}

// TestTagsStayInTheirRooms: column names exist in store only, the names of others' JSON in the rooms that speak to them.
func TestTagsStayInTheirRooms(t *testing.T) {
	where := map[string]string{
		"bun": "internal/store",
		"db":  "internal/store",
	}
	eachFile(t, product, func(t *testing.T, f file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			for key, rooms := range where {
				if strings.Contains(field.Tag.Value, key+`:"`) && !inside(f.pkg, rooms) {
					t.Errorf("%s: tag %s belongs to %s", f.at(field), key, rooms)
				}
			}
			return true
		})
	})
}

// TestSQLStaysInTheStore looks for statements in strings.
func TestSQLStaysInTheStore(t *testing.T) {
	statement := regexp.MustCompile(`(?s)^["` + "`" + `]\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|CREATE\s+TABLE\s)`)
	eachFile(t, product, func(t *testing.T, f file) {
		if inside(f.pkg, "internal/store") {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && statement.MatchString(lit.Value) {
				t.Errorf("%s: SQL lives in store", f.at(lit))
			}
			return true
		})
	})
}

// TestNothingIsLeftOpen: what is not done is an issue, not a comment.
func TestNothingIsLeftOpen(t *testing.T) {
	open := regexp.MustCompile(`\b(` + "TO" + `DO|` + "FIX" + `ME|` + "XX" + `X|` + "HA" + `CK)\b`)
	eachFile(t, func(f file) bool { return !f.generated }, func(t *testing.T, f file) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if open.MatchString(c.Text) {
					t.Errorf("%s: %s", f.at(c), c.Text)
				}
			}
		}
	})
}

// TestPackagesSayWhatTheyAre: every package has a comment, in one file.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	documented := map[string][]string{}
	eachFile(t, func(f file) bool { return !strings.HasSuffix(f.path, "_test.go") }, func(_ *testing.T, f file) {
		if f.ast.Doc != nil {
			documented[f.pkg] = append(documented[f.pkg], f.path)
		} else if _, ok := documented[f.pkg]; !ok {
			documented[f.pkg] = nil
		}
	})
	for pkg, files := range documented {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments %v; one file says what it is", pkg, len(files), files)
		}
	}
}
