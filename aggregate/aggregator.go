package aggregate

import (
	"iter"
	"maps"
	"slices"
	"time"

	"tributary/model"
)

// Aggregator is the state of the core.
type Aggregator struct {
	config     model.ClusterID // the config cluster, whose definitions win
	create     func(source model.ShardKey) Registry
	registries map[model.ShardKey]*source
	order      []model.ShardKey // keys of registries, sorted
	cross      crossRegister

	services map[model.ServiceKey]*serviceRow
	dirty    map[model.ServiceKey]struct{}

	// shares holds, for each cluster that is being drained, the part of its
	// endpoints that is served, in percent (share.go).
	shares map[model.ClusterID]uint8

	// gone holds the highest epoch of each source that was removed: what its
	// goroutines still say on their way out is ignored (I:6 B6).
	gone map[model.ShardKey]uint64
}

// source is a registry and the newest epoch that was heard of it.
type source struct {
	Registry
	epoch uint64
}

// New returns an empty core. create makes the registry of a source that is
// heard for the first time; definitions of cluster config win a merge.
func New(config model.ClusterID, create func(source model.ShardKey) Registry) *Aggregator {
	return &Aggregator{
		config: config, create: create,
		registries: map[model.ShardKey]*source{},
		cross:      newCrossRegister(),
		services:   map[model.ServiceKey]*serviceRow{},
		dirty:      map[model.ServiceKey]struct{}{},
		shares:     map[model.ClusterID]uint8{},
		gone:       map[model.ShardKey]uint64{},
	}
}

// Round applies the batches in their order, derives once what they touched and
// returns what changed. now decides only when holds end.
func (a *Aggregator) Round(now time.Time, batches []model.Batch) model.Delta {
	var delta model.Delta
	for i := range batches {
		b := &batches[i]
		if delta.Received.IsZero() || !b.Received.IsZero() && b.Received.Before(delta.Received) {
			delta.Received = b.Received
		}
		if b.Removed {
			a.remove(now, b, &delta)
		} else if b.Share != 0 {
			a.share(b)
		} else if r := a.registry(b); r != nil {
			r.Apply(b)
		}
	}
	for _, key := range a.order {
		r := a.registries[key]
		r.Derive(now, recorder{a, key})
		if s, ok := r.Synced(); ok {
			delta.Synced = append(delta.Synced, s)
		}
	}
	touched := slices.AppendSeq(make([]model.ServiceKey, 0, len(a.dirty)), maps.Keys(a.dirty))
	if len(touched) > 1 {
		slices.SortFunc(touched, model.ServiceKey.Compare)
	}
	for _, key := range touched {
		if d, changed := a.derive(key); changed {
			delta.Services = append(delta.Services, d)
		}
	}
	if len(a.dirty) > 256 {
		a.dirty = map[model.ServiceKey]struct{}{} // to empty a map costs what it could hold
	}
	clear(a.dirty)
	return delta
}

// registry returns the registry that b is for, nil if its epoch is over.
func (a *Aggregator) registry(b *model.Batch) Registry {
	if s := a.registries[b.Source]; s != nil {
		s.epoch = max(s.epoch, b.Epoch)
		return s
	}
	if last, gone := a.gone[b.Source]; gone && b.Epoch <= last {
		return nil
	}
	delete(a.gone, b.Source) // from here on the registry tells old epochs apart
	s := &source{a.create(b.Source), b.Epoch}
	a.registries[b.Source] = s
	i, _ := slices.BinarySearchFunc(a.order, b.Source, model.ShardKey.Compare)
	a.order = slices.Insert(a.order, i, b.Source)
	a.cross.add(b.Source, s.Registry)
	return s
}

// remove closes the registry of a source, lets it take back what it reported,
// and forgets it: what a newer epoch says in the same round finds a new one. A
// superseded epoch may not remove what a newer one has said (I:6 B1).
func (a *Aggregator) remove(now time.Time, b *model.Batch, delta *model.Delta) {
	s := a.registries[b.Source]
	if s != nil && b.Epoch < s.epoch {
		return
	}
	a.gone[b.Source] = max(a.gone[b.Source], b.Epoch)
	if s == nil {
		return
	}
	s.Close()
	a.cross.remove(b.Source)
	s.Derive(now, recorder{a, b.Source})
	if i, ok := slices.BinarySearchFunc(a.order, b.Source, model.ShardKey.Compare); ok {
		a.order = slices.Delete(a.order, i, i+1)
	}
	delete(a.registries, b.Source)
	if b.Source.Provider == model.Kubernetes {
		a.setShare(b.Source.Cluster, whole)
	}
	if !slices.Contains(delta.Gone, b.Source) {
		delta.Gone = append(delta.Gone, b.Source)
	}
}

// Next returns when Round has something to do even if no batch comes; zero if
// never.
func (a *Aggregator) Next() time.Time {
	var next time.Time
	for _, key := range a.order {
		if t := a.registries[key].Next(); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// WorkloadEntries yields the WorkloadEntries of a namespace, of all clusters.
// Registries of Kubernetes clusters join their services against it.
func (a *Aggregator) WorkloadEntries(namespace string) iter.Seq[*model.WorkloadInstance] {
	return a.workloads(namespace, EntriesToServices)
}

// Pods yields the pods of a namespace, of all clusters. The ServiceEntry store
// joins its services against it.
func (a *Aggregator) Pods(namespace string) iter.Seq[*model.WorkloadInstance] {
	return a.workloads(namespace, PodsToEntries)
}

// Switch turns a direction of cross-registration on or off; both are on at
// first. The next round shows the difference. Only the core's goroutine may call
// it.
func (a *Aggregator) Switch(d Direction, on bool) { a.cross.turn(d, on) }

// workloads reads the tables of their owners, in the order of sources: each
// workload is stored once, and a registry that comes late joins against all.
func (a *Aggregator) workloads(namespace string, d Direction) iter.Seq[*model.WorkloadInstance] {
	return func(yield func(*model.WorkloadInstance) bool) {
		if a.cross.off[d] {
			return
		}
		for _, key := range a.order {
			if directionFrom(key.Provider) != d {
				continue
			}
			for w := range a.registries[key].Workloads(namespace) {
				if !yield(w) {
					return
				}
			}
		}
	}
}
