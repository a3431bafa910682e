package xds

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
)

// grpcRules returns the first rule of grpc-go that an encoded resource breaks;
// nil if the client will take it. The rules are those of its package xdsresource,
// narrowed to what is rendered for it: a field that grpc-go takes but that is
// never rendered, such as a filter other than the router, is an error here, so
// that whoever renders it adds its rules. Two things that it would take, and pass
// over, are errors as well: a locality without a weight, whose endpoints are lost,
// and a resource of another name than asked for. It decodes the resource again,
// once for each that is rendered for gRPC: the assignments are encoded by hand, and
// what is to be checked is what will be sent.
func grpcRules(url, name string, body []byte) error {
	if err := brokenForGRPC(url, name, body); err != nil {
		return fmt.Errorf("for gRPC: %w", err)
	}
	return nil
}

func brokenForGRPC(url, name string, body []byte) error {
	var message proto.Message
	var rules func() error
	var named func() string
	switch url {
	case EndpointType:
		m := &endpointv3.ClusterLoadAssignment{}
		message, named, rules = m, m.GetClusterName, func() error { return grpcAssignment(m) }
	case ClusterType:
		m := &clusterv3.Cluster{}
		message, named, rules = m, m.GetName, func() error { return grpcCluster(m) }
	case ListenerType:
		m := &listenerv3.Listener{}
		message, named, rules = m, m.GetName, func() error { return grpcAPIListener(m) }
	case RouteType:
		m := &routev3.RouteConfiguration{}
		message, named, rules = m, m.GetName, func() error { return grpcRouteConfiguration(m) }
	default:
		return fmt.Errorf("nothing is known of type %s", url)
	}
	if err := proto.Unmarshal(body, message); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	if n := named(); n != name || n == "" {
		return fmt.Errorf("the resource is named %q", n)
	}
	return rules()
}

// grpcAssignment checks localities, weights, priorities and addresses.
func grpcAssignment(a *endpointv3.ClusterLoadAssignment) error {
	type where struct {
		priority              uint32
		region, zone, subZone string
	}
	localities, addresses := map[where]bool{}, map[string]bool{}
	weights := map[uint32]uint64{} // by priority
	for _, g := range a.Endpoints {
		l := g.Locality
		if l == nil {
			return errors.New("a group without a locality")
		}
		at := where{g.Priority, l.Region, l.Zone, l.SubZone}
		if localities[at] {
			return fmt.Errorf("locality %s/%s/%s twice in priority %d", l.Region, l.Zone, l.SubZone, g.Priority)
		}
		localities[at] = true
		weight := g.GetLoadBalancingWeight().GetValue()
		if weight == 0 {
			return fmt.Errorf("locality %s/%s/%s without a weight", l.Region, l.Zone, l.SubZone)
		}
		if weights[g.Priority] += uint64(weight); weights[g.Priority] > math.MaxUint32 {
			return fmt.Errorf("localities of priority %d weigh %d", g.Priority, weights[g.Priority])
		}
		sum := uint64(0)
		for _, e := range g.LbEndpoints {
			if e.LoadBalancingWeight != nil && e.LoadBalancingWeight.Value == 0 {
				return errors.New("an endpoint of weight 0")
			}
			if sum += max(1, uint64(e.GetLoadBalancingWeight().GetValue())); sum > math.MaxUint32 {
				return fmt.Errorf("endpoints of locality %s/%s/%s weigh %d", l.Region, l.Zone, l.SubZone, sum)
			}
			sockets := []*corev3.SocketAddress{e.GetEndpoint().GetAddress().GetSocketAddress()}
			for _, more := range e.GetEndpoint().GetAdditionalAddresses() {
				sockets = append(sockets, more.GetAddress().GetSocketAddress())
			}
			for _, s := range sockets {
				address := net.JoinHostPort(s.GetAddress(), strconv.Itoa(int(s.GetPortValue())))
				if addresses[address] {
					return fmt.Errorf("address %s twice", address)
				}
				addresses[address] = true
			}
		}
	}
	for i := range len(weights) {
		if _, is := weights[uint32(i)]; !is {
			return fmt.Errorf("no priority %d of %d", i, len(weights))
		}
	}
	for _, d := range a.GetPolicy().GetDropOverloads() {
		if n := d.GetDropPercentage().GetDenominator(); n < 0 || n > 2 {
			return fmt.Errorf("a drop policy of denominator %d", n)
		}
	}
	return nil
}

