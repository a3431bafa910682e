package aggregate_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"tributary/aggregate"
	"tributary/clusters/kube"
	"tributary/model"
	"tributary/shards"
)

var soak = flag.Duration("soak", soakFromEnv(), "how long TestSoak runs; TRIBUTARY_SOAK sets the default")

func soakFromEnv() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("TRIBUTARY_SOAK"))
	return d
}

// TestIncrementalIsRebuild is the first of the two proofs: after any history
// the snapshot is the one that the twin computes from the rows alone. On the
// way every Delta keeps the laws of Deltas (laws_test.go).
func TestIncrementalIsRebuild(t *testing.T) {
	for range 50 { // rapid.checks histories each
		rapid.Check(t, playHistory)
	}
}

// FuzzHistory lets bytes decide what happens. A byte string that is too short
// for its history is skipped. Run it with
//
//	go test ./aggregate -run - -fuzz FuzzHistory -fuzzminimizetime 10x
func FuzzHistory(f *testing.F) {
	for seed := range uint64(8) {
		bytes := make([]byte, 16384<<(seed%3)) // eight for each draw
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(bytes)
		f.Add(bytes)
	}
	f.Fuzz(rapid.MakeFuzz(playHistory))
}

// TestSoak plays random histories for as long as -soak says.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("set -soak=10m or TRIBUTARY_SOAK=10m")
	}
	histories := 0
	for start := time.Now(); time.Since(start) < *soak; {
		rapid.Check(t, func(t *rapid.T) { histories++; playHistory(t) })
		rapid.Check(t, orderFree)
		rapid.Check(t, neverMissing)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d histories in %v", histories, *soak)
}

var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is the core, its twin and the sources that feed both.
type world struct {
	discovery
	core    *aggregate.Aggregator
	store   *shards.Store
	twin    *twin
	laws    *laws
	kubes   map[model.ShardKey]*kube.Registry
	now     time.Time
	epochs  map[model.ShardKey]uint64
	version uint64
	queues  map[queueKey][]model.Batch
}

// queueKey: batches of one source and kind keep their order; nothing else does.
type queueKey struct {
	source model.ShardKey
	kind   model.Kind
}

var (
	kubeSources  = []model.ShardKey{{Provider: model.Kubernetes, Cluster: "a"}, {Provider: model.Kubernetes, Cluster: "b"}, {Provider: model.Kubernetes, Cluster: "c"}}
	entrySources = []model.ShardKey{{Provider: model.External, Cluster: "a"}, {Provider: model.External, Cluster: "b"}}
	allSources   = slices.Concat(kubeSources, entrySources)
)

// discovery is a setting of selectors, with what the twin makes of it.
type discovery struct {
	selectors []metav1.LabelSelector
	selected  func(labels map[string]string) bool
}

var discoveries = []discovery{
	{},
	{[]metav1.LabelSelector{{MatchLabels: map[string]string{"env": "prod"}}, {MatchLabels: map[string]string{"kubernetes.io/metadata.name": "n2"}}},
		func(l map[string]string) bool { return l["env"] == "prod" || l["kubernetes.io/metadata.name"] == "n2" }},
	{[]metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"test"}}}}},
		func(l map[string]string) bool { return l["env"] != "test" }},
}

func newWorld() *world { return newWorldWith(discoveries[0]) }

func drawWorld(t *rapid.T) *world {
	return newWorldWith(rapid.SampledFrom(discoveries).Draw(t, "discovery"))
}

func newWorldWith(d discovery) *world {
	selectors, err := kube.ParseSelectors(d.selectors)
	if err != nil {
		panic(err)
	}
	w := &world{
		store: shards.NewStore(3), twin: newTwin("b"), laws: newLaws(), kubes: map[model.ShardKey]*kube.Registry{},
		now: epochStart, epochs: map[model.ShardKey]uint64{}, queues: map[queueKey][]model.Batch{},
	}
	w.discovery, w.twin.selected = d, d.selected
	w.core = aggregate.New("b", func(source model.ShardKey) aggregate.Registry {
		if source.Provider == model.Kubernetes {
			w.kubes[source] = kube.NewRegistry(source.Cluster, kube.Rules{Discovery: selectors}, w.core.WorkloadEntries)
			return w.kubes[source]
		}
		return newEntries(source, w.core.Pods)
	})
	for _, s := range allSources {
		w.epochs[s] = 1
	}
	return w
}

