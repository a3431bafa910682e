package clusters

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/model"
)

// fileOf writes a kubeconfig for a cluster of that name.
func fileOf(name, token string) string {
	return strings.NewReplacer("cluster: b", "cluster: '"+name+"'", "name: b", "name: '"+name+"'").Replace(goodKubeconfig(token))
}

func TestClusterOfAKubeconfigFile(t *testing.T) {
	const clusters = "clusters: [{name: b, cluster: {server: 'https://b'}}, {name: a, cluster: {server: 'https://a'}}]\n" +
		"users: [{name: u, user: {token: t}}]\n"
	for name, c := range map[string]struct{ in, id, server, err string }{
		"current context": {"current-context: q\ncontexts: [{name: x, context: {cluster: b, user: u}}, {name: q, context: {cluster: a, user: u}}]\n" + clusters, "a", "https://a", ""},
		"first context":   {"contexts: [{name: q, context: {cluster: b, user: u}}, {name: x, context: {cluster: a, user: u}}]\n" + clusters, "b", "https://b", ""},
		"first cluster":   {clusters, "b", "", "it has no context"},
		"missing context": {"current-context: z\ncontexts: [{name: x, context: {cluster: a, user: u}}]\n" + clusters, "b", "", "a context that is not there"},
		"missing cluster": {"current-context: x\ncontexts: [{name: x, context: {cluster: z, user: u}}]\n" + clusters, "z", "", "a cluster that is not there"},
		"nothing":         {"", "", "", "no cluster is named"},
		"no YAML":         {"a: [" + secretToken, "", "", "does not parse"},
		"cloud":           {fileOf("arn:aws:eks:eu-west-1:1:cluster/x", "t"), "arn:aws:eks:eu-west-1:1:cluster/x", "https://example.com:6443", ""},
		"line break":      {fileOf(`x" "y`, "t"), "", "", "characters that an ID cannot have"},
		"markup":          {fileOf("<script>", "t"), "", "", "characters that an ID cannot have"},
		"exec":            {strings.Replace(fileOf("x", "t"), "token: 't'", "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}", 1), "x", "", "exec is not allowed"},
		"huge":            {goodKubeconfig("t") + "#" + strings.Repeat("x", maxKubeconfig), "", "", "larger than 1024 KiB"},
		"JSON": {`{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "a", "user": "u"}}],
			"clusters": [{"name": "a", "cluster": {"server": "https://a"}}], "users": [{"name": "u", "user": {"token": "t"}}]}`, "a", "https://a", ""},
	} {
		id, config, err := parseKubeconfigFile([]byte(c.in), false)
		switch {
		case string(id) != c.id, (err == nil) != (c.err == ""), err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s: ID %q, error %v; want %q and %q", name, id, err, c.id, c.err)
		case err == nil && config.Host != c.server:
			t.Errorf("%s: server %s, want %s", name, config.Host, c.server)
		}
		if err != nil && strings.Contains(err.Error(), secretToken) {
			t.Errorf("%s: the error tells a part of the file: %v", name, err)
		}
	}
}

