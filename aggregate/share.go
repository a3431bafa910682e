package aggregate

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"tributary/model"
)

// A cluster is drained in portions. When the next one is due is history, and is
// decided outside (package clusters); what comes here is an input row, the share
// that is left, from which follows which endpoints are served. It belongs to the
// cluster where a workload lives, not to a registry, so that it holds for
// services of whatever registry that have endpoints there.

// whole is the share of a cluster that is not being drained.
const whole = 100

// share takes in how much of a cluster is served. What is said of a source that
// is not there, or by an epoch that is over, changes nothing.
func (a *Aggregator) share(b *model.Batch) {
	if s := a.registries[b.Source]; s != nil && b.Epoch >= s.epoch && b.Source.Provider == model.Kubernetes {
		a.setShare(b.Source.Cluster, b.Share)
	}
}

func (a *Aggregator) setShare(c model.ClusterID, share uint8) {
	was, draining := a.shares[c]
	switch {
	case share >= whole && !draining, draining && share == was:
		return
	case share >= whole:
		delete(a.shares, c)
	default:
		a.shares[c] = share
	}
	// A step touches all that the cluster has, so looking at all services costs
	// no more than the step does.
	for key, row := range a.services {
		if slices.ContainsFunc(row.slices, func(r slicesRow) bool { return r.shard.Cluster == c }) {
			row.resliced = true
			a.dirty[key] = struct{}{}
		}
	}
}

// drained marks the endpoints of one service in one shard that are not in the
// share that is left. What is served with a smaller share is also served with a
// greater one. Workloads leave whole, with all their addresses and ports. Which
// go first is decided by the hash of their names, so that one leaves all its
// services at about the same step. Where a share is no whole number of workloads,
// the hash of the service decides how it is rounded: services of one workload
// each leave in portions too, one by one.
func drained(key model.ServiceKey, list []*model.Slice, share uint8) []*model.Slice {
	order := map[string]uint64{}
	for _, s := range list {
		for i := range s.Endpoints {
			name := leaver(&s.Endpoints[i])
			order[name] = hash(name)
		}
	}
	names := slices.SortedFunc(maps.Keys(order), func(a, b string) int { return cmp.Or(cmp.Compare(order[a], order[b]), strings.Compare(a, b)) })
	left := (len(names)*int(share) + int(hash(key.String())%whole)) / whole
	leaves := make(map[string]bool, len(names)-left)
	for _, name := range names[left:] {
		leaves[name] = true
	}
	marked := slices.Clone(list)
	for i, s := range list {
		c := *s
		c.Endpoints = slices.Clone(s.Endpoints)
		for j := range c.Endpoints {
			if leaves[leaver(&c.Endpoints[j])] {
				c.Endpoints[j].Flags |= model.EndpointDrained
			}
		}
		marked[i] = &c
	}
	return marked
}

// leaver names what leaves together: a workload, known or not, else an address.
func leaver(e *model.Endpoint) string {
	if e.Workload != nil {
		return e.Workload.Name
	}
	return e.Addr.String()
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}
