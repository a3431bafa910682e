package xds

import (
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary/model"
	"tributary/shards"
)

// A gRPC client asks for a listener by the name that it was told to dial, as in
// xds:///HOST:PORT, for the routes that the listener names, and so on to the
// endpoints of one cluster. It refuses much that Envoy takes (package xdsresource
// of grpc-go): no transport_socket_matches, no cluster type but EDS, and of the
// load balancers only some (grpcrules.go checks what is rendered). Names of server
// listeners are not answered: what a server accepts is not ours to say.

// grpcTarget returns the service and port that a client means by the name that it
// dials: a host, perhaps in a short form that its namespace allows, and perhaps a
// port; without one the lowest that has a cluster: most gRPC services have one
// port, and of several the choice must not depend on how a registry lists them.
// An alias is followed to what it stands for.
func (v *view) grpcTarget(name string) (*shards.Service, model.Port, bool) {
	host, number := name, uint64(0)
	if h, port, ok := cutPort(name); ok {
		host, number = h, port
	}
	domain := "svc." + v.node.Domain
	forms := []string{host, host + "." + v.node.Domain, host + "." + domain, host + "." + v.node.Namespace + "." + domain}
	if !strings.HasSuffix(host, ".svc") {
		forms[1] = ""
	}
	if v.node.Namespace == "" || strings.Contains(host, ".") {
		forms[3] = ""
	}
	for _, form := range forms {
		if form == "" {
			continue
		}
		seen := map[string]bool{}
		for host := form; host != "" && !seen[host]; {
			seen[host] = true
			if s, p, ok := v.portOf(host, uint16(number)); ok {
				return s, p, true
			}
			host = v.aliasOf(host)
		}
	}
	return nil, model.Port{}, false
}

// cutPort parts HOST:PORT.
func cutPort(name string) (host string, port uint64, ok bool) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return "", 0, false
	}
	port, err := strconv.ParseUint(name[i+1:], 10, 16)
	return name[:i], port, err == nil && port > 0
}

// portOf returns the service that defines a port of a host for this client; 0 is
// the lowest port of the service that the client prefers.
func (v *view) portOf(host string, number uint16) (*shards.Service, model.Port, bool) {
	if number != 0 {
		return v.owner(host, number)
	}
	var numbers []uint16
	for s := range v.snapshot.Host(host) {
		for _, p := range s.Definition.Ports {
			numbers = append(numbers, p.Number)
		}
	}
	var best *shards.Service
	var port model.Port
	for _, n := range numbers {
		if s, p, ok := v.owner(host, n); ok && (best == nil || s != best && v.prefers(s, best) || s == best && p.Number < port.Number) {
			best, port = s, p
		}
	}
	return best, port, best != nil
}

// aliasOf returns the host that a host is another name of, to this client; "" if
// it is none.
func (v *view) aliasOf(host string) string {
	for s := range v.snapshot.Host(host) {
		if of := s.Definition.AliasOf(); of != "" && s.Definition.Visibility().To(v.node.Namespace) {
			return of
		}
	}
	return ""
}

// grpcListener returns the listener of that name; nil if it means nothing.
func (v *view) grpcListener(name string) *Resource {
	s, p, ok := v.grpcTarget(name)
	if !ok {
		return nil
	}
	routes := clusterName(p.Number, "", s.Key.Host)
	return v.cache.get(cacheKey{url: ListenerType, class: GRPC, owner: name, scope: routes}, func() *Resource {
		return v.check(ListenerType, name, func() (*Resource, error) { return renderGRPCListener(name, routes) })
	})
}

// grpcRoutes returns the routes of a listener. They have the name of the one
// cluster to which they lead.
func (v *view) grpcRoutes(name string) *Resource {
	if _, _, ok := v.service(name); !ok {
		return nil
	}
	return v.cache.get(cacheKey{url: RouteType, class: GRPC, owner: name}, func() *Resource {
		return v.check(RouteType, name, func() (*Resource, error) { return renderGRPCRoutes(name) })
	})
}

func renderGRPCListener(name, routes string) (*Resource, error) {
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return nil, err
	}
	manager, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix:     name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routes, ConfigSource: adsSource()}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}},
	})
	if err != nil {
		return nil, err
	}
	return encode(ListenerType, name, &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: manager}})
}

// renderGRPCRoutes routes whatever the client dials: which service it meant was
// decided by the name of the listener.
func renderGRPCRoutes(name string) (*Resource, error) {
	return encode(RouteType, name, &routev3.RouteConfiguration{
		Name: name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name: name, Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name}}},
			}},
		}},
	})
}

// renderGRPCCluster renders a cluster as grpc-go takes it. Its own limit of 1,024
// requests at a time is lifted, as for others: limits are policy, and none was set.
func renderGRPCCluster(name string) (*Resource, error) {
	return encode(ClusterType, name, &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: adsSource(), ServiceName: name},
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			{MaxRequests: noCircuitBreakers().Thresholds[0].MaxRequests},
		}},
	})
}
