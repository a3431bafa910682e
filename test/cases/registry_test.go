package cases

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/aggregate"
	"tributary/clusters/kube"
	"tributary/model"
	"tributary/shards"
)

var update = flag.Bool("update", false, "write what the registry makes of the cases")

func TestRegistry(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			a := parse(string(data))
			play(t, a)
			if got := a.String(); *update && got != string(data) {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// archive is a text followed by named files.
type archive struct {
	comment string
	files   []file
}

type file struct{ name, data string }

var marker = regexp.MustCompile(`(?m)^-- (.+) --\n`)

func parse(text string) *archive {
	at := marker.FindAllStringSubmatchIndex(text, -1)
	a := &archive{comment: text}
	for i, m := range at {
		if i == 0 {
			a.comment = text[:m[0]]
		}
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		a.files = append(a.files, file{text[m[2]:m[3]], text[m[1]:end]})
	}
	return a
}

func (a *archive) String() string {
	var b strings.Builder
	b.WriteString(a.comment)
	for _, f := range a.files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.name, f.data)
	}
	return b.String()
}

// fleet is the registry and the directories that play its clusters.
type fleet struct {
	t        *testing.T
	dir      string
	clusters []model.ClusterID
	core     *aggregate.Aggregator
	store    *shards.Store
	seen     uint64 // revision after the last step
	now      time.Time
}