func FuzzParseKubeconfigFile(f *testing.F) {
	f.Add([]byte(fileOf("east", "t")))
	f.Add([]byte(strings.Replace(fileOf("east", "t"), "current-context: a", "", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, config, err := parseKubeconfigFile(data, false)
		if err == nil && (id == "" || config == nil) {
			t.Errorf("ID %q, config %v and no error", id, config)
		}
		if id != "" && (len(id) > 253 || strings.ContainsAny(string(id), " \n\"<>&")) {
			t.Errorf("ID %q", id)
		}
	})
}

// directory is a directory of kubeconfigs and what follows from it.
type directory struct {
	t *testing.T
	f *files
}

func (d *directory) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.f.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// expect looks at the directory and compares who owns what, and what is refused.
func (d *directory) expect(what, want string) {
	d.t.Helper()
	d.f.look()
	claims, listed, err := d.f.snapshot()
	if !listed || err != nil {
		d.t.Fatalf("%s: listed %v, error %v", what, listed, err)
	}
	m := membership{own: "config", fixed: []claim{{id: "config", kind: Local}}, files: claims}
	if got := strings.ReplaceAll(show(m.grant()), d.f.dir+"/", ""); strings.TrimSpace(got) != strings.TrimSpace(want) {
		d.t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func TestDirectoryOfKubeconfigs(t *testing.T) {
	d := &directory{t, &files{dir: t.TempDir(), changed: func() {}}}
	d.write("1.yaml", fileOf("east", "a"))
	d.write("2", fileOf("west", "a"))
	d.write(".hidden", fileOf("hidden", "a"))
	if err := os.Mkdir(filepath.Join(d.f.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(d.f.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	const well = "config: local\neast: file 1.yaml\nwest: file 2\n"
	const pipe = "invalid  file pipe: kubeconfig in file pipe: it is not a regular file\n"
	d.expect("at first", well+pipe)

	d.write("0", fileOf("east", "b"))
	d.write("3", fileOf("config", "a"))
	d.write("README", "clusters for the operator")
	d.expect("taken IDs and a file that is none", `
config: local
east: file 0
west: file 2
invalid  file README: kubeconfig in file README: it does not parse as a kubeconfig
`+pipe+`conflict config file 3: the cluster ID belongs to the local cluster
conflict east file 1.yaml: the cluster ID belongs to file 0`)
	for _, name := range []string{"0", "3", "README", "pipe"} {
		if err := os.Remove(filepath.Join(d.f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	d.expect("the owner goes", well)

	// A file that breaks is still the claim that it was, in vain.
	d.write("2", "half of a fi: [")
	d.expect("broken", well+"invalid west file 2: kubeconfig in file 2: it does not parse as a kubeconfig (line 1)\n")
	d.write("2", "half of a fi: [")
	d.expect("and looked at again", well+"invalid west file 2: kubeconfig in file 2: it does not parse as a kubeconfig (line 1)\n")
	d.write("2", fileOf("west", "a"))
	d.expect("repaired", well)

	// A mounted secret: links into a directory that is exchanged as a whole.
	mounted := &directory{t, &files{dir: t.TempDir(), changed: func() {}}}
	inside := func(path ...string) string { return filepath.Join(append([]string{mounted.f.dir}, path...)...) }
	for i, token := range []string{"a", "b"} {
		version := fmt.Sprint("..v", i)
		if err := os.Mkdir(inside(version), 0o700); err != nil {
			t.Fatal(err)
		}
		mounted.write(version+"/east", fileOf("east", token))
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, inside("..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(inside("..new"), inside(name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v0", "..data")
	link("..data/east", "east")
	mounted.expect("mounted", "config: local\neast: file east\n")
	before, _, _ := mounted.f.snapshot()
	link("..v1", "..data")
	mounted.expect("exchanged", "config: local\neast: file east\n")
	if after, _, _ := mounted.f.snapshot(); after[0].sum == before[0].sum || after[0].config.BearerToken != "b" {
		t.Error("the new credential was not read")
	}

	// A directory that cannot be read tells nothing.
	if err := os.Rename(d.f.dir, d.f.dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	d.f.look()
	if claims, listed, err := d.f.snapshot(); len(claims) != 2 || !listed || err == nil {
		t.Errorf("%d claims, listed %v, error %v", len(claims), listed, err)
	}
}

// Files are followed while they change: an edit is a rotation, another name with
// the same content nothing, a file that goes a removal.
func TestFilesAreFollowed(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := &directory{t, &files{dir: t.TempDir()}}
	d.write("east", fileOf("east", secretToken))
	var log lockedBuffer
	happened := make(chan string, 100)
	m, err := New(Options{
		KubeconfigDir: d.f.dir, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NewRunner: func(s Spec) (Runner, error) { return &echo{s, happened}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(ctx, func(_ context.Context, b model.Batch) error {
			if b.Removed {
				happened <- "removed " + string(b.Source.Cluster)
			} else {
				m.Synced(model.Synced{Source: b.Source, Epoch: b.Epoch})
			}
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-happened:
			if got != want {
				t.Errorf("happened: %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not happen; log:\n%s", want, log.String())
		}
	}
	expect("start east in ")
	if err := m.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	d.write("east", fileOf("east", "b"))
	expect("start east in ")
	expect("end east")
	if err := os.Rename(filepath.Join(d.f.dir, "east"), filepath.Join(d.f.dir, "renamed")); err != nil {
		t.Fatal(err)
	}
	d.write("west", fileOf("west", secretToken))
	expect("start west in ")
	if l := m.List(); len(l) != 2 || l[0].File != filepath.Join(d.f.dir, "renamed") || l[0].Epoch != 2 || l[0].Type != "remote" {
		t.Errorf("clusters %+v", l)
	}
	d.write("renamed", "x: ["+secretToken)
	d.write("west", "")
	if err := os.Remove(filepath.Join(d.f.dir, "west")); err != nil {
		t.Fatal(err)
	}
	expect("end west")
	expect("removed west")
	cancel()
	expect("end east")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String() + fmt.Sprintf("%+v", m.List()); strings.Contains(text, secretToken) {
		t.Errorf("a credential is told:\n%s", text)
	}
	if bytes.Count([]byte(log.String()), []byte("cluster removed")) != 1 {
		t.Errorf("log:\n%s", log.String())
	}
}
