package aggregate

import (
	"cmp"
	"hash/fnv"
	"slices"

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
			a.dirty[key] = struct{}{}
		}
	}
}

// drained marks the endpoints of one service in one shard that are not in the
// share that is left. What is served with a smaller share is also served with a
// greater one. Which addresses go first is decided by their hash, so that a pod
// leaves all its services at about the same step. Where a share is no whole
// number of addresses, the hash of the service decides how it is rounded:
// services with one endpoint each leave in portions too, one by one.
func drained(key model.ServiceKey, list []*model.Slice, share uint8) []*model.Slice {
	order := map[model.Addr]uint64{}
	var addresses []model.Addr
	for _, s := range list {
		for i := range s.Endpoints {
			addr := s.Endpoints[i].Addr
			if _, known := order[addr]; !known {
				order[addr] = hash(addr[:])
				addresses = append(addresses, addr)
			}
		}
	}
	slices.SortFunc(addresses, func(a, b model.Addr) int { return cmp.Or(cmp.Compare(order[a], order[b]), a.Compare(b)) })
	left := (len(addresses)*int(share) + int(hash([]byte(key.String()))%whole)) / whole
	leaves := make(map[model.Addr]bool, len(addresses)-left)
	for _, addr := range addresses[left:] {
		leaves[addr] = true
	}
	marked := slices.Clone(list)
	for i, s := range list {
		c := *s
		c.Endpoints = slices.Clone(s.Endpoints)
		for j := range c.Endpoints {
			if leaves[c.Endpoints[j].Addr] {
				c.Endpoints[j].Flags |= model.EndpointDrained
			}
		}
		marked[i] = &c
	}
	return marked
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}
