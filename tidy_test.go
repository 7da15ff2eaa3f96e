package millrace_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// room is one row of the table of who may import whom. A package belongs to the row with the longest
// matching directory. A package may always import its own directory's packages below it.
type room struct {
	dir      string
	may      []string // directories of this module, each with what lies below it unless it ends in "/."
	packages []string // third-party modules and packages, as prefixes
	pure     bool     // decides only: no goroutine, clock, file or socket
}

// rooms says who may import whom, and who owns which third-party package. Tests may import more, see
// testPackages and testMay.
var rooms = []room{
	{dir: "perf", packages: []string{"golang.org/x/sys"}},
	{dir: "perf/fields", pure: true},
	{dir: "diskio", may: []string{"perf"}, packages: []string{"golang.org/x/sys"}},
	{dir: "diskio/disktest", may: []string{"diskio", "perf"}, packages: []string{pebble + "/vfs", "golang.org/x/sys"}},
	{dir: "diskio/lsm", packages: []string{pebble}},
	{dir: "netio", may: []string{"perf"}, packages: []string{"github.com/panjf2000/gnet/v2", "golang.org/x/sys"}},
	{dir: "engine", may: []string{"diskio/.", "diskio/lsm", "perf"}, packages: []string{pebble}},
	{dir: "engine/model", may: []string{"perf"}, pure: true},
	{dir: "meta", may: []string{"diskio/lsm", "engine/model", "perf"}, packages: []string{pebble, "go.etcd.io/raft/v3", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	{dir: "meta/cluster", may: []string{"engine/model", "meta/config", "perf/fields"}, packages: []string{"github.com/hashicorp/go-immutable-radix/v2"}, pure: true},
	{dir: "meta/config", may: []string{"engine/model"}, pure: true},
	{dir: "kafka", may: []string{"netio", "engine", "meta", "perf"}, packages: append(codecs(), kmsg...)},
	{dir: "kafka/recordbatch", may: []string{"engine/model", "perf"}, packages: codecs()},
	{dir: "kafka/group", may: []string{"engine/model", "perf"}, packages: kmsg, pure: true},
	{dir: "kafka/purgatory", may: []string{"engine/model", "perf"}, pure: true},
	{dir: "kafka/fetchsession", may: []string{"engine/model", "perf"}, pure: true},
	{dir: "kafka/group/assignor", may: []string{"engine/model"}, pure: true},
	{dir: "kafka/group/consumer", may: []string{"engine/model", "kafka/group/assignor", "perf/fields"}, packages: kmsg, pure: true},
	{dir: "bench", may: []string{"perf"}, packages: append([]string{"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/perf", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/sys"}, clients...)},
	{dir: "cmd", may: []string{"perf", "diskio/.", "netio", "engine", "meta", "kafka", "bench"}, packages: append([]string{
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/coreos/go-systemd", "github.com/prometheus", "golang.org/x/sys", "golang.org/x/term"}, clients...)},
	{dir: "cmd/broker/brokertest", may: []string{"perf", "diskio", "netio", "engine", "meta", "kafka", "cmd"}, packages: append(codecs(), clients...)},
	{dir: "", packages: nil},
}

const pebble = "github.com/cockroachdb/pebble/v2"

var (
	kmsg    = []string{"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kversion"}
	clients = []string{"github.com/twmb/franz-go"}
	// testPackages are for tests everywhere; testMay are rooms that hold test doubles.
	testPackages = []string{"go.uber.org/goleak", "github.com/cockroachdb/datadriven", "github.com/anishathalye/porcupine",
		"github.com/twmb/franz-go", pebble, "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/sys"}
	testMay = []string{"diskio", "perf"}
	// impure is what a package that only decides must do without.
	impure = []string{"os", "net/http", "net/rpc", "syscall", "io/fs", "database", "golang.org/x/sys"}
)

// codecs are the compression libraries, which only the wire side knows.
func codecs() []string {
	return []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}
}

// source is one parsed Go file.
type source struct {
	name string // slash-separated path from the root
	dir  string
	test bool
	file *ast.File
}

// sources parses every Go file below the root. It opens the files itself, so that the test's cached result
// is dropped when a file or a directory changes: what `go list` answers would be taken from the cache.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || base == "bin" || base == "data" || base == "tmp") {
				return filepath.SkipDir
			}
			if name != "." && exists(filepath.Join(name, "go.mod")) {
				return filepath.SkipDir // a module of its own, with its own dependencies
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		dir := path.Dir(slash)
		if dir == "." {
			dir = ""
		}
		all = append(all, source{name: slash, dir: dir, test: strings.HasSuffix(base, "_test.go"), file: parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return set, all
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestTidyImports enforces the table of rooms.
func TestTidyImports(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if rule := refuses(roomOf(s.dir), s, imported); rule != "" {
				t.Errorf("%s imports %s: %s", s.name, imported, rule)
			}
		}
	}
}

// TestTidyTable tries the table itself: what must be refused is refused.
func TestTidyTable(t *testing.T) {
	f := func(file, imported string, allowed bool) {
		t.Helper()
		s := source{name: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go")}
		if rule := refuses(roomOf(s.dir), s, imported); (rule == "") != allowed {
			t.Errorf("%s imports %s: got rule %q, want allowed %v", file, imported, rule, allowed)
		}
	}
	f("kafka/a.go", "millrace/engine", true)
	f("kafka/a.go", "millrace/engine/model", true)
	f("kafka/a.go", "millrace/diskio", false)
	f("kafka/a.go", "github.com/panjf2000/gnet/v2", false)
	f("kafka/a.go", "github.com/twmb/franz-go/pkg/kgo", false)
	f("kafka/a_test.go", "github.com/twmb/franz-go/pkg/kgo", true)
	f("kafka/a.go", "go.etcd.io/raft/v3", false)
	f("kafka/a.go", "unsafe", false)
	f("kafka/purgatory/a.go", "net/http", false)
	f("kafka/purgatory/a.go", "os", false)
	f("kafka/purgatory/a.go", "millrace/engine", false)
	f("engine/a.go", "millrace/kafka", false)
	f("engine/a.go", "millrace/meta/config", false)
	f("engine/a.go", "millrace/diskio/disktest", false)
	f("engine/a_test.go", "millrace/diskio/disktest", true)
	f("engine/a.go", "github.com/cockroachdb/pebble/v2/vfs", true)
	f("engine/model/a.go", "millrace/engine", false)
	f("meta/a.go", "millrace/engine/model", true)
	f("meta/a.go", "millrace/engine", false)
	f("meta/a.go", "millrace/meta/cluster", true)
	f("meta/cluster/a.go", "go.etcd.io/raft/v3", false)
	f("netio/a.go", "millrace/kafka", false)
	f("perf/a.go", "millrace/diskio", false)
	f("perf/a.go", "unsafe", true)
	f("diskio/a.go", "C", false)
	f("bench/a.go", "millrace/engine", false)
	f("cmd/cli/a.go", "github.com/spf13/cobra", true)
	f("cmd/cli/a.go", "go.etcd.io/raft/v3", false)
	f("netio/a.go", "millrace/cmd/cli", false)
}

// refuses returns the rule that an import breaks, or "".
func refuses(r room, s source, imported string) string {
	switch {
	case imported == "C":
		return "cgo is not used here"
	case imported == "unsafe" && !inside(s.dir, "diskio") && !inside(s.dir, "perf"):
		return "unsafe belongs to diskio and perf"
	case r.pure && !s.test && anyPrefix(impure, imported):
		return r.dir + " only decides: no file, socket or clock of its own"
	}
	if local, ok := strings.CutPrefix(imported, "millrace/"); ok {
		return refusesLocal(r, s, local)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if anyPrefix(r.packages, imported) || s.test && anyPrefix(testPackages, imported) {
		return ""
	}
	return fmt.Sprintf("%s may import of others only %s", name(r), list(r.packages))
}

func refusesLocal(r room, s source, local string) string {
	if s.dir != "" && inside(local, s.dir) {
		return "" // what lies below a package is its own
	}
	if s.test && (anyInside(testMay, local) || inside(local, r.dir)) {
		return ""
	}
	for _, may := range r.may {
		if exact, ok := strings.CutSuffix(may, "/."); ok {
			if local == exact {
				return ""
			}
		} else if inside(local, may) {
			return ""
		}
	}
	if inside(local, r.dir) && r.dir != "" && roomOf(local).dir == r.dir {
		return ""
	}
	return fmt.Sprintf("%s may import of this module only %s", name(r), list(r.may))
}

func roomOf(dir string) room {
	best := rooms[len(rooms)-1]
	for _, r := range rooms {
		if inside(dir, r.dir) && len(r.dir) > len(best.dir) {
			best = r
		}
	}
	return best
}

func inside(dir, of string) bool {
	return dir == of || strings.HasPrefix(dir, of+"/") || of == ""
}

func anyInside(of []string, dir string) bool {
	for _, o := range of {
		if inside(dir, o) {
			return true
		}
	}
	return false
}

func anyPrefix(prefixes []string, imported string) bool { return anyInside(prefixes, imported) }

func name(r room) string {
	if r.dir == "" {
		return "the root"
	}
	return r.dir
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

var (
	// clocks are what of package time looks at the clock.
	clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}
	// addresses are what of package net only takes texts apart.
	addresses = []string{"SplitHostPort", "JoinHostPort", "ParseIP", "ParseCIDR", "IP", "AddrError"}
)

// TestTidyPure keeps goroutines and the clock out of the packages that only decide.
func TestTidyPure(t *testing.T) {
	set, all := sources(t)
	for _, s := range all {
		if r := roomOf(s.dir); !r.pure || s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: %s only decides and starts no goroutine", set.Position(n.Pos()), s.dir)
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				switch {
				case ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name):
					t.Errorf("%s: %s only decides: the time comes in as an argument", set.Position(n.Pos()), s.dir)
				case ok && x.Name == "net" && !slices.Contains(addresses, n.Sel.Name):
					t.Errorf("%s: %s only decides and opens no socket", set.Position(n.Pos()), s.dir)
				}
			}
			return true
		})
	}
}

// TestTidyState refuses init functions and package variables that change: a variable is set where it is
// declared and never again. Tests and packages of test doubles are free.
func TestTidyState(t *testing.T) {
	set, all := sources(t)
	variables := map[string]map[string]bool{} // by directory and package
	free := func(s source) bool { return s.test || strings.HasSuffix(s.dir, "test") }
	for _, s := range all {
		if free(s) {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: no init functions: wire it where it is used", set.Position(d.Pos()))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if !ok || d.Tok != token.VAR {
						continue
					}
					if what := stateful(d, v); what != "" {
						t.Errorf("%s: package variable %s %s", set.Position(v.Pos()), v.Names[0].Name, what)
					}
					key := s.dir + " " + s.file.Name.Name
					if variables[key] == nil {
						variables[key] = map[string]bool{}
					}
					for _, n := range v.Names {
						variables[key][n.Name] = true
					}
				}
			}
		}
	}
	for _, s := range all {
		if free(s) {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				checkAssignments(t, set, f, variables[s.dir+" "+s.file.Name.Name])
			}
		}
	}
}

// stateful says why a package variable is state: it has no value where it is declared, or a type that is
// there to be changed.
func stateful(d *ast.GenDecl, v *ast.ValueSpec) string {
	embedded := d.Doc != nil && strings.Contains(commentText(d.Doc), "//go:embed") || v.Doc != nil && strings.Contains(commentText(v.Doc), "//go:embed")
	// A fixed array without a value is one of zeros to read from.
	array, ok := v.Type.(*ast.ArrayType)
	zeros := ok && array.Len != nil
	if len(v.Values) == 0 && !embedded && !zeros {
		return "has no value where it is declared, so it is state: keep it in a struct"
	}
	found := ""
	ast.Inspect(v, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			x, ok := sel.X.(*ast.Ident)
			if ok && (x.Name == "sync" || x.Name == "atomic") && !strings.HasPrefix(sel.Sel.Name, "Once") {
				found = "is state (" + x.Name + "." + sel.Sel.Name + "): keep it in a struct"
			}
		}
		_, function := n.(*ast.FuncLit)
		return !function
	})
	return found
}

func commentText(group *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range group.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// checkAssignments reports assignments to a package variable. Names that the function defines itself are
// taken for its own.
func checkAssignments(t *testing.T, set *token.FileSet, f *ast.FuncDecl, variables map[string]bool) {
	own := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					own[root(e)] = true
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				own[id.Name] = true
			}
		case *ast.Field:
			for _, id := range n.Names {
				own[id.Name] = true
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				own[root(n.Key)] = true
				own[root(n.Value)] = true
			}
		}
		return true
	})
	report := func(e ast.Expr) {
		if n := root(e); variables[n] && !own[n] {
			t.Errorf("%s: package variable %s is changed: keep state in a struct", set.Position(e.Pos()), n)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					report(e)
				}
			}
		case *ast.IncDecStmt:
			report(n.X)
		}
		return true
	})
}

// root is the variable that an assignable expression starts with.
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return ""
		}
	}
}
