package aggregate_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary/aggregate"
	"tributary/model"
)

// wired is a registry that only writes down what it is told.
type wired struct {
	key             model.ShardKey
	rows            map[string][]*model.WorkloadInstance // by namespace
	told            []string
	workloadHandler model.WorkloadHandler
	selectorHandler func(string, bool)
	closed          bool
}

func (r *wired) Apply(b *model.Batch) {
	for _, w := range b.Workloads {
		ns := w.Identity.Namespace
		r.rows[ns] = append(r.rows[ns], w)
		r.workloadHandler(nil, w)
	}
}
func (r *wired) Derive(time.Time, model.XDSUpdater)              {}
func (r *wired) Next() time.Time                                 { return time.Time{} }
func (r *wired) Synced() (model.Synced, bool)                    { return model.Synced{}, false }
func (r *wired) AppendWorkloadHandler(h model.WorkloadHandler)   { r.workloadHandler = h }
func (r *wired) AppendSelectorHandler(h func(ns string, s bool)) { r.selectorHandler = h }
func (r *wired) Workloads(ns string) iter.Seq[*model.WorkloadInstance] {
	return slices.Values(r.rows[ns])
}
func (r *wired) Close() {
	for ns, rows := range r.rows {
		delete(r.rows, ns)
		for _, w := range rows {
			r.workloadHandler(w, nil)
		}
	}
	r.selectorHandler("n1", false)
	r.closed = true
}
func (r *wired) WorkloadInstanceHandler(old, new *model.WorkloadInstance) {
	name := func(w *model.WorkloadInstance) string {
		if w == nil {
			return "-"
		}
		return fmt.Sprintf("%s/%s", w.Identity.Cluster, w.Name)
	}
	r.told = append(r.told, name(old)+">"+name(new))
}

func (r *wired) take() string {
	slices.Sort(r.told)
	s := strings.Join(r.told, " ")
	r.told = nil
	return s
}

type wiring struct {
	*aggregate.Aggregator
	registries map[model.ShardKey]*wired
}

func newWiring() *wiring {
	w := &wiring{registries: map[model.ShardKey]*wired{}}
	w.Aggregator = aggregate.New("a", func(key model.ShardKey) aggregate.Registry {
		w.registries[key] = &wired{key: key, rows: map[string][]*model.WorkloadInstance{}}
		return w.registries[key]
	})
	return w
}

func (w *wiring) say(key model.ShardKey, names ...string) *wired {
	b := model.Batch{Source: key, Epoch: 1, Kind: model.KindPod}
	for _, n := range names {
		ns, name, _ := strings.Cut(n, "/")
		b.Workloads = append(b.Workloads, &model.WorkloadInstance{Name: name, Identity: &model.Identity{Cluster: key.Cluster, Namespace: ns}})
	}
	w.Round(epochStart, []model.Batch{b})
	return w.registries[key]
}

func listed(seq iter.Seq[*model.WorkloadInstance]) string {
	var names []string
	for w := range seq {
		names = append(names, string(w.Identity.Cluster)+"/"+w.Name)
	}
	return strings.Join(names, " ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func TestCrossRegistration(t *testing.T) {
	kubeA, kubeB, kubeC := kubeSources[0], kubeSources[1], kubeSources[2]
	storeA, storeB := entrySources[0], entrySources[1]
	w := newWiring()
	a, b := w.say(kubeA), w.say(kubeB)
	sa, sb := w.say(storeA), w.say(storeB)
	quiet := func(when string, but ...*wired) {
		t.Helper()
		for _, r := range w.registries {
			if !slices.Contains(but, r) {
				expect(t, when+": "+r.key.String(), r.take(), "")
			}
		}
	}

	// Nobody selects anywhere: no call at all.
	w.say(kubeA, "n1/p")
	w.say(storeA, "n1/e")
	quiet("no selectors")

	// Only those that select in the namespace are told, only across the kinds.
	a.selectorHandler("n1", true)
	sb.selectorHandler("n1", true)
	sa.selectorHandler("n2", true)
	w.say(kubeB, "n1/q")
	expect(t, "a pod", sb.take(), "->b/q")
	w.say(storeB, "n1/f", "n3/g")
	expect(t, "an entry of another cluster", a.take(), "->b/f")
	w.say(kubeA, "n2/p")
	expect(t, "a pod of n2", sa.take(), "->a/p")
	quiet("the rest")

	// Tables are shared, in the order of sources.
	expect(t, "pods", listed(w.Pods("n1")), "a/p b/q")
	expect(t, "entries", listed(w.WorkloadEntries("n1")), "a/e b/f")

	// A late registry joins against the tables, and is told of what comes next.
	c := w.say(kubeC)
	c.selectorHandler("n1", true)
	quiet("nothing is replayed")
	w.say(storeA, "n1/h")
	expect(t, "late", c.take(), "->a/h")
	expect(t, "early", a.take(), "->a/h")

	// Both directions have a switch, also while running.
	w.Switch(aggregate.EntriesToServices, false)
	expect(t, "off", a.take(), "a/e>- a/h>- b/f>-")
	expect(t, "off", c.take(), "a/e>- a/h>- b/f>-")
	w.Switch(aggregate.EntriesToServices, false)
	w.say(storeA, "n1/i")
	quiet("while it is off")
	expect(t, "entries", listed(w.WorkloadEntries("n1")), "")
	expect(t, "pods", listed(w.Pods("n1")), "a/p b/q")
	w.say(kubeC, "n1/r")
	expect(t, "the other direction is on", sb.take(), "->c/r")
	w.Switch(aggregate.EntriesToServices, true)
	expect(t, "on", a.take(), "->a/e ->a/h ->a/i ->b/f")
	c.take()
	w.Switch(aggregate.PodsToEntries, false)
	expect(t, "off", sb.take(), "a/p>- b/q>- c/r>-")
	expect(t, "off", sa.take(), "a/p>-")
	w.Switch(aggregate.PodsToEntries, true)
	expect(t, "on", sb.take(), "->a/p ->b/q ->c/r")
	sa.take()

	// What goes is taken back, and what went is told of nothing.
	w.Round(epochStart, []model.Batch{{Source: kubeC, Epoch: 1, Removed: true}})
	expect(t, "pods taken back", sb.take(), "c/r>-")
	if !c.closed {
		t.Fatal("not closed")
	}
	w.say(storeA, "n1/j")
	quiet("after the removal", a)
	expect(t, "pods", listed(w.Pods("n1")), "a/p b/q")
	w.Round(epochStart, []model.Batch{{Source: storeA, Epoch: 1, Removed: true}})
	expect(t, "entries taken back", a.take(), "->a/j a/e>- a/h>- a/i>- a/j>-")

	// A service that stops selecting makes events free again.
	a.selectorHandler("n1", false)
	w.say(storeB, "n1/k")
	quiet("no selectors")
	sb.selectorHandler("n1", false)
	sizes := aggregate.Sizes(w.Aggregator)
	if sizes["selecting"] != 0 || sizes["wired"] != 3 {
		t.Fatalf("%v", sizes)
	}
	_ = b
}