// round gives batches to the core and to the twin, and checks the laws.
func (w *world) round(t rapid.TB, batches ...model.Batch) model.Delta {
	t.Helper()
	for _, b := range batches {
		w.twin.apply(b)
	}
	d := w.core.Round(w.now, batches)
	w.laws.check(t, d, w.store.Apply(d))
	return d
}

// settle lets every hold end and compares the core with the twin.
func (w *world) settle(t rapid.TB) {
	t.Helper()
	w.now = w.now.Add(kube.MoveHold)
	w.round(t)
	if next := w.core.Next(); !next.IsZero() {
		t.Fatalf("Next is %v after all holds ended", next)
	}
	if diff := difference(viewOf(w.store.Load()), w.twin.view()); diff != "" {
		t.Fatalf("the core is not what its rows say:\n%s", diff)
	}
	for key, r := range w.kubes {
		want := model.Synced{Source: key}
		if s := w.twin.sources[key]; s != nil {
			want.Epoch = s.now
			rows := s.epochs[s.now].rows
			want.Services, want.Slices, want.Workloads = len(rows[model.KindService]), len(rows[model.KindEndpointSlice]), len(rows[model.KindPod])
			for _, row := range rows[model.KindEndpointSlice] {
				want.Endpoints += len(row.(*model.EndpointSlice).Endpoints)
			}
			if got := r.Counts(); got != want {
				t.Fatalf("counts %+v, want %+v", got, want)
			}
		}
	}
}

func playHistory(t *rapid.T) {
	w := drawWorld(t)
	for range rapid.IntRange(1, 4).Draw(t, "settles") {
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "events") {
				w.event(t)
			}
			if rapid.IntRange(0, 9).Draw(t, "switch") == 9 {
				w.turn(rapid.SampledFrom([]aggregate.Direction{aggregate.PodsToEntries, aggregate.EntriesToServices}).Draw(t, "direction"))
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
			w.round(t, w.take(t)...)
		}
		w.round(t, w.drain(t)...)
		w.settle(t)
	}
}

// turn switches a direction of cross-registration.
func (w *world) turn(d aggregate.Direction) {
	on := &w.twin.podsToEntries
	if d == aggregate.EntriesToServices {
		on = &w.twin.entriesToServices
	}
	*on = !*on
	w.core.Switch(d, *on)
}

// take removes random batches from random queues, in any interleaving.
func (w *world) take(t *rapid.T) (batches []model.Batch) {
	for range rapid.IntRange(0, 6).Draw(t, "batches") {
		keys := w.waiting()
		if len(keys) == 0 {
			break
		}
		k := rapid.SampledFrom(keys).Draw(t, "from")
		batches = append(batches, w.queues[k][0])
		if w.queues[k] = w.queues[k][1:]; len(w.queues[k]) == 0 {
			delete(w.queues, k)
		}
	}
	return batches
}

func (w *world) drain(t *rapid.T) (batches []model.Batch) {
	for len(w.queues) > 0 {
		batches = append(batches, w.take(t)...)
	}
	return batches
}

func (w *world) waiting() []queueKey {
	return slices.SortedFunc(maps.Keys(w.queues), func(a, b queueKey) int {
		if c := a.source.Compare(b.source); c != 0 {
			return c
		}
		return int(a.kind) - int(b.kind)
	})
}

func (w *world) put(b model.Batch) {
	k := queueKey{b.Source, b.Kind}
	w.queues[k] = append(w.queues[k], b)
}

