package debug

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"tributary/model"
	"tributary/shards"
)

// Counting by difference gives what counting anew gives, also when the store has
// forgotten removals, and when a count skips revisions.
func TestTallyByDifference(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		store := shards.NewStore(2)
		counted := newTally()
		for step := range 60 {
			var d model.Delta
			for i := range 6 {
				if random.IntN(3) == 0 {
					d.Services = append(d.Services, randomService(random, fmt.Sprintf("s%d", i)))
				}
			}
			snap := store.Apply(d)
			if random.IntN(3) == 0 {
				continue
			}
			fresh := newTally()
			if got, want := counted.count(snap), fresh.count(snap); got != want || !maps.Equal(counted.clusters, fresh.clusters) || !reflect.DeepEqual(counted.services, fresh.services) {
				t.Fatalf("seed %d, step %d: by difference %+v %v, anew %+v %v", seed, step, got, counted.clusters, want, fresh.clusters)
			}
		}
	}
}

func randomService(random *rand.Rand, host string) model.ServiceDelta {
	key := model.ServiceKey{Host: host, Namespace: "n"}
	if random.IntN(3) == 0 {
		return model.ServiceDelta{Key: key, Push: model.ServicePush}
	}
	definition := &model.Definition{Key: key}
	for i := range random.IntN(3) {
		definition.Ports = append(definition.Ports, model.Port{Name: fmt.Sprintf("p%d", i), Number: uint16(80 + i)})
	}
	d := model.ServiceDelta{Key: key, Push: model.ServicePush, Definition: definition}
	for c := range 3 {
		source := model.ShardKey{Provider: model.Kubernetes, Cluster: model.ClusterID(fmt.Sprintf("c%d", c))}
		if random.IntN(2) == 0 {
			definition.Sources = append(definition.Sources, &model.Service{Key: key, Registry: source})
		}
		shard := model.Shard{Key: source}
		for s := range random.IntN(3) {
			slice := &model.Slice{Cluster: source.Cluster, Object: model.NamespacedName{Namespace: "n", Name: fmt.Sprint(s)}}
			for p := range random.IntN(3) {
				slice.Ports = append(slice.Ports, model.SlicePort{Name: fmt.Sprintf("p%d", p), Number: uint16(8080 + p)})
			}
			for e := range random.IntN(4) {
				slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: model.Addr{15: byte(e)}, Flags: model.EndpointFlags(random.IntN(16))})
			}
			shard.Slices = append(shard.Slices, slice)
		}
		if len(shard.Slices) > 0 {
			d.Shards = append(d.Shards, shard)
		}
	}
	if len(definition.Sources) == 0 {
		definition.Sources = []*model.Service{{Key: key, Registry: model.ShardKey{Provider: model.Kubernetes, Cluster: "c0"}}}
	}
	definition.Winner = definition.Sources[0]
	return d
}
