package xds

import (
	"iter"
	"slices"
	"sync/atomic"

	"tributary/model"
	"tributary/shards"
)

// changes is the names that may have changed from one revision to another,
// sorted. It is immutable, but for what it remembers.
type changes struct {
	since, until uint64
	names        []string
	owners       map[string]*owner // of those names that only one service has
	restricted   []restricted
}

// restricted is the names of a service that not every client is shown.
type restricted struct {
	service *shards.Service
	names   []string
}

// owner is the one service that has a name, whoever asks, and what was rendered
// of it: a release wakes all streams, and they ask for the same.
type owner struct {
	service  *shards.Service
	port     model.Port
	resource atomic.Pointer[Resource]
}

// last returns what the last clients like this one were answered.
func (v *view) last(of *[classes][2]atomic.Pointer[changes]) *atomic.Pointer[changes] {
	tls := 0
	if v.node.TLS {
		tls = 1
	}
	return &of[v.node.Class][tls]
}

// changed returns the names of resources of a type that may have changed since a
// revision, be it that they came or went. The list is shared.
func (v *view) changed(url string, since uint64) []string {
	var last *atomic.Pointer[changes]
	var services iter.Seq[*shards.Service]
	switch url {
	case ClusterType:
		last, services = v.last(&v.changedClusters), v.snapshot.DefinitionsSince(since)
	case EndpointType:
		last, services = v.last(&v.changedEndpoints), v.snapshot.Since(since)
	case RouteType:
		return v.changedRouteNames(since)
	default:
		return nil
	}
	until := v.snapshot.Revision
	if c := last.Load(); c != nil && c.since == since && c.until == until {
		return c.of(v.node.Namespace)
	}
	c := &changes{since: since, until: until, owners: map[string]*owner{}}
	for s := range services {
		start := len(c.names)
		if s.Definition != nil {
			d := s.Definition
			alone := url == EndpointType && d.Visibility() == model.Everywhere && !d.NodeLocal() && v.alone(s.Key.Host)
			for _, p := range s.Definition.Ports {
				name := clusterName(p.Number, "", s.Key.Host)
				c.names = append(c.names, name)
				if port, ok := v.node.Class.clusterPort(s.Definition, p.Number); ok && alone && v.node.Class.Balances(d, port) {
					c.owners[name] = &owner{service: s, port: port}
				}
			}
		}
		for _, p := range s.RemovedPorts {
			if p.Revision > since {
				c.names = append(c.names, clusterName(p.Number, "", s.Key.Host))
			}
		}
		if !s.ShownToAllSince(since) {
			c.restricted = append(c.restricted, restricted{s, slices.Clone(c.names[start:])})
			c.names = c.names[:start]
		}
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	last.Store(c)
	return c.of(v.node.Namespace)
}

// byTarget reports whether a type's names are what clients of this class dial:
// many names lead to one service, so which of them a definition concerns is found
// by looking at those that a client has, which are few.
func (v *view) byTarget(url string) bool {
	return v.node.Class == GRPC && (url == ListenerType || url == RouteType)
}

// changedRouteNames is changed for routes. That of a port depends on the services
// that have it, and on their aliases; the snapshot keeps when those changed last.
func (v *view) changedRouteNames(since uint64) []string {
	if v.snapshot.DefinitionRevision <= since {
		return nil
	}
	if c := v.changedRoutes.Load(); c != nil && c.since == since && c.until == v.snapshot.Revision {
		return c.names
	}
	c := &changes{since: since, until: v.snapshot.Revision, names: []string{proxyName}}
	for port := range v.snapshot.PortsSince(since) {
		c.names = append(c.names, routeName(port))
	}
	slices.Sort(c.names)
	v.changedRoutes.Store(c)
	return c.names
}

// of returns the names for clients of a namespace: without those of services
// that were not shown to them, before or after.
func (c *changes) of(namespace string) []string {
	names := slices.Clip(c.names)
	for _, r := range c.restricted {
		if r.service.ShownSince(c.since, namespace) {
			names = append(names, r.names...)
		}
	}
	if len(names) > len(c.names) {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// alone reports whether only one service has a host.
func (v *view) alone(host string) bool {
	n := 0
	for range v.snapshot.Host(host) {
		if n++; n > 1 {
			return false
		}
	}
	return n == 1
}

// owned returns the assignment of a name that has one owner.
func (v *view) owned(name string, o *owner) *Resource {
	if r := o.resource.Load(); r != nil {
		return r
	}
	r := v.endpoints(name, o.service, o.port)
	o.resource.Store(r)
	return r
}
