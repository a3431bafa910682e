// Package tributary_test pins the structure of the repository: which package
// may import which.
package tributary_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed lists, for each package, the packages of ours that it may import. A
// package that is not listed here, or an import that is not, fails the test: the
// layout is changed here first, and on purpose.
var allowed = map[string]string{
	"model":             "",
	"internal/table":    "",
	"internal/dirwatch": "",
	"clusters":          "model internal/dirwatch",
	"clusters/kube":     "model internal/table internal/dirwatch",
	"aggregate":         "model",
	"shards":            "model internal/table",
	"push":              "shards",
	"xds":               "model shards",
	"xds/bootstrap":     "",
	"debug":             "model shards clusters xds",
	"debug/sample":      "model shards clusters xds debug",
	"cmd/tributary":     "model clusters clusters/kube aggregate shards push xds xds/bootstrap debug",
}

// forbidden lists what a package must not reach, even through others: the core
// knows no protobuf, Kubernetes, etcd or Envoy.
var forbidden = map[string][]string{
	"aggregate": {"google.golang.org/", "k8s.io/", "go.etcd.io/", "github.com/envoyproxy/"},
	"model":     {"google.golang.org/", "k8s.io/", "go.etcd.io/", "github.com/envoyproxy/"},
	"shards":    {"google.golang.org/", "k8s.io/api", "k8s.io/client-go", "go.etcd.io/", "github.com/envoyproxy/"},
}

func list(t *testing.T, format, pattern string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", format, pattern).CombinedOutput()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", pattern, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImports(t *testing.T) {
	for _, line := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], "tributary/")
		if pkg == "tributary" || strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "examples/") || pkg == "internal/corebench" {
			continue // programs and the harness may use everything
		}
		may, known := allowed[pkg]
		if !known {
			t.Errorf("package %s has no place in the layout: add it to the list in this test", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			ours, is := strings.CutPrefix(imp, "tributary/")
			if is && !slices.Contains(strings.Fields(may), ours) {
				t.Errorf("package %s imports %s; it may import: %s", pkg, ours, may)
			}
		}
	}
}

func TestCoreKnowsNoWireFormats(t *testing.T) {
	for pkg, prefixes := range forbidden {
		for _, dep := range list(t, `{{join .Deps "\n"}}`, "./"+pkg) {
			for _, prefix := range prefixes {
				if strings.HasPrefix(dep, prefix) {
					t.Errorf("package %s depends on %s", pkg, dep)
				}
			}
		}
	}
}

// Every package says in its doc comment what it is.
func TestPackageComments(t *testing.T) {
	for _, line := range list(t, `{{.ImportPath}}|{{.Doc}}|{{len .GoFiles}}`, "./...") {
		if f := strings.SplitN(line, "|", 3); len(f) == 3 && f[1] == "" && !strings.HasSuffix(line, "|0") {
			t.Errorf("package %s has no doc comment", f[0])
		}
	}
}
