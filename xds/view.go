package xds

import (
	"iter"
	"sync"

	"tributary/model"
	"tributary/shards"
)

// renderer renders resources of any snapshot through one cache.
type renderer struct {
	cache    *cache
	encoders sync.Pool // *encoder
	failed   func(url, name string, err error)
}

// view is one snapshot as one client sees it.
type view struct {
	*renderer
	snapshot *shards.Snapshot
	node     *Node
}

// get returns the resource of that name; nil if there is none.
func (v *view) get(url, name string) *Resource {
	switch url {
	case ClusterType:
		if s, p, ok := v.service(name); ok && hasCluster(s.Definition, p) {
			return v.cluster(name, s, p)
		}
	case EndpointType:
		if s, p, ok := v.service(name); ok && hasCluster(s.Definition, p) {
			return v.endpoints(name, s, p)
		}
		return emptyAssignment(name)
	case ListenerType:
		if name == proxyName {
			return v.listener()
		}
	case RouteType:
		if name == proxyName {
			return v.routes()
		}
	}
	return nil
}

// all yields every resource of a type, for clients that subscribe to all.
func (v *view) all(url string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		switch url {
		case ClusterType, EndpointType:
			for s := range v.snapshot.Services() {
				for _, p := range s.Definition.Ports {
					// By name, as a host may be defined in several namespaces.
					name := clusterName(p.Number, "", s.Key.Host)
					if chosen, _, ok := v.service(name); !ok || chosen != s {
						continue
					}
					if r := v.get(url, name); r != nil && hasCluster(s.Definition, p) && !yield(r) {
						return
					}
				}
			}
		case ListenerType, RouteType:
			if r := v.get(url, proxyName); r != nil {
				yield(r)
			}
		}
	}
}

// changed yields the names of resources of a type that may have changed since a
// revision, be it that they came or went.
func (v *view) changed(url string, since uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch url {
		case ClusterType:
			changedClusters(v.snapshot.DefinitionsSince(since), since, yield)
		case EndpointType:
			changedClusters(v.snapshot.Since(since), since, yield)
		case RouteType:
			for range v.snapshot.DefinitionsSince(since) {
				yield(proxyName)
				return
			}
		}
	}
}

func changedClusters(services iter.Seq[*shards.Service], since uint64, yield func(string) bool) {
	for s := range services {
		if s.Definition != nil {
			for _, p := range s.Definition.Ports {
				if !yield(clusterName(p.Number, "", s.Key.Host)) {
					return
				}
			}
		}
		for _, p := range s.RemovedPorts {
			if p.Revision > since && !yield(clusterName(p.Number, "", s.Key.Host)) {
				return
			}
		}
	}
}

// service returns the service and port that a cluster name stands for. Of
// several namespaces that define the host, the client's own comes first, then
// one with a Kubernetes Service, then the oldest (I:1E).
func (v *view) service(name string) (*shards.Service, model.Port, bool) {
	number, subset, host, ok := parseClusterName(name)
	if !ok || subset != "" {
		return nil, model.Port{}, false
	}
	var best *shards.Service
	for s := range v.snapshot.Host(host) {
		if best == nil || v.prefers(s, best) {
			best = s
		}
	}
	if best == nil {
		return nil, model.Port{}, false
	}
	p, ok := best.Definition.Port(number)
	return best, p, ok
}

func (v *view) prefers(a, b *shards.Service) bool {
	if own := a.Key.Namespace == v.node.Namespace; own != (b.Key.Namespace == v.node.Namespace) {
		return own
	}
	wa, wb := a.Definition.Winner, b.Definition.Winner
	if ka := wa.Registry.Provider == model.Kubernetes; ka != (wb.Registry.Provider == model.Kubernetes) {
		return ka
	}
	return wa.Created < wb.Created
}

func (v *view) cluster(name string, s *shards.Service, p model.Port) *Resource {
	return v.cache.get(cacheKey{url: ClusterType, owner: s.Definition, port: p.Number}, func() *Resource {
		return v.check(ClusterType, name, func() (*Resource, error) { return renderCluster(name, s.Definition, p) })
	})
}

func (v *view) endpoints(name string, s *shards.Service, p model.Port) *Resource {
	return v.cache.get(cacheKey{url: EndpointType, owner: s, port: p.Number}, func() *Resource {
		e, _ := v.encoders.Get().(*encoder)
		if e == nil {
			e = &encoder{}
		}
		defer v.encoders.Put(e)
		return newResource(EndpointType, name, e.assignment(name, s, p))
	})
}

func (v *view) listener() *Resource {
	return v.cache.get(cacheKey{url: ListenerType, port: v.node.ProxyPort}, func() *Resource {
		return v.check(ListenerType, proxyName, func() (*Resource, error) { return renderProxyListener(v.node.ProxyPort) })
	})
}

func (v *view) routes() *Resource {
	key := cacheKey{url: RouteType, owner: v.snapshot.DefinitionRevision, scope: v.node.Namespace + "/" + v.node.Domain}
	return v.cache.get(key, func() *Resource {
		return v.check(RouteType, proxyName, func() (*Resource, error) {
			return renderProxyRoutes(v.node.Namespace, v.node.Domain, func(yield func(*model.Definition) bool) {
				for s := range v.snapshot.Services() {
					if !yield(s.Definition) {
						return
					}
				}
			})
		})
	})
}

// check renders and reports what cannot be rendered; the resource is left out
// then, and its siblings go without it.
func (v *view) check(url, name string, render func() (*Resource, error)) *Resource {
	r, err := render()
	if err != nil {
		v.failed(url, name, err)
		return nil
	}
	return r
}
