package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzConfig: a configuration is read or refused with the name of its file; what
// was accepted is printed as something that says the same.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"", "clusterID: a\n", "xds: {address: 127.0.0.1:1, maxStreams: 5}\n", "discoverySelectors: [{matchLabels: {a: b}}]\n",
		"clusterUndoWindow: 1h\nlog: {level: debug}\n", "unknown: 1\n", "a: &a [*a]\n", "---\n---\n", "clusterUndoWindow: {}\n", "xds: null\n",
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := defaultConfig()
		if err := readConfig(path, &c); err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %v does not name the file", data, err)
			}
			return
		}
		if c.validate() != nil {
			return
		}
		text, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		again := defaultConfig()
		if err := readConfig(path, &again); err != nil {
			t.Fatalf("%q is printed as %s, which is refused: %v", data, text, err)
		}
		if second, err := yaml.Marshal(again); err != nil || string(second) != string(text) {
			t.Errorf("%q is printed as %s, and then as %s (%v)", data, text, second, err)
		}
	})
}

// FuzzIsManifestFile: it tells from any file whether it has objects.
func FuzzIsManifestFile(f *testing.F) {
	f.Add([]byte("# nothing\n---\nkind: Service\n"))
	f.Add([]byte("xds: {address: a}\n"))
	f.Add([]byte("a: [\nkind: x\n"))
	path := filepath.Join(f.TempDir(), "x.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = isManifestFile(path) // that it ends, and without a panic
	})
}