func grpcCluster(c *clusterv3.Cluster) error {
	switch {
	case c.GetType() != clusterv3.Cluster_EDS || c.GetClusterType() != nil:
		return fmt.Errorf("a cluster of type %v", c.GetType())
	case !ownStream(c.GetEdsClusterConfig().GetEdsConfig()):
		return errors.New("endpoints from a source that is not this stream")
	case len(c.TransportSocketMatches) > 0:
		return errors.New("transport_socket_matches")
	case c.TransportSocket != nil:
		return errors.New("a transport socket")
	case c.LbPolicy != clusterv3.Cluster_ROUND_ROBIN || c.LoadBalancingPolicy != nil:
		return fmt.Errorf("load balancer %v", c.LbPolicy)
	case c.OutlierDetection != nil:
		return errors.New("outlier detection")
	case c.LrsServer != nil && c.LrsServer.GetSelf() == nil:
		return errors.New("load reports to a server that is not this one")
	}
	return nil
}

// grpcAPIListener checks the listener of a client. One without api_listener
// would be taken for a server's.
func grpcAPIListener(l *listenerv3.Listener) error {
	if l.ApiListener == nil {
		return errors.New("no api_listener")
	}
	m := &hcmv3.HttpConnectionManager{}
	if err := l.ApiListener.GetApiListener().UnmarshalTo(m); err != nil {
		return fmt.Errorf("api_listener: %w", err)
	}
	switch {
	case m.XffNumTrustedHops != 0:
		return errors.New("xff_num_trusted_hops")
	case len(m.OriginalIpDetectionExtensions) > 0:
		return errors.New("original_ip_detection_extensions")
	case m.GetRds() == nil:
		return errors.New("routes that are not fetched")
	case !ownStream(m.GetRds().GetConfigSource()):
		return errors.New("routes from a source that is not this stream")
	case m.GetRds().GetRouteConfigName() == "":
		return errors.New("routes without a name")
	case len(m.HttpFilters) != 1 || m.HttpFilters[0].Name == "" || !m.HttpFilters[0].GetTypedConfig().MessageIs(&routerv3.Router{}):
		return errors.New("HTTP filters that are not just the router")
	}
	return nil
}

// grpcRouteConfiguration checks routes; those that grpc-go would pass over are
// errors, as a client without a route fails every request.
func grpcRouteConfiguration(c *routev3.RouteConfiguration) error {
	if len(c.ClusterSpecifierPlugins) > 0 {
		return errors.New("cluster specifier plugins")
	}
	for _, h := range c.VirtualHosts {
		if h.RetryPolicy != nil || len(h.TypedPerFilterConfig) > 0 {
			return fmt.Errorf("virtual host %s: retries or filters of its own", h.Name)
		}
		for _, r := range h.Routes {
			if err := grpcRoute(r); err != nil {
				return fmt.Errorf("virtual host %s: %w", h.Name, err)
			}
		}
	}
	return nil
}

func grpcRoute(r *routev3.Route) error {
	switch path := r.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix, *routev3.RouteMatch_Path:
	case *routev3.RouteMatch_SafeRegex:
		if _, err := regexp.Compile(path.SafeRegex.GetRegex()); err != nil {
			return fmt.Errorf("a route by path: %w", err)
		}
	default:
		return fmt.Errorf("a route by path specifier %T", path)
	}
	switch {
	case len(r.Match.Headers) > 0 || len(r.Match.QueryParameters) > 0 || r.Match.RuntimeFraction != nil:
		return errors.New("a route by more than its path")
	case r.GetRoute().GetCluster() == "":
		return errors.New("a route to something that is not a cluster")
	case r.GetRoute().RetryPolicy != nil || len(r.TypedPerFilterConfig) > 0:
		return errors.New("a route with retries or filters of its own")
	}
	return nil
}

// ownStream reports whether resources come from the stream on which the source
// itself came.
func ownStream(s *corev3.ConfigSource) bool { return s.GetAds() != nil || s.GetSelf() != nil }