// event lets something happen at a source, told in one or more batches.
func (w *world) event(t *rapid.T) {
	source := rapid.SampledFrom(allSources).Draw(t, "source")
	kind := rapid.SampledFrom(kindsOf(source)).Draw(t, "kind")
	what := rapid.IntRange(0, 20).Draw(t, "what")
	if source.Provider == model.External && what > 9 && what < 19 {
		what -= 10 // a store has no snapshots and no rotations
	}
	switch {
	case what <= 9:
		w.put(w.change(t, source, kind, w.epochs[source]))
	case what <= 12: // a re-list, in pages, some rows missing, perhaps broken off
		w.relist(t, source, kind, w.epochs[source], w.said(source, kind), rapid.IntRange(0, 3).Draw(t, "broken off") > 0)
	case what <= 14: // a new credential: all of it, some of it, with differences or without
		w.epochs[source]++
		for _, k := range kindsOf(source) {
			switch rapid.IntRange(0, 7).Draw(t, "how much") {
			case 0:
			case 1:
				w.relist(t, source, k, w.epochs[source], w.said(source, k), false)
			default:
				w.relist(t, source, k, w.epochs[source], w.said(source, k), true)
			}
		}
	case what == 15: // what a superseded watch still says
		if w.epochs[source] > 1 {
			w.put(w.change(t, source, kind, uint64(rapid.IntRange(1, int(w.epochs[source])-1).Draw(t, "old epoch"))))
		}
	case what == 16: // a superseded list completes late
		if w.epochs[source] > 1 {
			w.relist(t, source, kind, w.epochs[source]-1, w.said(source, kind), true)
		}
	case what == 17: // everything is said again
		w.epochs[source] += uint64(rapid.IntRange(0, 1).Draw(t, "new epoch"))
		for _, k := range kindsOf(source) {
			b := w.batch(source, k, w.epochs[source])
			for _, row := range w.said(source, k) {
				w.add(&b, w.again(row))
			}
			b.SnapshotStart, b.SnapshotEnd = true, true
			w.put(b)
		}
	case what == 18: // a step of a drain, or its end
		b := w.batch(source, kind, w.epochs[source])
		b.Share = rapid.SampledFrom([]uint8{25, 50, 75, 100}).Draw(t, "share")
		w.put(b)
	default: // removed, and perhaps added again
		b := w.batch(source, kind, w.epochs[source])
		b.Removed = true
		w.put(b)
		if rapid.Bool().Draw(t, "again") {
			w.epochs[source]++
		} else if rapid.IntRange(0, 3).Draw(t, "later") > 0 {
			defer func() { w.epochs[source]++ }()
		}
	}
}

func kindsOf(source model.ShardKey) []model.Kind {
	if source.Provider == model.Kubernetes {
		return []model.Kind{model.KindService, model.KindEndpointSlice, model.KindPod, model.KindNode, model.KindNamespace}
	}
	return []model.Kind{model.KindService, model.KindPod}
}

func (w *world) batch(source model.ShardKey, kind model.Kind, epoch uint64) model.Batch {
	return model.Batch{Source: source, Kind: kind, Epoch: epoch}
}

// said returns the rows in force, in the order of their names.
func (w *world) said(source model.ShardKey, kind model.Kind) (rows []any) {
	s := w.twin.sources[source]
	if s == nil || s.epochs[s.now] == nil {
		return nil
	}
	all := s.epochs[s.now].rows[kind]
	for _, n := range slices.SortedFunc(maps.Keys(all), model.NamespacedName.Compare) {
		rows = append(rows, all[n])
	}
	return rows
}

// add puts a row into a batch in place of an earlier one of the same name.
func (w *world) add(b *model.Batch, row any) {
	switch r := row.(type) {
	case *model.Service:
		b.Services = append(slices.DeleteFunc(b.Services, func(o *model.Service) bool { return o.Key == r.Key }), r)
	case *model.EndpointSlice:
		b.Slices = append(slices.DeleteFunc(b.Slices, func(o *model.EndpointSlice) bool { return o.Object == r.Object }), r)
	case *model.WorkloadInstance:
		b.Workloads = append(slices.DeleteFunc(b.Workloads, func(o *model.WorkloadInstance) bool { return o.Key() == r.Key() }), r)
	case *model.Node:
		b.Nodes = append(slices.DeleteFunc(b.Nodes, func(o *model.Node) bool { return o.Name == r.Name }), r)
	case *model.Namespace:
		b.Namespaces = append(slices.DeleteFunc(b.Namespaces, func(o *model.Namespace) bool { return o.Name == r.Name }), r)
	}
}

