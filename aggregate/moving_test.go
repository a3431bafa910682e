package aggregate_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tributary/clusters/kube"
	"tributary/model"
)

const ready = model.EndpointReady | model.EndpointServing

// fleet is cluster a with Service web, Pods and slices, said in full.
type fleet struct {
	*world
	t rapid.TB
}

var moveSource = model.ShardKey{Provider: model.Kubernetes, Cluster: "a"}

func webService() *model.Service {
	return &model.Service{Key: model.ServiceKey{Host: "web.n.svc.cluster.local", Namespace: "n"}, Registry: moveSource, Name: "web",
		Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}}}
}

func webPod(name string, last int, state model.WorkloadState) *model.WorkloadInstance {
	return &model.WorkloadInstance{Name: name, UID: model.ParseUID(name), Addr: addr(last), State: state, Labels: model.NewLabels(map[string]string{"app": "web"}),
		Identity: &model.Identity{Cluster: "a", Namespace: "n", ServiceAccount: "sa"}, Placement: &model.Placement{Node: "node1"}}
}

func slice(name string, endpoints ...model.SliceEndpoint) *model.EndpointSlice {
	return &model.EndpointSlice{Object: model.NamespacedName{Namespace: "n", Name: name}, Service: "web",
		Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: endpoints}
}

func endpoint(pod string, last int) model.SliceEndpoint {
	return model.SliceEndpoint{Addr: addr(last), Pod: pod, UID: model.ParseUID(pod), Conditions: ready}
}

func newFleet(t rapid.TB) *fleet {
	f := &fleet{newWorld(), t}
	for _, k := range kindsOf(moveSource) {
		b := f.batch(moveSource, k, 1)
		b.SnapshotStart, b.SnapshotEnd = true, true
		switch k {
		case model.KindService:
			b.Services = []*model.Service{webService()}
		case model.KindEndpointSlice:
			b.Slices = []*model.EndpointSlice{slice("s1", endpoint("p1", 1), endpoint("p2", 2)), slice("s2", endpoint("p3", 3))}
		case model.KindPod:
			b.Workloads = []*model.WorkloadInstance{webPod("p1", 1, model.Ready), webPod("p2", 2, model.Ready), webPod("p3", 3, model.Ready)}
		}
		f.round(t, b)
	}
	return f
}

// say lets rows be changed and deleted in one round.
func (f *fleet) say(rows ...any) {
	f.t.Helper()
	var batches []model.Batch
	for _, k := range kindsOf(moveSource) {
		b := f.batch(moveSource, k, f.epochs[moveSource])
		for _, row := range rows {
			switch r := row.(type) {
			case *model.Service:
				if k == model.KindService {
					f.add(&b, r)
				}
			case *model.EndpointSlice:
				if k == model.KindEndpointSlice {
					f.add(&b, r)
				}
			case *model.WorkloadInstance:
				if k == model.KindPod {
					f.add(&b, r)
				}
			case *model.Node:
				if k == model.KindNode {
					f.add(&b, r)
				}
			case *model.Namespace:
				if k == model.KindNamespace {
					f.add(&b, r)
				}
			case gone:
				if k == r.kind {
					b.Deletes = append(b.Deletes, model.NamespacedName{Namespace: "n", Name: r.name})
				}
			}
		}
		batches = append(batches, b)
	}
	f.round(f.t, batches...)
}

type gone struct {
	kind model.Kind
	name string
}

// served returns the last numbers of the addresses that clients are given.
func (f *fleet) served() (list []int) {
	for svc := range f.store.Load().Services() {
		for c := range svc.Candidates(svc.Definition.Ports[0]) {
			if c.Served() {
				list = append(list, int(c.Endpoint.Addr[15]))
			}
		}
	}
	slices.Sort(list)
	return list
}

