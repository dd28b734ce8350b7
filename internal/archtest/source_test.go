package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/salvor-ha/salvor/"

// file is a parsed Go file of the module.
type file struct {
	path      string // from the module's root, with slashes
	pkg       string // folder, e.g. internal/sim/simhttp
	test      bool   // _test.go, or of a package that only tests use
	generated bool
	lines     int
	set       *token.FileSet
	ast       *ast.File
	imports   []string
}

// testOnly are packages that no product code may import: suites and helpers.
var testOnly = []string{"internal/testkit", "internal/store/storetest", "internal/archtest", "bench", "scripts", "test"}

func isTestOnly(pkg string) bool {
	for _, p := range testOnly {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}

// room returns the room of a package: nova of internal/nova, sim of internal/sim/simhttp, "" of what is in no room.
func room(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, "internal/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

var sources = sync.OnceValues(func() ([]file, error) {
	root := filepath.Join("..", "..")
	var all []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "tmp") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parse(p, name)
		if err != nil {
			return err
		}
		all = append(all, f)
		return nil
	})
	return all, err
})

func parse(p, name string) (file, error) {
	text, err := os.ReadFile(p)
	if err != nil {
		return file{}, err
	}
	f := file{path: name, pkg: path.Dir(name), set: token.NewFileSet(), lines: strings.Count(string(text), "\n")}
	f.ast, err = parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f.test = strings.HasSuffix(name, "_test.go") || isTestOnly(f.pkg)
	f.generated = ast.IsGenerated(f.ast)
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// eachFile calls check for every file that wanted picks.
func eachFile(t *testing.T, wanted func(file) bool, check func(t *testing.T, f file)) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found: is this the module's root?", len(all))
	}
	for _, f := range all {
		if wanted(f) {
			check(t, f)
		}
	}
}

func product(f file) bool { return !f.test }

// at is where a node stands.
func (f file) at(n ast.Node) string { return f.set.Position(n.Pos()).String() }