// again returns a copy of a row that differs in its resource version alone.
func (w *world) again(row any) any {
	w.version++
	switch r := row.(type) {
	case *model.Service:
		c := *r
		c.Version, c.Ports, c.VIPs, c.External = w.version, slices.Clone(r.Ports), slices.Clone(r.VIPs), slices.Clone(r.External)
		return &c
	case *model.EndpointSlice:
		c := *r
		c.Version, c.Ports, c.Endpoints = w.version, slices.Clone(r.Ports), slices.Clone(r.Endpoints)
		return &c
	case *model.WorkloadInstance:
		c, id, place := *r, *r.Identity, *r.Placement
		c.Identity, c.Placement = &id, &place
		return &c
	case *model.Node:
		c := *r
		return &c
	case *model.Namespace:
		c := *r
		return &c
	}
	panic("no row")
}

// change is up to three upserts and deletes of one kind.
func (w *world) change(t *rapid.T, source model.ShardKey, kind model.Kind, epoch uint64) model.Batch {
	b := w.batch(source, kind, epoch)
	for range rapid.IntRange(1, 3).Draw(t, "rows") {
		row := w.edited(t, source, kind)
		if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
			w.add(&b, row)
			continue
		}
		one := model.Batch{}
		w.add(&one, row)
		for n := range rowsOf(one) {
			if _, both := rowsOf(b)[n]; !both && !slices.Contains(b.Deletes, n) {
				b.Deletes = append(b.Deletes, n)
			}
		}
	}
	b.Deletes = slices.DeleteFunc(b.Deletes, func(n model.NamespacedName) bool { _, both := rowsOf(b)[n]; return both })
	return b
}

// relist says rows as a snapshot: some missing, some new or different, in pages.
func (w *world) relist(t *rapid.T, source model.ShardKey, kind model.Kind, epoch uint64, rows []any, end bool) {
	all := w.batch(source, kind, epoch)
	for _, row := range rows {
		if rapid.IntRange(0, 4).Draw(t, "missing") > 0 {
			w.add(&all, w.again(row))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "new rows") {
		w.add(&all, w.row(t, source, kind))
	}
	page := w.batch(source, kind, epoch)
	page.SnapshotStart = true
	named := rowsOf(all)
	for _, n := range slices.SortedFunc(maps.Keys(named), model.NamespacedName.Compare) {
		if rapid.IntRange(0, 2).Draw(t, "page ends") == 0 {
			w.put(page)
			page = w.batch(source, kind, epoch)
		}
		w.add(&page, named[n])
	}
	page.SnapshotEnd = end
	w.put(page)
}

// edited is a new row or, half the time, one that was said with one of its
// endpoints or parts of it changed: what differs in one thing only is where a
// shortcut goes wrong.
func (w *world) edited(t *rapid.T, source model.ShardKey, kind model.Kind) any {
	fresh := w.row(t, source, kind)
	said := w.said(source, kind)
	if len(said) == 0 || rapid.Bool().Draw(t, "new") {
		return fresh
	}
	switch row := w.again(rapid.SampledFrom(said).Draw(t, "of")).(type) {
	case *model.EndpointSlice:
		if len(row.Endpoints) == 0 {
			return fresh
		}
		e := &row.Endpoints[rapid.IntRange(0, len(row.Endpoints)-1).Draw(t, "which")]
		switch uid := rapid.SampledFrom([]model.UID{{}, uids[0], uids[1]}).Draw(t, "edited uid"); {
		case e.Pod != "" && e.UID != uid:
			e.UID = uid
		case rapid.IntRange(0, 3).Draw(t, "edited zone") == 3:
			e.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
		case e.Pod != "" && rapid.IntRange(0, 3).Draw(t, "edited pod") == 3:
			e.Pod = rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "pod") // the address is another one's now
		default:
			e.Conditions ^= rapid.SampledFrom([]model.EndpointFlags{model.EndpointReady, model.EndpointReady, model.EndpointServing, model.EndpointTerminating}).Draw(t, "condition")
		}
		return row
	case *model.WorkloadInstance:
		other := fresh.(*model.WorkloadInstance)
		switch rapid.IntRange(0, 4).Draw(t, "part") {
		case 0:
			row.UID = other.UID
		case 1:
			row.Addr = other.Addr
		case 2:
			row.Labels = other.Labels
		case 3:
			row.Identity.ServiceAccount = other.Identity.ServiceAccount
		default:
			row.State = other.State
		}
		return row
	}
	return fresh
}