func play(t *testing.T, a *archive) {
	f := &fleet{t: t, dir: t.TempDir(), store: shards.NewStore(10), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var rules kube.Rules
	f.core = aggregate.New("hub", func(source model.ShardKey) aggregate.Registry {
		return kube.NewRegistry(source.Cluster, rules, f.core.WorkloadEntries)
	})
	for i := range a.files {
		part := &a.files[i]
		step, rest, _ := strings.Cut(part.name, "/")
		cluster, name, isFile := strings.Cut(rest, "/")
		switch {
		case step == "discovery":
			rules.Discovery = selectors(t, part.data)
		case rest == "want":
			got := f.step()
			if *update {
				part.data = got
			} else if d := cmp.Diff(part.data, got); d != "" {
				t.Errorf("step %s: -want +got\n%s", step, d)
			}
		case isFile && name == "removed":
			f.remove(model.ClusterID(cluster))
		case isFile:
			f.write(model.ClusterID(cluster), name, part.data)
		default:
			t.Fatalf("nobody knows what to do with %s", part.name)
		}
	}
}

func selectors(t *testing.T, lines string) kube.Selectors {
	var list []metav1.LabelSelector
	for line := range strings.Lines(lines) {
		s, err := metav1.ParseToLabelSelector(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, *s)
	}
	s, err := kube.ParseSelectors(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fleet) write(cluster model.ClusterID, name, data string) {
	dir := filepath.Join(f.dir, string(cluster))
	if !slices.Contains(f.clusters, cluster) {
		f.clusters = append(f.clusters, cluster)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	if strings.TrimSpace(data) == "" {
		if err := os.Remove(path); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) remove(cluster model.ClusterID) {
	f.clusters = slices.DeleteFunc(f.clusters, func(c model.ClusterID) bool { return c == cluster })
	f.store.Apply(f.core.Round(f.now, []model.Batch{{Source: shard(cluster), Epoch: 1, Removed: true}}))
}

func shard(cluster model.ClusterID) model.ShardKey {
	return model.ShardKey{Provider: model.Kubernetes, Cluster: cluster}
}

// step reads all directories, lets every hold end and returns the registry.
func (f *fleet) step() string {
	before := f.seen
	for _, c := range f.clusters {
		f.store.Apply(f.core.Round(f.now, f.read(c)))
	}
	f.now = f.now.Add(time.Minute)
	f.store.Apply(f.core.Round(f.now, nil))
	var b strings.Builder
	snapshot := f.store.Load()
	f.seen = snapshot.Revision
	for svc := range snapshot.Since(before) {
		push := model.EndpointsPush
		if svc.DefinitionRevision > before {
			push = model.ServicePush
		}
		fmt.Fprintf(&b, "push %v %s\n", push, svc.Key.Host)
	}
	for svc := range snapshot.Services() {
		b.WriteString(text(snapshot, svc))
	}
	return b.String()
}

// read returns all that a directory says.
func (f *fleet) read(c model.ClusterID) (batches []model.Batch) {
	source := kube.NewManifests(kube.ManifestsConfig{
		Source: shard(c), Epoch: 1, Dir: filepath.Join(f.dir, string(c)), Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	err := source.Run(ctx, func(_ context.Context, b model.Batch) error {
		if batches = append(batches, b); len(batches) == int(model.Kinds) {
			cancel()
		}
		return nil
	})
	h := source.Health()
	if _, worst := h.Worst(); err != nil || worst.Trouble != model.NoTrouble {
		f.t.Fatalf("reading cluster %s: %v %s", c, err, worst.Detail)
	}
	return batches
}

// text renders a service as people read it.
func text(snapshot *shards.Snapshot, svc *shards.Service) string {
	var b strings.Builder
	d := svc.Definition
	fmt.Fprintf(&b, "%s %v", svc.Key.Host, d.Resolution)
	if d.Resolution == model.Alias {
		fmt.Fprintf(&b, " of %s", d.AliasOf())
	}
	if v := d.Visibility(); v != model.Everywhere {
		fmt.Fprintf(&b, ", shown %v", v)
	}
	if d.NodeLocal() {
		b.WriteString(", node local")
	}
	b.WriteString("\n")
	for _, a := range snapshot.Aliases(svc.Key.Host) {
		fmt.Fprintf(&b, "  alias %s\n", a.Key.Host)
	}
	for _, v := range d.VIPs {
		fmt.Fprintf(&b, "  addresses in %s: %v", v.Cluster, v.VIPs)
		if len(v.External) > 0 {
			fmt.Fprintf(&b, ", from outside %v", v.External)
		}
		b.WriteString("\n")
	}
	if len(d.Accounts) > 0 {
		fmt.Fprintf(&b, "  accounts %v\n", d.Accounts)
	}
	for _, c := range d.Conflicts {
		fmt.Fprintf(&b, "  conflict %s, %v before %v: %s\n", c.Field, c.Winner, c.Loser, c.Detail)
	}
	for _, p := range d.Ports {
		fmt.Fprintf(&b, "  port %d %s %v\n", p.Number, p.Name, p.Protocol)
		for c := range svc.Candidates(p) {
			fmt.Fprintf(&b, "    %s %s:%d%s\n", c.Shard.Cluster, c.Endpoint.Addr, c.Port, endpointText(c))
		}
	}
	return b.String()
}

func endpointText(c shards.Candidate) string {
	var b strings.Builder
	if more := c.Additional(); len(more) > 0 {
		fmt.Fprintf(&b, " and %v", more)
	}
	f := c.Endpoint.Flags
	switch {
	case c.Served():
	case c.Shadowed:
		b.WriteString(" shadowed")
	case f&model.EndpointMissing != 0:
		b.WriteString(" held, pod unknown")
	case f&model.EndpointFinished != 0:
		b.WriteString(" held, pod finished")
	case f&model.EndpointTerminating != 0:
		b.WriteString(" terminating")
	default:
		b.WriteString(" not ready")
	}
	if l := c.Slice.Where(c.Endpoint); l != "" {
		fmt.Fprintf(&b, " at %s", l)
	}
	if w := c.Endpoint.Workload; w != nil {
		fmt.Fprintf(&b, " pod %s", w.Name)
		if w.Placement != nil && w.Placement.Network != "" {
			fmt.Fprintf(&b, " network %s", w.Placement.Network)
		}
		for k, v := range w.Labels.All() {
			fmt.Fprintf(&b, " %s=%s", k, v)
		}
	}
	return b.String()
}
