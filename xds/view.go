package xds

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"tributary/model"
	"tributary/shards"
)

// renderer renders resources of any snapshot through one cache.
type renderer struct {
	cache      *cache
	quarantine *quarantine // nil: nothing is

	responseBytes int       // largest response; 0: any
	encoders      sync.Pool // *encoder
	failed        func(url, name string, err error)

	// The last answers of view.changed: most streams ask with the same cursor.
	changedClusters, changedEndpoints [classes][2]atomic.Pointer[changes]
	changedRoutes                     atomic.Pointer[changes]
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
		if s, p, ok := v.service(name); ok {
			return v.cluster(name, s, p)
		}
	case EndpointType:
		if c := v.last(&v.changedEndpoints).Load(); c != nil && c.until == v.snapshot.Revision {
			if o := c.owners[name]; o != nil {
				return v.owned(name, o)
			}
		}
		if s, p, ok := v.service(name); ok && v.node.Class.Balances(s.Definition, p) {
			return v.endpoints(name, s, p)
		}
		return emptyAssignment(name)
	case ListenerType:
		if v.node.Class == GRPC {
			return v.grpcListener(name)
		}
		if name == proxyName {
			return v.listener()
		}
	case RouteType:
		if v.node.Class == GRPC {
			return v.grpcRoutes(name)
		}
		if name == proxyName {
			return v.routes()
		}
		if port, ok := parseRouteName(name); ok {
			return v.portRoutes(name, port)
		}
	}
	return nil
}

// all yields every resource of a type, for clients that subscribe to all.
func (v *view) all(url string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		switch url {
		case ClusterType, EndpointType:
			for s, p := range v.ports(0) {
				if url == EndpointType && !v.node.Class.Balances(s.Definition, p) {
					continue
				}
				if r := v.get(url, clusterName(p.Number, "", s.Key.Host)); r != nil && !yield(r) {
					return
				}
			}
		case ListenerType:
			if r := v.get(url, proxyName); r != nil {
				yield(r)
			}
		case RouteType:
			if v.node.Class == GRPC {
				return // it asks by name
			}
			ports := map[uint16]struct{}{}
			for _, p := range v.ports(0) {
				if routed(p) {
					ports[p.Number] = struct{}{}
				}
			}
			for _, port := range slices.Sorted(maps.Keys(ports)) {
				if r := v.get(url, routeName(port)); r != nil && !yield(r) {
					return
				}
			}
			if r := v.get(url, proxyName); r != nil {
				yield(r)
			}
		}
	}
}

// ports yields every port that has a cluster, with the service that defines it
// for this client, ordered by host and number; those with that number, if it is
// not 0.
func (v *view) ports(number uint16) iter.Seq2[*shards.Service, model.Port] {
	return func(yield func(*shards.Service, model.Port) bool) {
		for s := range v.snapshot.Services() {
			for _, p := range s.Definition.Ports {
				if number != 0 && p.Number != number {
					continue
				}
				if chosen, port, ok := v.owner(s.Key.Host, p.Number); ok && chosen == s && port == p && !yield(s, p) {
					return
				}
			}
		}
	}
}

// service returns the service and port that a cluster name stands for.
func (v *view) service(name string) (*shards.Service, model.Port, bool) {
	number, subset, host, ok := parseClusterName(name)
	if !ok || subset != "" {
		return nil, model.Port{}, false
	}
	return v.owner(host, number)
}

// owner returns the service that defines a port of a host, of those that the
// client is shown. Of several namespaces the client's own comes first, then one
// with a Kubernetes Service, then the oldest (I:1E). Each port is decided alone,
// so that a change of one service changes no names but its own.
func (v *view) owner(host string, number uint16) (best *shards.Service, port model.Port, ok bool) {
	for s := range v.snapshot.Host(host) {
		if p, has := v.node.Class.clusterPort(s.Definition, number); has && s.Definition.Visibility().To(v.node.Namespace) && (best == nil || v.prefers(s, best)) {
			best, port = s, p
		}
	}
	return best, port, best != nil
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
	key := cacheKey{url: ClusterType, class: v.node.Class, tls: v.node.TLS, owner: s.Definition, port: p.Number}
	return v.cache.get(key, func() *Resource {
		return v.check(ClusterType, name, func() (*Resource, error) {
			if v.node.Class == GRPC {
				return renderGRPCCluster(name)
			}
			return renderCluster(name, s.Definition, p, v.node.Class.reaches(s.Definition, p), v.node.TLS)
		})
	})
}

func (v *view) endpoints(name string, s *shards.Service, p model.Port) *Resource {
	key := cacheKey{url: EndpointType, class: v.node.Class, tls: v.node.TLS, owner: s, port: p.Number}
	if s.Definition.NodeLocal() {
		key.scope = string(v.node.Cluster) + "/" + v.node.NodeName
	}
	return v.cache.get(key, func() *Resource {
		e, _ := v.encoders.Get().(*encoder)
		if e == nil {
			e = &encoder{}
		}
		defer v.encoders.Put(e)
		e.leaveOut, e.tls, e.unique = nil, v.node.TLS, v.node.Class == GRPC
		if s.Definition.NodeLocal() {
			e.leaveOut = v.elsewhere
		}
		return v.check(EndpointType, name, func() (*Resource, error) {
			return newResource(EndpointType, name, e.assignment(name, s, p)), nil
		})
	})
}

// elsewhere reports whether an endpoint is not on the client's node. Where that
// is not known, everything is elsewhere.
func (v *view) elsewhere(c shards.Candidate) bool {
	w := c.Endpoint.Workload
	return v.node.NodeName == "" || c.Shard.Cluster != v.node.Cluster || w == nil || w.Placement == nil || w.Placement.Node != v.node.NodeName
}

func (v *view) listener() *Resource {
	return v.cache.get(cacheKey{url: ListenerType, class: v.node.Class, port: v.node.ProxyPort}, func() *Resource {
		return v.check(ListenerType, proxyName, func() (*Resource, error) { return renderProxyListener(v.node.ProxyPort) })
	})
}

func (v *view) routes() *Resource {
	key := cacheKey{url: RouteType, class: v.node.Class, owner: v.snapshot.DefinitionRevision, scope: v.node.Namespace + "/" + v.node.Domain}
	return v.cache.get(key, func() *Resource {
		return v.check(RouteType, proxyName, func() (*Resource, error) {
			return renderProxyRoutes(v)
		})
	})
}

// portRoutes returns the routes of a port. Its inputs are the services that have
// the port and their aliases, in the state of their last change, and the client's
// namespace, domain and cluster.
func (v *view) portRoutes(name string, port uint16) *Resource {
	key := cacheKey{url: RouteType, class: v.node.Class, owner: v.snapshot.PortRevision(port), port: port,
		scope: v.node.Namespace + "/" + v.node.Domain + "/" + string(v.node.Cluster)}
	return v.cache.get(key, func() *Resource {
		return v.check(RouteType, name, func() (*Resource, error) { return renderPortRoutes(v, name, port) })
	})
}

// check renders and reports what cannot be rendered, or what a gRPC client would
// refuse; the resource is left out then, and its siblings go without it.
func (v *view) check(url, name string, render func() (*Resource, error)) *Resource {
	r, err := render()
	if err == nil && v.node.Class == GRPC {
		err = grpcRules(url, name, r.Body())
	}
	if err != nil {
		v.failed(url, name, err)
		return nil
	}
	return r
}
