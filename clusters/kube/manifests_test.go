package kube

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary/model"
)

// directory runs Manifests on a directory and keeps what the last snapshot said.
type directory struct {
	t       *testing.T
	path    string
	m       *Manifests
	batches chan model.Batch
	log     lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func runDirectory(t *testing.T, files map[string]string) *directory {
	t.Helper()
	d := &directory{t: t, path: t.TempDir(), batches: make(chan model.Batch, 100)}
	for name, text := range files {
		d.write(name, text)
	}
	d.m = NewManifests(ManifestsConfig{Source: testSource, Epoch: 1, Dir: d.path, Logger: slog.New(slog.NewTextHandler(&d.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- d.m.Run(ctx, func(_ context.Context, b model.Batch) error { d.batches <- b; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t)
	})
	return d
}

func (d *directory) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// snapshot returns the names in the next complete snapshot, as "kind/ns/name".
func (d *directory) snapshot() string {
	d.t.Helper()
	var out []string
	for k := range model.Kinds {
		select {
		case b := <-d.batches:
			if b.Kind != k || !b.SnapshotStart || !b.SnapshotEnd || b.Epoch != 1 || b.Source != testSource {
				d.t.Fatalf("batch %+v", b)
			}
			for _, s := range b.Services {
				out = append(out, "svc/"+s.Key.Namespace+"/"+s.Name)
			}
			for _, s := range b.Slices {
				out = append(out, "slice/"+s.Object.String())
			}
			for _, w := range b.Workloads {
				out = append(out, "pod/"+w.Identity.Namespace+"/"+w.Name)
			}
		case <-time.After(10 * time.Second):
			d.t.Fatalf("no snapshot; log:\n%s", d.log.String())
		}
	}
	return strings.Join(out, " ")
}

// until waits for a snapshot that reads like want. One change of a file may
// make several, as it is no single step.
func (d *directory) until(want string) {
	d.t.Helper()
	for {
		if got := d.snapshot(); got == want {
			return
		} else {
			d.t.Logf("got %q", got)
		}
	}
}

// eventually waits for what has no event of its own.
func (d *directory) eventually(what string, ok func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("%s; log:\n%s", what, d.log.String())
		}
	}
}

const (
	webYAML = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n"
	podYAML = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0, namespace: shop}\nstatus: {podIP: 10.0.0.1}\n"
)

func TestManifests(t *testing.T) {
	d := runDirectory(t, map[string]string{
		"a.yaml": "# a comment\n---\n" + webYAML + "---\n# nothing\n---\n" + podYAML +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n",
		"b.yml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: plain}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x}\n",
		"c.json": `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList","items":[{"metadata":{"name":"web-1","namespace":"shop","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}]}]}
			{"apiVersion":"v1","kind":"Pod","metadata":{"name":"second"}}`,
		"notes.txt": "kind: [", ".hidden.yaml": "kind: [",
	})
	const all = "svc/default/plain svc/shop/web slice/shop/web-1 pod/default/second pod/shop/web-0"
	if got := d.snapshot(); got != all {
		t.Errorf("snapshot %q", got)
	}
	if n := strings.Count(d.log.String(), "example.com/v1 Thing"); n != 1 {
		t.Errorf("the unknown kind was told %d times:\n%s", n, d.log.String())
	}
	if h := d.m.Health(); h.Kinds[0].Trouble != model.NoTrouble || h.Kinds[0].LastEvent.IsZero() {
		t.Errorf("health %+v", h)
	}

	// A broken file keeps what it said, and others go on.
	d.write("a.yaml", webYAML+"---\nkind: [\n")
	d.eventually("the broken file was not noticed", func() bool {
		h := d.m.Health()
		return h.Kinds[0].Trouble == model.Faulty
	})
	h := d.m.Health()
	if _, worst := h.Worst(); !strings.Contains(worst.Detail, "a.yaml: document 2") || worst.Errors == 0 {
		t.Errorf("health %+v", worst)
	}
	if log := d.log.String(); !strings.Contains(log, filepath.Join(d.path, "a.yaml")) || !strings.Contains(log, "document 2") {
		t.Errorf("log %s", log)
	}
	d.write("d.yaml", strings.ReplaceAll(webYAML, "web", "more"))
	d.until("svc/default/plain svc/shop/more svc/shop/web slice/shop/web-1 pod/default/second pod/shop/web-0")

	// Repaired, without the pod; and a file that goes.
	d.write("a.yaml", webYAML)
	d.until("svc/default/plain svc/shop/more svc/shop/web slice/shop/web-1 pod/default/second")
	if h := d.m.Health(); h.Kinds[0].Trouble != model.NoTrouble || h.Kinds[0].Detail != "" {
		t.Errorf("health %+v", h.Kinds[0])
	}
	if err := os.Remove(filepath.Join(d.path, "c.json")); err != nil {
		t.Fatal(err)
	}
	d.until("svc/default/plain svc/shop/more svc/shop/web")

	// The directory goes: unknown is not empty.
	if err := os.Rename(d.path, d.path+"-away"); err != nil {
		t.Fatal(err)
	}
	d.eventually("the missing directory was not noticed", func() bool {
		h := d.m.Health()
		return h.Kinds[0].Trouble == model.Unreachable
	})
	if err := os.Rename(d.path+"-away", d.path); err != nil {
		t.Fatal(err)
	}
	d.eventually("the directory was not found again", func() bool {
		h := d.m.Health()
		return h.Kinds[0].Trouble == model.NoTrouble
	})
	select {
	case b := <-d.batches:
		t.Errorf("nothing changed, but %+v was said", b)
	default:
	}
}

func TestManifestsLaterFileWins(t *testing.T) {
	d := runDirectory(t, map[string]string{
		"1.yaml": strings.ReplaceAll(webYAML, "80", "81"),
		"2.yaml": webYAML,
	})
	b := <-d.batches
	if len(b.Services) != 1 || b.Services[0].Ports[0].Number != 80 {
		t.Errorf("services %+v", b.Services)
	}
	d.eventually("it was not told", func() bool {
		return strings.Contains(d.log.String(), `ignored="1.yaml document 1" used="2.yaml document 1"`)
	})
}

func TestManifestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Service\n":                 "document 1: not a Kubernetes object",
		"[1]\n":                           "document 1: not a Kubernetes object",
		"apiVersion: v1\nkind: Service\n": "no metadata.name",
		webYAML + "---\n" + webYAML + "---\n}{\n":                                            "document 3",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: [1]}\n":                                 "decoding a Pod",
		"apiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n":                                 "item 0 of the list",
		"apiVersion: v1\nkind: PodList\nitems: [{spec: {}}]}":                                "document 1",
		strings.Repeat("{apiVersion: v1, kind: List, items: [", 6) + strings.Repeat("]}", 6): "nested too deep",
	} {
		_, err := parseManifest("x.yaml", []byte(text), newConverter(testSource, ""))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add("x.yaml", []byte(webYAML+"---\n"+podYAML))
	f.Add("x.json", []byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}`))
	c := newConverter(testSource, "")
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		m, err := parseManifest(name, data, c)
		if (m == nil) != (err != nil) {
			t.Errorf("manifest %v with error %v", m, err)
		}
		if m == nil {
			return
		}
		for _, r := range m.rows {
			if r.name.Name == "" || r.name.Namespace == "" || r.document < 1 {
				t.Errorf("row %+v", r)
			}
		}
	})
}
