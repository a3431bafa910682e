package aggregate_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tributary/clusters/kube"
	"tributary/model"
	"tributary/shards"
)

// laws checks what must hold of every Delta and of every snapshot, by comparing
// full snapshots.
type laws struct {
	meanings map[model.ServiceKey]meaning
	past     []*shards.Snapshot
	changed  map[model.ServiceKey]uint64 // revision of the last change of a service
	defined  map[model.ServiceKey]uint64 // of the last change of its definition
}

type meaning struct{ definition, shards string }

func newLaws() *laws {
	return &laws{meanings: map[model.ServiceKey]meaning{}, changed: map[model.ServiceKey]uint64{}, defined: map[model.ServiceKey]uint64{}}
}

func (l *laws) check(t rapid.TB, d model.Delta, snap *shards.Snapshot) {
	t.Helper()
	for i, s := range d.Services {
		if i > 0 && d.Services[i-1].Key.Compare(s.Key) >= 0 {
			t.Fatalf("services of the delta are not in order, each once")
		}
		was, existed := l.meanings[s.Key]
		if !existed {
			was.definition = "none"
		}
		is := meaning{definitionText(s.Definition), shardsText(s.Shards)}
		want := model.NoPush
		switch {
		case was.definition != is.definition:
			want = model.ServicePush
			l.defined[s.Key] = snap.Revision
		case was.shards != is.shards:
			want = model.EndpointsPush
		}
		if s.Push != want || want == model.NoPush {
			t.Fatalf("push %v of %v, want %v:\nwas %v\nis  %v", s.Push, s.Key, want, was, is)
		}
		l.changed[s.Key] = snap.Revision
		if l.meanings[s.Key] = is; s.Definition == nil {
			delete(l.meanings, s.Key)
			if len(s.Shards) > 0 {
				t.Fatalf("%v went and has shards", s.Key)
			}
		}
	}
	// The snapshot is the last one with the delta applied, and nothing else.
	count := 0
	for svc := range snap.Services() {
		count++
		if is := (meaning{definitionText(svc.Definition), shardsText(svc.Shards)}); is != l.meanings[svc.Key] {
			t.Fatalf("%v is not what the deltas say:\n%v\n%v", svc.Key, is, l.meanings[svc.Key])
		}
		if svc != snap.Service(svc.Key) {
			t.Fatalf("Service(%v) is another one", svc.Key)
		}
		for shard := range slices.Values(svc.Shards) {
			for _, s := range shard.Slices {
				if len(s.Endpoints) == 0 || !slices.IsSortedFunc(s.Endpoints, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) }) {
					t.Fatalf("%v: slice %v of %v is empty or not sorted", svc.Key, s.Object, shard.Key)
				}
			}
		}
	}
	if count != len(l.meanings) || count != snap.Len() {
		t.Fatalf("%d services, %d by Len, want %d", count, snap.Len(), len(l.meanings))
	}
	if n := len(l.past); n > 12 {
		l.past = slices.Delete(l.past, 1, 2)
	}
	l.past = append(l.past, snap)
	for _, old := range l.past {
		l.since(t, old, snap)
	}
}

// since checks what a reader is told that saw snapshot old.
func (l *laws) since(t rapid.TB, old, snap *shards.Snapshot) {
	if old.Revision < snap.Floor {
		return // it compares everything
	}
	told := func(seq func(func(*shards.Service) bool), last map[model.ServiceKey]uint64) {
		got := map[model.ServiceKey]bool{}
		for svc := range seq {
			if got[svc.Key] || last[svc.Key] <= old.Revision {
				t.Fatalf("since %d: %v told twice or in vain", old.Revision, svc.Key)
			}
			got[svc.Key] = true
			if now := snap.Service(svc.Key); now != svc && (now != nil || svc.Definition != nil) {
				t.Fatalf("since %d: %v is not the newest", old.Revision, svc.Key)
			}
		}
		for key, rev := range last {
			if rev > old.Revision && !got[key] {
				t.Fatalf("since %d: %v changed at %d and is not told (floor %d)", old.Revision, key, rev, snap.Floor)
			}
		}
	}
	told(snap.Since(old.Revision), l.changed)
	told(snap.DefinitionsSince(old.Revision), l.defined)
	for was := range old.Services() {
		is := snap.Service(was.Key)
		if is == nil {
			for svc := range snap.DefinitionsSince(old.Revision) {
				if svc.Key == was.Key {
					is = svc
				}
			}
		}
		for _, p := range was.Definition.Ports {
			if is.Definition != nil {
				if _, stays := is.Definition.Port(p.Number); stays {
					continue
				}
			}
			if !slices.ContainsFunc(is.RemovedPorts, func(r shards.RemovedPort) bool { return r.Number == p.Number && r.Revision > old.Revision }) {
				t.Fatalf("%v: port %d went after revision %d and is not among %v", was.Key, p.Number, old.Revision, is.RemovedPorts)
			}
		}
	}
}