func (f *fleet) want(when string, list ...int) {
	f.t.Helper()
	if got := f.served(); !slices.Equal(got, list) {
		f.t.Fatalf("%s: served are %v, want %v", when, got, list)
	}
}

func (f *fleet) after(d time.Duration) { f.now = f.now.Add(d); f.round(f.t) }

// TestMovingEndpoints: p2 leaves slice s1 in the first round of each case.
func TestMovingEndpoints(t *testing.T) {
	const most = kube.MoveHold - time.Millisecond
	left := slice("s1", endpoint("p1", 1))
	tests := map[string]func(f *fleet){
		"another slice takes it over": func(f *fleet) {
			f.say(slice("s2", endpoint("p2", 2), endpoint("p3", 3)))
			f.want("taken over", 1, 2, 3)
			if next := f.core.Next(); !next.IsZero() {
				f.t.Fatalf("the hold goes on until %v", next)
			}
			f.say(slice("s2", endpoint("p3", 3)), slice("s3", endpoint("p2", 2)))
			f.want("and again", 1, 2, 3)
			f.say(gone{model.KindEndpointSlice, "s3"})
			f.after(most)
			f.want("held anew", 1, 2, 3)
			f.after(time.Millisecond)
			f.want("over", 1, 3)
		},
		"two slices drop it at once": func(f *fleet) {
			f.say(slice("s2", endpoint("p2", 2), endpoint("p3", 3)), slice("s3", endpoint("p2", 2)))
			f.say(slice("s2", endpoint("p3", 3)), slice("s3"))
			f.want("held", 1, 2, 3)
			f.after(kube.MoveHold)
			f.want("over", 1, 3)
		},
		"another slice has it not ready": func(f *fleet) {
			e := endpoint("p2", 2)
			e.Conditions = 0
			f.say(slice("s2", e, endpoint("p3", 3)))
			f.want("not ready there", 1, 3)
		},
		"nobody takes it over": func(f *fleet) {
			if next := f.core.Next(); !next.Equal(f.now.Add(kube.MoveHold)) {
				f.t.Fatalf("Next is %v", next)
			}
			f.after(most)
			f.want("before the end", 1, 2, 3)
			f.after(time.Millisecond)
			f.want("at the end", 1, 3)
		},
		"each hold has an end of its own": func(f *fleet) {
			start := f.now
			f.now = start.Add(40 * time.Millisecond)
			f.say(slice("s1")) // p1 leaves
			f.now = start.Add(60 * time.Millisecond)
			f.say(slice("s1", endpoint("p2", 2)))
			f.now = start.Add(80 * time.Millisecond)
			f.say(slice("s1")) // p2 leaves anew
			for _, end := range []struct{ at, last int }{{140, 1}, {180, 2}} {
				if next := f.core.Next(); !next.Equal(start.Add(time.Duration(end.at) * time.Millisecond)) {
					f.t.Fatalf("Next is %v after the start, want %d ms", next.Sub(start), end.at)
				}
				f.now = start.Add(time.Duration(end.at-1) * time.Millisecond)
				f.round(f.t)
				if !slices.Contains(f.served(), end.last) {
					f.t.Fatalf("%d went before %d ms", end.last, end.at)
				}
				f.now = f.now.Add(time.Millisecond)
				f.round(f.t)
				if slices.Contains(f.served(), end.last) {
					f.t.Fatalf("%d is there at %d ms", end.last, end.at)
				}
			}
		},
		"it comes back": func(f *fleet) {
			f.say(slice("s1", endpoint("p1", 1), endpoint("p2", 2)))
			f.after(2 * kube.MoveHold)
			f.want("for good", 1, 2, 3)
		},
		"its pod becomes unready": func(f *fleet) { f.say(webPod("p2", 2, 0)); f.want("at once", 1, 3) },
		"its pod terminates":      func(f *fleet) { f.say(webPod("p2", 2, model.Ready|model.Terminating)); f.want("at once", 1, 3) },
		"its pod ends":            func(f *fleet) { f.say(webPod("p2", 2, model.Finished)); f.want("at once", 1, 3) },
		"its pod goes":            func(f *fleet) { f.say(gone{model.KindPod, "p2"}); f.want("at once", 1, 3) },
		"its pod is another one":  func(f *fleet) { p := webPod("p2", 2, model.Ready); p.UID = uids[0]; f.say(p); f.want("at once", 1, 3) },
		"its pod changes its label": func(f *fleet) {
			p := webPod("p2", 2, model.Ready)
			p.Labels = model.Labels{}
			f.say(p)
			f.want("held", 1, 2, 3)
		},
		"the slice goes as well": func(f *fleet) {
			f.say(gone{model.KindEndpointSlice, "s1"})
			f.want("held", 1, 2, 3)
			f.after(kube.MoveHold)
			f.want("over", 3)
		},
		"the slice and its pods go in one round": func(f *fleet) {
			f.say(gone{model.KindEndpointSlice, "s1"}, gone{model.KindPod, "p1"}, webPod("p2", 2, 0))
			f.want("at once", 3)
			f.after(kube.MoveHold)
			f.want("nobody is there", 3)
		},
		"another slice gets the row of one that went": func(f *fleet) {
			f.say(gone{model.KindEndpointSlice, "s1"}, gone{model.KindPod, "p1"}, webPod("p2", 2, 0))
			f.want("at once", 3)
			f.say(slice("s4", endpoint("p1", 1)))
			f.after(kube.MoveHold)
			f.want("a slice with the same row id", 3)
		},
		"the slice goes and is made again": func(f *fleet) {
			f.say(gone{model.KindEndpointSlice, "s1"})
			f.say(slice("s1", endpoint("p1", 1)))
			f.want("held", 1, 2, 3)
			f.after(kube.MoveHold)
			f.want("over", 1, 3)
		},
		"the slice joins another service": func(f *fleet) {
			db := webService()
			db.Key.Host, db.Name = "db.n.svc.cluster.local", "db"
			s := slice("s1")
			s.Service = "db"
			f.say(db, s)
			f.want("p1 left web, not a slice of web", 3)
		},
		"the Service goes": func(f *fleet) {
			f.say(gone{model.KindService, "web"})
			f.want("at once")
			f.say(webService())
			f.want("back within the hold", 1, 2, 3)
			f.after(kube.MoveHold)
			f.want("over", 1, 3)
		},
		"a re-list without it": func(f *fleet) {
			b := f.batch(moveSource, model.KindEndpointSlice, 1)
			b.SnapshotStart, b.SnapshotEnd = true, true
			b.Slices = []*model.EndpointSlice{left, slice("s2", endpoint("p3", 3))}
			f.round(f.t, b)
			f.want("held", 1, 2, 3)
			f.after(kube.MoveHold)
			f.want("over", 1, 3)
		},
		"a rotation meanwhile": func(f *fleet) {
			for _, k := range kindsOf(moveSource) {
				b := f.batch(moveSource, k, 2)
				b.SnapshotStart, b.SnapshotEnd = true, true
				for _, row := range f.said(moveSource, k) {
					f.add(&b, f.again(row))
				}
				f.want("make before break", 1, 2, 3)
				f.round(f.t, b)
			}
			f.want("what the new epoch says", 1, 3)
			f.epochs[moveSource] = 2
			f.say(slice("s2", endpoint("p2", 2), endpoint("p3", 3)))
			f.want("taken over", 1, 2, 3)
		},
		"the cluster goes": func(f *fleet) {
			f.round(f.t, model.Batch{Source: moveSource, Epoch: 1, Removed: true})
			f.want("at once")
			f.after(kube.MoveHold)
		},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.say(left)
			f.want("it left", 1, 2, 3)
			tests[name](f)
			f.settle(t)
		})
	}
}

