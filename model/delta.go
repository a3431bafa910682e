package model

import "time"

// XDSUpdater is what registries report to. The aggregate gives each registry
// one of its own, which records who said what; nothing is pushed from inside a
// call.
type XDSUpdater interface {
	// SvcUpdate reports the registry's definition of a service; nil says that
	// it defines none (any more).
	SvcUpdate(key ServiceKey, svc *Service)
	// EDSUpdate reports all slices that the registry has for a service in one
	// shard, sorted by Slice.Object; an empty list says that it has none.
	EDSUpdate(shard ShardKey, key ServiceKey, slices []*Slice)
}

// WorkloadHandler is told of a workload that appeared (old is nil), changed,
// or went (new is nil). It is a plain call on the core's goroutine: it may mark
// what depends on the workload as dirty and must do no more.
type WorkloadHandler func(old, new *WorkloadInstance)

// Push tells how much of what clients have a change invalidates.
type Push uint8

const (
	// NoPush is for a change of nothing that a client sees.
	NoPush Push = iota
	// EndpointsPush is for endpoints only; clusters and routes stay as they are.
	EndpointsPush
	// ServicePush is for the definition, so clusters and routes too.
	ServicePush
)

func (p Push) String() string { return [...]string{"none", "endpoints", "service"}[p] }

// Shard is the endpoints of one service from one provider and cluster.
type Shard struct {
	Key    ShardKey
	Slices []*Slice // sorted by cluster of the slice, then Object
}

// ServiceDelta is the new state of one service.
type ServiceDelta struct {
	Key        ServiceKey
	Push       Push
	Definition *Definition // nil: the service is gone
	Shards     []Shard     // all of them, sorted by key; empty shards are left out
}

// Delta is everything that one round of the core changed, to be published as
// one snapshot.
type Delta struct {
	Services []ServiceDelta // sorted by key
	// Synced lists sources all of whose kinds had their first complete snapshot
	// applied in this round.
	Synced []Synced
	// Gone lists sources that were removed in this round.
	Gone []ShardKey
	// Received is the arrival of the oldest event in the round, for lag metrics.
	Received time.Time
}

// Empty reports whether nothing changed.
func (d *Delta) Empty() bool { return len(d.Services) == 0 && len(d.Synced) == 0 && len(d.Gone) == 0 }

// Synced says that a source is complete, with what it holds.
type Synced struct {
	Source    ShardKey
	Epoch     uint64
	Services  int
	Slices    int
	Workloads int
	Endpoints int
}