// row draws an object out of a small world, so that names, addresses and uids
// collide within a cluster and between clusters.
func (w *world) row(t *rapid.T, source model.ShardKey, kind model.Kind) any {
	w.version++
	if said := w.said(source, kind); len(said) > 0 && rapid.IntRange(0, 2).Draw(t, "one field") == 0 {
		return w.oneField(t, rapid.SampledFrom(said).Draw(t, "of row"), w.fresh(t, source, kind))
	}
	return w.fresh(t, source, kind)
}

// oneField returns a copy of a row with one field of another one.
func (w *world) oneField(t *rapid.T, row, other any) any {
	row = w.again(row)
	var fields []func()
	switch r := row.(type) {
	case *model.Service:
		o := other.(*model.Service)
		fields = []func(){func() { r.Ports = o.Ports }, func() { r.VIPs = o.VIPs }, func() { r.External = o.External }, func() { r.Resolution, r.AliasOf = o.Resolution, o.AliasOf },
			func() { r.Selector = o.Selector }, func() { r.Visibility = o.Visibility }, func() { r.NodeLocal = o.NodeLocal }, func() { r.DualStack = o.DualStack }, func() { r.Accounts = o.Accounts }}
	case *model.EndpointSlice:
		o := other.(*model.EndpointSlice)
		fields = []func(){func() { r.Ports = o.Ports }, func() { r.Endpoints = o.Endpoints }, func() { r.Service = o.Service }}
	case *model.WorkloadInstance:
		o := other.(*model.WorkloadInstance)
		fields = []func(){func() { r.UID = o.UID }, func() { r.Addr, r.Details = o.Addr, o.Details }, func() { r.Labels = o.Labels }, func() { r.State = o.State },
			func() { r.Identity.ServiceAccount = o.Identity.ServiceAccount }, func() { r.Placement.Node = o.Placement.Node },
			func() { r.Placement.Locality = o.Placement.Locality }, func() { r.Placement.Network = o.Placement.Network }}
	case *model.Node:
		fields = []func(){func() { r.Locality = other.(*model.Node).Locality }}
	case *model.Namespace:
		fields = []func(){func() { r.Labels = other.(*model.Namespace).Labels }}
	}
	rapid.SampledFrom(fields).Draw(t, "field")()
	return row
}

// fresh draws an object with all its fields.
func (w *world) fresh(t *rapid.T, source model.ShardKey, kind model.Kind) any {
	ns := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "namespace")
	switch kind {
	case model.KindService:
		return drawService(t, source, ns, w.version)
	case model.KindEndpointSlice:
		return drawSlice(t, ns, w.version)
	case model.KindNode:
		return &model.Node{Name: rapid.SampledFrom([]string{"node1", "node2"}).Draw(t, "node"), Locality: rapid.SampledFrom([]model.Locality{"", "r1", "r1/z1", "r2/z2/s2"}).Draw(t, "locality")}
	case model.KindNamespace:
		return drawNamespace(t)
	default:
		return drawWorkload(t, source, ns)
	}
}

func addr(last int) model.Addr {
	a, _ := model.ParseAddr(fmt.Sprintf("10.0.0.%d", last))
	return a
}

func addr6(last int) model.Addr {
	a, _ := model.ParseAddr(fmt.Sprintf("fd00::%d", last))
	return a
}

