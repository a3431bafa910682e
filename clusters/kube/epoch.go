package kube

import (
	"maps"
	"math"
	"slices"

	"tributary/model"
)

// A new epoch is make before break: with a new credential the same ID may even
// lead to another cluster, so what it says is collected beside the tables in
// force, and nothing of it is seen before it is complete. Then the tables are
// exchanged, and only what differs is marked.

// stage takes in a batch of an epoch newer than the one in force.
func (r *Registry) stage(b *model.Batch) {
	if r.staged == nil || b.Epoch > r.staged.epoch {
		if r.staged != nil {
			r.staged.release()
		}
		r.staged = newTables(r.shard.Cluster, b.Epoch, r.interns, &r.rules)
		r.staged.adopt = r.tables
	}
	r.staged.apply(b)
	r.staged.derive(clock{})
	if r.staged.synced() {
		r.exchange(r.staged)
		r.staged = nil
	}
}

// Close takes everything back: workloads from their handlers at once, services
// with the next Derive. A closed registry ignores every batch.
func (r *Registry) Close() {
	if r.staged != nil {
		r.staged.release()
		r.staged = nil
	}
	closed := newTables(r.shard.Cluster, math.MaxUint64, r.interns, &r.rules)
	if r.tables != nil {
		r.exchange(closed)
	}
	r.tables, r.reported = closed, true
}

// exchange puts next in force in place of the tables that were.
func (r *Registry) exchange(next *tables) {
	old := r.tables
	next.adopt = nil
	clear(next.dirty.services)
	for n, id := range next.sliceIDs {
		if oldID, ok := old.sliceIDs[n]; ok {
			a, b := old.slices.Get(oldID), next.slices.Get(id)
			if a.service == b.service && interchangeable(a.slice, b.slice) {
				b.slice = a.slice
			}
		}
	}
	for was, what := range old.dirty.services { // marked, not reported yet
		next.dirty.services[next.serviceRow(was.name)] |= what
	}
	for _, n := range sortedNames(old.services) {
		was := old.services[n]
		if was.key.Host == "" && next.services[n] == nil {
			continue // was never reported
		}
		row := next.serviceRow(n)
		row.key, row.shards, row.selected, row.selects = was.key, was.shards, was.selected, was.selects
		if !was.service.Equal(row.service) || old.shows(n.Namespace) != next.shows(n.Namespace) {
			next.dirty.services[row] |= dirtyDefinition
		}
		if !slices.Equal(old.slicesOf(was), next.slicesOf(row)) {
			next.dirty.services[row] |= dirtyEndpoints
		}
	}
	for n, row := range next.services {
		if old.services[n] == nil {
			next.dirty.services[row] |= dirtyDefinition
		}
	}
	r.tables, r.reported = next, false
	for _, ns := range sortedUnion(old.pods, next.pods) {
		for _, name := range sortedUnion(old.pods[ns], next.pods[ns]) {
			if was, is := old.shownPod(ns, name), next.shownPod(ns, name); !was.Equal(is) {
				r.announce(was, is)
			}
		}
	}
	next.onPod = r.announce
	old.release()
}

// interchangeable reports whether row a of an epoch may stand for row b of
// another: they mean the same and point to the same pods. Pods find their
// endpoints by pointer, so an equal one does not do; and what the slice says of
// the locality counts again once the pod says nothing.
func interchangeable(a, b *model.Slice) bool {
	return a.Equal(b) && slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y model.Endpoint) bool {
		return a.Given(&x) == b.Given(&y) && (x.Workload == y.Workload || x.Flags&model.EndpointMissing != 0)
	})
}

// slicesOf returns the slices of a service, sorted by object.
func (t *tables) slicesOf(row *serviceRow) []*model.Slice {
	var list []*model.Slice
	for _, id := range row.slices {
		list = append(list, t.slices.Get(id).slice)
	}
	slices.SortFunc(list, compareSlices)
	return list
}

// shownPod returns a pod that is announced; nil if there is none.
func (t *tables) shownPod(namespace, name string) *model.WorkloadInstance {
	if r := t.pods[namespace][name]; r != nil && t.shows(namespace) {
		return r.pod
	}
	return nil
}

func sortedUnion[V, W any](a map[string]V, b map[string]W) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

func sortedNames[V any](m map[model.NamespacedName]V) []model.NamespacedName {
	names := make([]model.NamespacedName, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	if len(names) > 1 {
		slices.SortFunc(names, model.NamespacedName.Compare)
	}
	return names
}
