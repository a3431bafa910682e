package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateExamples(t *testing.T) {
	out, err := tributary(t, "validate", filepath.Join("..", "..", "examples", "fleet"), filepath.Join("..", "..", "examples", "rbac"))
	if err != nil || !strings.Contains(out, "0 configurations, 3 clusters with") || !strings.Contains(out, "0 errors, 0 warnings") {
		t.Errorf("%v:\n%s", err, out)
	}
	dir := t.TempDir()
	reference, err := tributary(t, "config", "reference")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tributary(t, "validate", writeFile(t, dir, "config.yaml", reference)); err != nil || out != "1 configuration, 0 clusters with 0 objects: 0 errors, 0 warnings\n" {
		t.Errorf("the reference: %v:\n%s", err, out)
	}
}

const shop = `apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: http, port: PORT}]}
`

func TestValidateFinds(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string // below the directory that is checked, or the files that are
		args  []string
		want  []string // lines, with DIR for the directory
	}{
		"an unknown setting": {map[string]string{"c.yaml": "clusterID: a\nxds:\n  addr: x\n"}, []string{"c.yaml"},
			[]string{`error: DIR/c.yaml: addr: line 3: there is no such setting; "tributary config reference" lists them`, "1 configuration, 0 clusters with 0 objects: 1 error, 0 warnings"}},
		"wrong settings": {map[string]string{"c.yaml": "xds: {address: 'x', maxStreams: 0}\nfleet: /no/such\n"}, []string{"c.yaml"},
			[]string{`error: DIR/c.yaml: xds.address: "x" is not HOST:PORT`, "error: DIR/c.yaml: xds.maxStreams: must be at least 1, not 0", "warning: DIR/c.yaml: fleet: it is not there on this machine"}},
		"no YAML":            {map[string]string{"c.yaml": "a: ["}, []string{"c.yaml"}, []string{"error: DIR/c.yaml: yaml: line 1"}},
		"a wrong type":       {map[string]string{"c.yaml": "xds: {maxStreams: many}"}, []string{"c.yaml"}, []string{"error: DIR/c.yaml: line 1: cannot unmarshal"}},
		"no duration":        {map[string]string{"c.yaml": "\nsyncTimeout: 10"}, []string{"c.yaml"}, []string{"error: DIR/c.yaml: line 2:"}},
		"two documents":      {map[string]string{"c.yaml": "clusterID: a\n---\nclusterID: b\n"}, []string{"c.yaml"}, []string{"error: DIR/c.yaml: line 2: it has a second document"}},
		"nothing there":      {nil, []string{"gone.yaml"}, []string{"error: DIR/gone.yaml: "}},
		"an empty directory": {map[string]string{"d/notes.txt": ""}, []string{"d"}, []string{"warning: DIR/d: there are no manifests in it"}},
		"manifests as files": {map[string]string{"a.yaml": strings.ReplaceAll(shop, "PORT", "80"), "b.yaml": "kind: Service\n"}, []string{"a.yaml", "b.yaml"},
			[]string{"error: DIR/b.yaml: document 1: not a Kubernetes object: apiVersion or kind is missing", "0 configurations, 1 cluster with 1 object: 1 error, 0 warnings"}},
		"a cluster": {map[string]string{"d/a.yaml": strings.ReplaceAll(shop, "PORT", "0"), "d/more/b.yaml": ""}, []string{"d"},
			[]string{`error: DIR/d/a.yaml: document 1: Service shop/cart: spec.ports[0]: {"name":"http","port":0,`, "warning: DIR/d/more: it is not read, since there are manifests beside it"}},
		"a fleet that disagrees": {map[string]string{"f/east/a.yaml": strings.ReplaceAll(shop, "PORT", "80"), "f/west/a.yaml": strings.ReplaceAll(shop, "PORT", "81"), "f/a b/c.yaml": ""}, []string{"f"},
			[]string{"warning: DIR/f/a b: it is ignored: its name cannot be a cluster ID", "warning: DIR/f/west/a.yaml: document 1: Service shop/cart: port 81/http: east defines it in another way, and wins: 80/http HTTP, not 81/http HTTP", "2 clusters with 2 objects: 0 errors, 2 warnings"}},
		"a host given twice": {map[string]string{"d/a.yaml": strings.ReplaceAll(shop, "PORT", "80"), "d/b.yaml": strings.ReplaceAll(shop, "PORT", "80")}, []string{"d"},
			[]string{"warning: DIR/d/a.yaml: document 1: Service shop/cart: it is given again in DIR/d/b.yaml, document 1, which counts"}},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			writeFile(t, dir, file, text)
		}
		args := []string{"validate"}
		for _, a := range c.args {
			args = append(args, filepath.Join(dir, a))
		}
		out, err := tributary(t, args...)
		out = strings.ReplaceAll(out, dir, "DIR")
		failed := false
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
			failed = failed || strings.HasPrefix(want, "error:")
		}
		var code interface{ ExitCode() int }
		if failed != (err != nil) || failed && (!errors.As(err, &code) || code.ExitCode() != 1) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestValidateJSON(t *testing.T) {
	dir := t.TempDir()
	out, err := tributary(t, "validate", "-o", "json", writeFile(t, dir, "a.yaml", strings.ReplaceAll(shop, "PORT", "0")))
	if err == nil {
		t.Error("no error")
	}
	var v struct {
		Errors   []map[string]any
		Warnings []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Errors) != 1 || v.Warnings == nil || v.Errors[0]["field"] != "spec.ports[0]" || v.Errors[0]["document"] != 1.0 {
		t.Errorf("%v %+v\n%s", err, v, out)
	}
	if _, err := tributary(t, "validate"); err == nil {
		t.Error("nothing is named, and that is right")
	}
}