var (
	portSets = [][]model.Port{
		{{Name: "http", Number: 80, Protocol: model.HTTP}},
		{{Name: "http", Number: 80, Protocol: model.HTTP, TargetPort: "8080"}},
		{{Name: "http", Number: 80, Protocol: model.TCP}},
		{{Name: "http", Number: 8080, Protocol: model.HTTP}},
		{{Name: "web", Number: 80, Protocol: model.HTTP, TargetPort: "named"}},
		{{Name: "http", Number: 80, Protocol: model.SCTP}},
		{{Name: "dns", Number: 53, Protocol: model.UDP}, {Name: "dns-tcp", Number: 53, Protocol: model.TCP}},
		{{Name: "http", Number: 80, Protocol: model.HTTP}, {Name: "grpc", Number: 90, Protocol: model.GRPC, TargetPort: "9090"}},
		{{Number: 80, Protocol: model.TCP}},
		{{Number: 90, TargetPort: "named"}},
		{{Name: "http", Number: 80, Protocol: model.HTTP}, {Name: "web", Number: 80, Protocol: model.HTTP}},
		nil,
	}
	slicePortSets = [][]model.SlicePort{
		{{Name: "http", Number: 8080}}, {{Name: "http", Number: 8081}}, {{Name: "web", Number: 80}}, nil,
		{{Name: "grpc", Number: 9090}, {Name: "http", Number: 8080}}, {{Name: "dns", Number: 53}, {Name: "dns-tcp", Number: 53}},
		{{Number: 8080}}, {{Name: "http", Number: 8080}, {Name: "web", Number: 8080}},
	}
	labelSets = []map[string]string{{"app": "web"}, {"app": "db"}, {"app": "web", "v": "1"}, nil}
	hosts     = []string{"web", "db"}
	uids      = []model.UID{model.ParseUID("first"), model.ParseUID("second")}

	// Of slices: the usual ones first, then all that others may say, as ready
	// while terminating (publishNotReadyAddresses) or ready but not serving.
	conditionSets = []model.EndpointFlags{
		model.EndpointReady | model.EndpointServing, model.EndpointReady | model.EndpointServing, 0, model.EndpointServing | model.EndpointTerminating,
		model.EndpointReady | model.EndpointTerminating, model.EndpointReady | model.EndpointServing | model.EndpointTerminating,
		model.EndpointReady, model.EndpointServing, model.EndpointTerminating,
	}
	zones = []string{"", "z1", "z2"}
)

func drawService(t *rapid.T, source model.ShardKey, ns string, version uint64) *model.Service {
	name := rapid.SampledFrom(hosts).Draw(t, "service")
	s := &model.Service{
		Key: model.ServiceKey{Host: name + "." + ns + ".svc.cluster.local", Namespace: ns}, Registry: source, Name: name, Version: version,
		Created:    rapid.SampledFrom([]int64{1, 2, 0, 1 << 40}).Draw(t, "created"),
		Ports:      slices.Clone(rapid.SampledFrom(portSets).Draw(t, "ports")),
		VIPs:       rapid.SampledFrom([][]model.Addr{nil, {addr(101)}, {addr(102), addr(103)}}).Draw(t, "VIPs"),
		External:   rapid.SampledFrom([][]model.Addr{nil, nil, nil, {addr(104)}}).Draw(t, "external addresses"),
		Resolution: rapid.SampledFrom([]model.Resolution{model.ClientSideLB, model.ClientSideLB, model.ClientSideLB, model.Passthrough}).Draw(t, "resolution"),
		Selector:   model.NewLabels(rapid.SampledFrom(labelSets).Draw(t, "selector")),
		Visibility: rapid.SampledFrom([]model.Visibility{model.Everywhere, model.Everywhere, model.Everywhere, model.Nowhere, model.VisibleIn(ns), model.VisibleIn("n2", "n1")}).Draw(t, "visibility"),
		NodeLocal:  rapid.IntRange(0, 4).Draw(t, "node local") == 4,
		DualStack:  rapid.IntRange(0, 2).Draw(t, "dual stack") == 2,
		Accounts:   rapid.SampledFrom([][]string{nil, nil, nil, {"n1/sa1"}, {"n1/extra", "spiffe://x/y"}}).Draw(t, "accounts"),
	}
	if rapid.IntRange(0, 5).Draw(t, "alias") == 5 {
		s.Resolution, s.AliasOf = model.Alias, rapid.SampledFrom([]string{"", "example.com", "web.n1.svc.cluster.local", "db.n1.svc.cluster.local", "web.n2.svc.cluster.local", "db.n2.svc.cluster.local"}).Draw(t, "alias of")
	}
	return s
}

