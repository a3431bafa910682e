package aggregate

import "tributary/model"

// crossRegister wires the registries to each other:
//
//   - every Kubernetes registry -> the registries of ServiceEntries, whose
//     services select pods of every cluster;
//   - the registries of ServiceEntries -> every Kubernetes registry, whose
//     Services select WorkloadEntries, in every cluster.
//
// A handler is a plain call that marks dirty; nothing is derived before the
// round's batches are applied, so no call recurses. The index from namespace to
// the registries that select there makes an event free for all others.
type crossRegister struct {
	registries map[model.ShardKey]Registry
	selecting  map[string]map[model.ShardKey]Registry // by namespace
}

func newCrossRegister() crossRegister {
	return crossRegister{map[model.ShardKey]Registry{}, map[string]map[model.ShardKey]Registry{}}
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
		w := new
		if w == nil {
			w = old
		}
		for to, other := range c.selecting[w.Identity.Namespace] {
			if crosses(key.Provider, to.Provider) {
				other.WorkloadInstanceHandler(old, new)
			}
		}
	})
}

// crosses reports whether workloads of one kind of registry are offered to the
// services of another: only across the two kinds. Services of Kubernetes do not
// select pods of other clusters, and a ServiceEntry's own store needs no
// handler to find its WorkloadEntries.
func crosses(from, to model.Provider) bool {
	return (from == model.Kubernetes) != (to == model.Kubernetes)
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