// TestPushKinds: how much a change invalidates follows from what is different.
func TestPushKinds(t *testing.T) {
	pod := func(change func(*model.WorkloadInstance)) *model.WorkloadInstance {
		w := webPod("p1", 1, model.Ready)
		change(w)
		return w
	}
	service := func(change func(*model.Service)) *model.Service {
		s := webService()
		s.Version = 99
		change(s)
		return s
	}
	s1 := func(change func(*model.EndpointSlice)) *model.EndpointSlice {
		s := slice("s1", endpoint("p1", 1), endpoint("p2", 2))
		s.Version = 99
		change(s)
		return s
	}
	for what, tc := range map[string]struct {
		row  any
		push model.Push
	}{
		"a Service of another version":        {service(func(*model.Service) {}), model.NoPush},
		"a slice of another version":          {s1(func(*model.EndpointSlice) {}), model.NoPush},
		"a pod written again":                 {pod(func(*model.WorkloadInstance) {}), model.NoPush},
		"a pod that no slice refers to":       {webPod("p9", 9, model.Ready), model.NoPush},
		"an empty slice":                      {slice("s9"), model.NoPush},
		"a slice of another service":          {s1(func(s *model.EndpointSlice) { s.Object.Name, s.Service = "s9", "db" }), model.NoPush},
		"a deletion of what is not there":     {gone{model.KindEndpointSlice, "s9"}, model.NoPush},
		"an endpoint that is not ready":       {s1(func(s *model.EndpointSlice) { s.Endpoints[0].Conditions = 0 }), model.EndpointsPush},
		"an endpoint without a pod":           {slice("s9", model.SliceEndpoint{Addr: addr(9), Conditions: ready}), model.EndpointsPush},
		"a target port of a slice":            {s1(func(s *model.EndpointSlice) { s.Ports[0].Number++ }), model.EndpointsPush},
		"labels of a pod":                     {pod(func(w *model.WorkloadInstance) { w.Labels = model.Labels{} }), model.EndpointsPush},
		"the zone of an endpoint":             {s1(func(s *model.EndpointSlice) { s.Endpoints[1].Zone = "z" }), model.EndpointsPush},
		"one of several pods of an account":   {gone{model.KindPod, "p1"}, model.EndpointsPush},
		"an account":                          {pod(func(w *model.WorkloadInstance) { w.Identity.ServiceAccount = "other" }), model.ServicePush},
		"a port":                              {service(func(s *model.Service) { s.Ports = nil }), model.ServicePush},
		"a protocol":                          {service(func(s *model.Service) { s.Ports[0].Protocol = model.TCP }), model.ServicePush},
		"a target port of a Service":          {service(func(s *model.Service) { s.Ports[0].TargetPort = "8080" }), model.ServicePush},
		"an address":                          {service(func(s *model.Service) { s.VIPs = []model.Addr{addr(50)} }), model.ServicePush},
		"a resolution":                        {service(func(s *model.Service) { s.Resolution = model.Passthrough }), model.ServicePush},
		"an external address":                 {service(func(s *model.Service) { s.External = []model.Addr{addr(50)} }), model.ServicePush},
		"a visibility":                        {service(func(s *model.Service) { s.Visibility = model.Nowhere }), model.ServicePush},
		"what it is an alias of":              {service(func(s *model.Service) { s.AliasOf = "x" }), model.ServicePush},
		"its traffic policy":                  {service(func(s *model.Service) { s.NodeLocal = true }), model.ServicePush},
		"its address families":                {service(func(s *model.Service) { s.DualStack = true }), model.ServicePush},
		"the locality of a node":              {&model.Node{Name: "node1", Locality: "r/z"}, model.EndpointsPush},
		"a node without a locality":           {&model.Node{Name: "node1"}, model.NoPush},
		"the locality of a node without pods": {&model.Node{Name: "node9", Locality: "r/z"}, model.NoPush},
		"a network":                           {&model.Namespace{Name: "istio-system", Labels: model.NewLabels(map[string]string{"topology.istio.io/network": "net"})}, model.EndpointsPush},
		"another namespace":                   {&model.Namespace{Name: "n", Labels: model.NewLabels(map[string]string{"topology.istio.io/network": "net"})}, model.NoPush},
		"a pod that ended":                    {pod(func(w *model.WorkloadInstance) { w.State = model.Finished }), model.EndpointsPush},
		"a selector":                          {service(func(s *model.Service) { s.Selector = model.NewLabels(map[string]string{"a": "b"}) }), model.ServicePush},
		"a Service that goes":                 {gone{model.KindService, "web"}, model.ServicePush},
		"a slice that goes":                   {gone{model.KindEndpointSlice, "s2"}, model.EndpointsPush},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleet(t)
			before := f.store.Load().Revision
			f.say(tc.row)
			got := model.NoPush
			for svc := range f.store.Load().Since(before) {
				got = model.EndpointsPush
				if svc.DefinitionRevision > before {
					got = model.ServicePush
				}
			}
			if got != tc.push {
				t.Fatalf("push %v, want %v", got, tc.push)
			}
			f.settle(t)
		})
	}
}

// TestOneRoundIsOneDelta: what several sources change together is told at once,
// each service once.
func TestOneRoundIsOneDelta(t *testing.T) {
	w := newWorld()
	var batches []model.Batch
	for i, source := range kubeSources {
		for _, k := range kindsOf(source) {
			b := w.batch(source, k, 1)
			b.Received = epochStart.Add(time.Duration(3-i) * time.Second)
			switch k {
			case model.KindService:
				s := webService()
				s.Registry = source
				b.Services = []*model.Service{s}
			case model.KindEndpointSlice:
				b.Slices = []*model.EndpointSlice{slice("s", endpoint("p", i))}
			case model.KindPod:
				p := webPod("p", i, model.Ready)
				p.Identity.Cluster = source.Cluster
				b.Workloads = []*model.WorkloadInstance{p}
			}
			batches = append(batches, b)
		}
	}
	batches = append(batches, model.Batch{Source: entrySources[0], Epoch: 1, Kind: model.KindPod}) // without a time
	d := w.round(t, batches...)
	if len(d.Services) != 1 || len(d.Services[0].Shards) != 3 || !d.Received.Equal(epochStart.Add(time.Second)) {
		t.Fatalf("%d services, received %v", len(d.Services), d.Received)
	}
	w.settle(t)
	if d := w.core.Round(w.now.Add(kube.MoveHold), nil); !d.Empty() {
		t.Fatalf("a delta out of nothing: %+v", d)
	}
}