func drawNamespace(t *rapid.T) *model.Namespace {
	labels := map[string]string{}
	set := func(key string, values ...string) {
		if v := rapid.SampledFrom(values).Draw(t, key); v != "" {
			labels[key] = v
		}
	}
	set("env", "", "prod", "prod", "test")
	set("topology.istio.io/network", "", "net", "core")
	name := rapid.SampledFrom([]string{"n1", "n2", "n2", "istio-system"}).Draw(t, "namespace")
	if rapid.Bool().Draw(t, "with its name") {
		labels["kubernetes.io/metadata.name"] = name
	}
	return &model.Namespace{Name: name, Labels: model.NewLabels(labels)}
}

func drawSlice(t *rapid.T, ns string, version uint64) *model.EndpointSlice {
	s := &model.EndpointSlice{
		Object:  model.NamespacedName{Namespace: ns, Name: rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "slice")},
		Service: rapid.SampledFrom(hosts).Draw(t, "of service"), Version: version,
		Ports: rapid.SampledFrom(slicePortSets).Draw(t, "slice ports"),
	}
	at := addr
	if rapid.IntRange(0, 2).Draw(t, "family") == 2 {
		at = addr6
	}
	for last := range 4 {
		if rapid.Bool().Draw(t, "endpoint") {
			e := model.SliceEndpoint{
				Addr:       at(last),
				Pod:        rapid.SampledFrom([]string{"p1", "p1", "p2", "p3", ""}).Draw(t, "pod"),
				Zone:       rapid.SampledFrom(zones).Draw(t, "zone"),
				Conditions: rapid.SampledFrom(conditionSets).Draw(t, "conditions"),
			}
			if e.Pod != "" {
				e.UID = rapid.SampledFrom([]model.UID{{}, uids[0], uids[0], uids[1]}).Draw(t, "slice uid")
			}
			s.Endpoints = append(s.Endpoints, e)
		}
	}
	return s
}

func drawWorkload(t *rapid.T, source model.ShardKey, ns string) *model.WorkloadInstance {
	kind, names := model.Pod, []string{"p1", "p2", "p3"}
	if source.Provider == model.External {
		kind, names = model.WorkloadEntry, []string{"e1", "e2", "p1"}
	}
	w := &model.WorkloadInstance{
		Name: rapid.SampledFrom(names).Draw(t, "workload"),
		UID:  rapid.SampledFrom([]model.UID{uids[0], uids[0], uids[1]}).Draw(t, "uid"),
		Addr: rapid.SampledFrom([]model.Addr{addr(0), addr(1), addr(2), addr(3), addr6(1), {}}).Draw(t, "address"),
		Identity: &model.Identity{Cluster: source.Cluster, Kind: kind, Namespace: ns,
			ServiceAccount: rapid.SampledFrom([]string{"sa1", "sa2", ""}).Draw(t, "account")},
		Placement: &model.Placement{Node: rapid.SampledFrom([]string{"", "node1", "node1", "node2"}).Draw(t, "node"), Locality: rapid.SampledFrom([]model.Locality{"", "r/z"}).Draw(t, "locality"),
			Network: rapid.SampledFrom([]string{"", "", "net"}).Draw(t, "network")},
		Labels: model.NewLabels(rapid.SampledFrom(labelSets).Draw(t, "labels")),
		State: rapid.SampledFrom([]model.WorkloadState{model.Ready, model.Ready, model.Ready, 0, model.Ready | model.Terminating,
			model.Finished, model.Ready | model.Finished, model.Ready | model.HostNetwork, model.HostNetwork | model.Terminating}).Draw(t, "state"),
	}
	switch rapid.IntRange(0, 4).Draw(t, "details") {
	case 0:
		w.Details = &model.WorkloadDetails{Ports: []model.NamedPort{{Name: rapid.SampledFrom([]string{"http", "named"}).Draw(t, "named port"), Number: 7000}}}
	case 1:
		if w.Addr != (model.Addr{}) {
			more := rapid.SampledFrom([][]model.Addr{{addr6(1)}, {addr6(2)}, {addr(1), addr6(3)}}).Draw(t, "further addresses")
			w.Details = &model.WorkloadDetails{More: slices.DeleteFunc(slices.Clone(more), func(a model.Addr) bool { return a == w.Addr })}
		}
	}
	return w
}