// TestNeverMissing: an endpoint whose pod is ready and that changes slices within
// the hold is never missing in between, whatever else happens.
func TestNeverMissing(t *testing.T) { rapid.Check(t, neverMissing) }

func neverMissing(t *rapid.T) {
	const pods, slots = 4, 3
	f := &fleet{newWorld(), t}
	var in [pods][slots]bool // which slices have a pod
	ready := map[int]bool{}  // pods that are protected
	type write struct {
		at        time.Time
		pod, slot int
		has       bool
	}
	var writes []write
	busy := map[int]time.Time{}
	rows := []any{webService()}
	for p := range pods {
		in[p][p%slots], ready[p+1] = true, true
		rows = append(rows, webPod(fmt.Sprint("p", p+1), p+1, model.Ready))
	}
	current := func(s int) *model.EndpointSlice {
		row := slice(fmt.Sprint("s", s))
		for p := range pods {
			if in[p][s] {
				row.Endpoints = append(row.Endpoints, endpoint(fmt.Sprint("p", p+1), p+1))
			}
		}
		row.Version = f.version
		return row
	}
	for s := range slots {
		rows = append(rows, current(s))
	}
	f.say(rows...)
	for range rapid.IntRange(1, 60).Draw(t, "ticks") {
		f.now = f.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "ms")) * time.Millisecond)
		p := rapid.IntRange(0, pods-1).Draw(t, "pod")
		var changed []any
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0, 1, 2, 3: // two writes within the hold, in either order
			if f.now.Before(busy[p]) {
				break
			}
			from := slices.Index(in[p][:], true)
			to := (from + rapid.IntRange(1, slots-1).Draw(t, "to")) % slots
			// Ticks are up to 20 ms apart, and a write waits for the next one.
			drop := f.now.Add(time.Duration(rapid.IntRange(0, 79).Draw(t, "drop")) * time.Millisecond)
			take := f.now.Add(time.Duration(rapid.IntRange(0, 79).Draw(t, "take")) * time.Millisecond)
			writes = append(writes, write{drop, p, from, false}, write{take, p, to, true})
			busy[p] = f.now.Add(100 * time.Millisecond)
		case 4: // a change of the pod that does not matter
			w := webPod(fmt.Sprint("p", p+1), p+1, model.Ready)
			w.Placement.Node = fmt.Sprint("node", rapid.IntRange(0, 2).Draw(t, "node"))
			if ready[p+1] {
				changed = append(changed, w)
			}
		case 5:
			state := rapid.SampledFrom([]model.WorkloadState{0, model.Ready | model.Terminating}).Draw(t, "state")
			changed = append(changed, webPod(fmt.Sprint("p", p+1), p+1, state))
			delete(ready, p+1)
		case 6: // nothing new
			f.version++
			changed = append(changed, current(rapid.IntRange(0, slots-1).Draw(t, "slice")))
		}
		dirty := map[int]bool{}
		writes = slices.DeleteFunc(writes, func(w write) bool {
			if w.at.After(f.now) {
				return false
			}
			in[w.pod][w.slot] = w.has
			dirty[w.slot] = true
			return true
		})
		for _, s := range slices.Sorted(maps.Keys(dirty)) {
			row := current(s)
			if len(row.Endpoints) == 0 && rapid.Bool().Draw(t, "delete") {
				changed = slices.DeleteFunc(changed, func(c any) bool { o, ok := c.(*model.EndpointSlice); return ok && o.Object == row.Object })
				changed = append(changed, gone{model.KindEndpointSlice, row.Object.Name})
			} else {
				changed = append(changed, row)
			}
		}
		f.say(changed...)
		have := f.served()
		for last := range ready {
			if n := len(slices.DeleteFunc(slices.Clone(have), func(o int) bool { return o != last })); n != 1 {
				t.Fatalf("the endpoint of p%d is served %d times: %v", last, n, have)
			}
		}
	}
	f.settle(t)
}
