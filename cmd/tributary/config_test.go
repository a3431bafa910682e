package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// config runs `tributary config` and returns what it prints, or why not.
func config(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := rootCommand()
	cmd.SetArgs(append([]string{"config"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

func TestConfigOfClusters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("clusterUndoWindow: 90s\nkubeconfigDir: /from/file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	misspelt := writeFile(t, t.TempDir(), "misspelt.yaml", "xds:\n  addr: x\nfoo: 1\n")
	for name, c := range map[string]struct {
		args []string
		want []string // in the output, or the error
		fail bool
	}{
		"defaults":          {nil, []string{"clusterUndoWindow: 10m0s\n", "kubeconfigDir: \"\"\n"}, false},
		"file":              {[]string{"--config", file}, []string{"clusterUndoWindow: 1m30s\n", "kubeconfigDir: /from/file\n"}, false},
		"flags win":         {[]string{"--config", file, "--cluster-undo-window", "0s", "--kubeconfig-dir", "/d"}, []string{"clusterUndoWindow: 0s\n", "kubeconfigDir: /d\n"}, false},
		"a negative window": {[]string{"--cluster-undo-window", "-1s"}, []string{"clusterUndoWindow: must not be negative"}, true},
		"no duration":       {[]string{"--cluster-undo-window", "10"}, []string{"cluster-undo-window"}, true},
		"no such settings":  {[]string{"--config", misspelt}, []string{misspelt, `line 2: there is no setting "addr"`, "\n  line 3: there is no setting \"foo\"", "config reference"}, true},
	} {
		out, err := config(c.args...)
		if c.fail != (err != nil) {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil {
			out = err.Error()
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in:\n%s", name, want, out)
			}
		}
	}
}
