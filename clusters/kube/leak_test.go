package kube_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary/clusters/kube"
	"tributary/model"
)

type nobody struct{}

func (nobody) SvcUpdate(model.ServiceKey, *model.Service)                 {}
func (nobody) EDSUpdate(model.ShardKey, model.ServiceKey, []*model.Slice) {}
func noEntries(string) iter.Seq[*model.WorkloadInstance] {
	return slices.Values[[]*model.WorkloadInstance](nil)
}
func name(ns string, n int, prefix string) model.NamespacedName {
	return model.NamespacedName{Namespace: ns, Name: fmt.Sprint(prefix, n)}
}

// randomBatch says something about a few of few objects.
func randomBatch(rnd *rand.Rand, epoch uint64) model.Batch {
	b := model.Batch{Source: model.ShardKey{Provider: model.Kubernetes, Cluster: "a"}, Epoch: epoch, Kind: model.Kind(rnd.IntN(int(model.Kinds)))}
	for _, n := range rnd.Perm(6)[:rnd.IntN(6)] {
		ns := fmt.Sprint("n", rnd.IntN(2))
		labels := model.NewLabels(map[string]string{"app": fmt.Sprint(rnd.IntN(5))})
		switch {
		case b.Kind.Optional() && rnd.IntN(4) == 0:
			b.Deletes = append(b.Deletes, model.NamespacedName{Name: fmt.Sprint([...]string{"", "n"}[b.Kind-model.KindNode], n)})
		case b.Kind == model.KindNode:
			b.Nodes = append(b.Nodes, &model.Node{Name: fmt.Sprint(n), Locality: model.Locality(fmt.Sprint("r", rnd.IntN(2)))})
		case b.Kind == model.KindNamespace:
			b.Namespaces = append(b.Namespaces, &model.Namespace{Name: fmt.Sprint("n", n), Labels: labels})
		case rnd.IntN(4) == 0:
			b.Deletes = append(b.Deletes, name(ns, n, [...]string{"svc", "slice", "pod"}[b.Kind]))
		case b.Kind == model.KindService:
			o := name(ns, n, "svc")
			b.Services = append(b.Services, &model.Service{Key: model.ServiceKey{Host: o.Name + "." + ns, Namespace: ns}, Registry: b.Source, Name: o.Name, Selector: labels})
		case b.Kind == model.KindPod:
			o := name(ns, n, "pod")
			b.Workloads = append(b.Workloads, &model.WorkloadInstance{Name: o.Name, UID: model.UID{byte(rnd.IntN(2))}, Labels: labels, State: model.WorkloadState(rnd.IntN(4)),
				Identity: &model.Identity{Cluster: "a", Namespace: ns, ServiceAccount: fmt.Sprint(rnd.IntN(4))}, Placement: &model.Placement{Node: fmt.Sprint(rnd.IntN(4))}})
		default:
			s := &model.EndpointSlice{Object: name(ns, n, "slice"), Service: fmt.Sprint("svc", rnd.IntN(6))}
			for last := range rnd.IntN(8) {
				s.Endpoints = append(s.Endpoints, model.SliceEndpoint{Addr: model.Addr{15: byte(last + 1)}, Pod: fmt.Sprint("pod", rnd.IntN(6)),
					UID: model.UID{byte(rnd.IntN(2))}, Conditions: model.EndpointReady})
			}
			b.Slices = append(b.Slices, s)
		}
	}
	b.SnapshotStart, b.SnapshotEnd = rnd.IntN(8) == 0, rnd.IntN(8) == 0
	return b
}

// TestNothingIsLeft: after any history, with rotations of all kinds, a registry
// whose objects are all gone and one that is closed hold nothing.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		rules := kube.Rules{}
		if seed%2 == 1 {
			rules.Discovery, _ = kube.ParseSelectors([]metav1.LabelSelector{{MatchLabels: map[string]string{"app": "1"}}})
		}
		r := kube.NewRegistry("a", rules, noEntries)
		now, epoch := time.Unix(0, 0), uint64(1)
		for range 400 {
			if rnd.IntN(10) == 0 {
				epoch++
			}
			b := randomBatch(rnd, epoch-uint64(rnd.IntN(2))%epoch)
			r.Apply(&b)
			if rnd.IntN(3) > 0 {
				now = now.Add(time.Duration(rnd.IntN(40)) * time.Millisecond)
				r.Derive(now, nobody{})
			}
		}
		if rnd.IntN(2) == 0 {
			for k := range model.Kinds {
				r.Apply(&model.Batch{Epoch: epoch, Kind: k, SnapshotStart: true, SnapshotEnd: true})
			}
		} else {
			r.Close()
		}
		r.Derive(now, nobody{})
		now = now.Add(kube.MoveHold)
		r.Derive(now, nobody{})
		r.Next() // drops what is over
		for what, n := range kube.Sizes(r) {
			if n != 0 {
				t.Fatalf("seed %d: %d %s are left: %v", seed, n, what, kube.Sizes(r))
			}
		}
	}
}

// TestThousandRotations: rotations leave a registry as large as it was.
func TestThousandRotations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	r := kube.NewRegistry("a", kube.Rules{}, noEntries)
	var said []model.Batch
	for range 60 {
		b := randomBatch(rnd, 0)
		b.SnapshotStart, b.SnapshotEnd = false, false
		said = append(said, b)
	}
	replay := func(epoch uint64, batches []model.Batch, kinds model.Kind) {
		for k := range kinds {
			r.Apply(&model.Batch{Epoch: epoch, Kind: k, SnapshotStart: true})
		}
		for _, b := range batches {
			b.Epoch = epoch
			if b.Kind < kinds {
				r.Apply(&b)
			}
		}
		for k := range kinds {
			r.Apply(&model.Batch{Epoch: epoch, Kind: k, SnapshotEnd: true})
		}
		r.Derive(time.Unix(int64(epoch), 0), nobody{})
	}
	replay(1, said, model.Kinds)
	r.Derive(time.Unix(2, 0), nobody{})
	r.Next()
	before := kube.Sizes(r)
	for epoch := uint64(2); epoch < 1002; epoch++ {
		switch rnd.IntN(3) {
		case 0:
			replay(epoch, said, model.Kind(1+rnd.IntN(2))) // superseded before it is complete
		case 1:
			replay(epoch, said[:rnd.IntN(len(said))], model.Kinds) // differs
		default:
			replay(epoch, said, model.Kinds)
		}
	}
	replay(2000, said, model.Kinds)
	r.Derive(time.Unix(3000, 0), nobody{})
	r.Next()
	if after := kube.Sizes(r); !maps.Equal(before, after) {
		t.Fatalf("before %v\nafter  %v", before, after)
	}
}
