package aggregate

import (
	"cmp"

	"tributary/model"
)

// crossRegister wires the registries to each other:
//
//   - every Kubernetes registry -> the registries of ServiceEntries, whose
//     services select pods of every cluster;
//   - the registries of ServiceEntries -> every Kubernetes registry, whose
//     Services select WorkloadEntries, in every cluster.
//
// Each direction has a switch, which may be turned while running.
//
// A handler is a plain call that marks dirty; nothing is derived before the
// round's batches are applied, so no call recurses. The index from namespace to
// the registries that select there makes an event free for all others.
type crossRegister struct {
	registries map[model.ShardKey]Registry
	selecting  map[string]map[model.ShardKey]Registry // by namespace
	off        map[Direction]bool
}

// Direction is a direction of cross-registration.
type Direction uint8

const (
	// PodsToEntries is that in which ServiceEntries select pods.
	PodsToEntries Direction = iota
	// EntriesToServices is that in which Services of Kubernetes select WorkloadEntries.
	EntriesToServices
)

// directionFrom returns the direction in which a provider's workloads go.
func directionFrom(p model.Provider) Direction {
	if p == model.Kubernetes {
		return PodsToEntries
	}
	return EntriesToServices
}

func newCrossRegister() crossRegister {
	return crossRegister{map[model.ShardKey]Registry{}, map[string]map[model.ShardKey]Registry{}, map[Direction]bool{}}
}

// turn switches a direction on or off: every registry that selects is told of
// the workloads that it may select now, or no longer.
func (c *crossRegister) turn(d Direction, on bool) {
	if c.off[d] == !on {
		return
	}
	c.off[d] = !on
	for namespace, in := range c.selecting {
		for from, r := range c.registries {
			if directionFrom(from.Provider) != d {
				continue
			}
			for w := range r.Workloads(namespace) {
				old, new := w, w
				if on {
					old = nil
				} else {
					new = nil
				}
				c.tell(from, in, old, new)
			}
		}
	}
}

// tell announces a workload of registry from to the registries of the other
// kind that select in its namespace. Services of Kubernetes do not select pods
// of other clusters, and a ServiceEntry's own store needs no handler to find its
// WorkloadEntries.
func (c *crossRegister) tell(from model.ShardKey, in map[model.ShardKey]Registry, old, new *model.WorkloadInstance) {
	for to, other := range in {
		if directionFrom(from.Provider) != directionFrom(to.Provider) {
			other.WorkloadInstanceHandler(old, new)
		}
	}
}

// add wires a new registry in both directions. It needs no replay of the
// workloads that others announced before: its services join against the shared
// tables when they come.
func (c *crossRegister) add(key model.ShardKey, r Registry) {
	c.registries[key] = r
	r.AppendSelectorHandler(func(namespace string, selects bool) {
		if _, wired := c.registries[key]; wired {
			c.note(namespace, key, r, selects)
		}
	})
	r.AppendWorkloadHandler(func(old, new *model.WorkloadInstance) {
		if !c.off[directionFrom(key.Provider)] {
			c.tell(key, c.selecting[cmp.Or(new, old).Identity.Namespace], old, new)
		}
	})
}

func (c *crossRegister) note(namespace string, key model.ShardKey, r Registry, selects bool) {
	in := c.selecting[namespace]
	if !selects {
		delete(in, key)
		if len(in) == 0 {
			delete(c.selecting, namespace)
		}
		return
	}
	if in == nil {
		in = map[model.ShardKey]Registry{}
		c.selecting[namespace] = in
	}
	in[key] = r
}

// remove unwires a registry. It was closed before, so that its workloads were
// taken back from everybody.
func (c *crossRegister) remove(key model.ShardKey) {
	delete(c.registries, key)
	for namespace, in := range c.selecting {
		delete(in, key)
		if len(in) == 0 {
			delete(c.selecting, namespace)
		}
	}
}
