package xds

import (
	"net"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpcxds "google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"tributary/model"
	"tributary/xds/bootstrap"
)

// ruleCase is a resource with something changed. What grpc-go refuses, grpcRules
// must refuse; what it passes over in silence, grpcRules refuses as well.
type ruleCase struct {
	what   string
	url    string
	judged ruling
	edit   func(proto.Message)
}

type ruling int

const (
	good   ruling = iota
	silent        // grpc-go takes it and does without, or this server never renders it
	bad
)

func edited[M proto.Message](what, url string, judged ruling, edit func(M)) ruleCase {
	return ruleCase{what, url, judged, func(m proto.Message) { edit(m.(M)) }}
}

func ruleCases() []ruleCase {
	cds := func(what string, j ruling, edit func(*clusterv3.Cluster)) ruleCase {
		return edited(what, ClusterType, j, edit)
	}
	eds := func(what string, j ruling, edit func(*endpointv3.ClusterLoadAssignment)) ruleCase {
		return edited(what, EndpointType, j, edit)
	}
	rds := func(what string, j ruling, edit func(*routev3.Route)) ruleCase {
		return edited(what, RouteType, j, func(c *routev3.RouteConfiguration) { edit(c.VirtualHosts[0].Routes[0]) })
	}
	lds := func(what string, j ruling, edit func(*hcmv3.HttpConnectionManager)) ruleCase {
		return edited(what, ListenerType, j, func(l *listenerv3.Listener) {
			m := &hcmv3.HttpConnectionManager{}
			if err := l.ApiListener.ApiListener.UnmarshalTo(m); err != nil {
				panic(err)
			}
			edit(m)
			l.ApiListener.ApiListener, _ = anypb.New(m)
		})
	}
	most := wrapperspb.UInt32(1<<32 - 1)
	elsewhere := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Path{Path: "/x"}} //nolint:staticcheck // grpc-go must refuse it
	again := func(a *endpointv3.ClusterLoadAssignment) *endpointv3.LocalityLbEndpoints {
		g := proto.Clone(a.Endpoints[0]).(*endpointv3.LocalityLbEndpoints)
		g.Locality = &corev3.Locality{Region: "another"}
		g.LbEndpoints = nil
		a.Endpoints = append(a.Endpoints, g)
		return g
	}
	return []ruleCase{
		cds("as it is", good, func(*clusterv3.Cluster) {}),
		cds("ORIGINAL_DST", bad, func(c *clusterv3.Cluster) {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		}),
		cds("STRICT_DNS", bad, func(c *clusterv3.Cluster) {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		}),
		cds("endpoints from elsewhere", bad, func(c *clusterv3.Cluster) { c.EdsClusterConfig.EdsConfig = elsewhere }),
		cds("socket matches", bad, func(c *clusterv3.Cluster) {
			c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{Name: "m"}}
		}),
		cds("unknown transport socket", bad, func(c *clusterv3.Cluster) { c.TransportSocket = &corev3.TransportSocket{Name: "x"} }),
		cds("MAGLEV", bad, func(c *clusterv3.Cluster) { c.LbPolicy = clusterv3.Cluster_MAGLEV }),
		cds("a policy without content", bad, func(c *clusterv3.Cluster) { c.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{} }),
		cds("load reports elsewhere", bad, func(c *clusterv3.Cluster) { c.LrsServer = elsewhere }),

		eds("as it is", good, func(*endpointv3.ClusterLoadAssignment) {}),
		eds("nothing", good, func(a *endpointv3.ClusterLoadAssignment) { a.Endpoints = nil }),
		eds("another locality", good, func(a *endpointv3.ClusterLoadAssignment) { again(a) }),
		eds("no locality", bad, func(a *endpointv3.ClusterLoadAssignment) { a.Endpoints[0].Locality = nil }),
		eds("a locality twice", bad, func(a *endpointv3.ClusterLoadAssignment) { again(a).Locality = a.Endpoints[0].Locality }),
		eds("a locality in two priorities", good, func(a *endpointv3.ClusterLoadAssignment) {
			g := again(a)
			g.Locality, g.Priority = a.Endpoints[0].Locality, 1
		}),
		eds("a gap in the priorities", bad, func(a *endpointv3.ClusterLoadAssignment) { again(a).Priority = 2 }),
		eds("no priority 0", bad, func(a *endpointv3.ClusterLoadAssignment) { a.Endpoints[0].Priority = 1 }),
		eds("a locality without weight", silent, func(a *endpointv3.ClusterLoadAssignment) { a.Endpoints[0].LoadBalancingWeight = nil }),
		eds("localities too heavy", bad, func(a *endpointv3.ClusterLoadAssignment) { again(a).LoadBalancingWeight = most }),
		eds("localities heavy in two priorities", good, func(a *endpointv3.ClusterLoadAssignment) {
			g := again(a)
			g.LoadBalancingWeight, g.Priority = most, 1
		}),
		eds("an endpoint of weight 0", bad, func(a *endpointv3.ClusterLoadAssignment) {
			a.Endpoints[0].LbEndpoints[0].LoadBalancingWeight = wrapperspb.UInt32(0)
		}),
		eds("endpoints too heavy", bad, func(a *endpointv3.ClusterLoadAssignment) { a.Endpoints[0].LbEndpoints[0].LoadBalancingWeight = most }),
		eds("an address twice", bad, func(a *endpointv3.ClusterLoadAssignment) {
			a.Endpoints[0].LbEndpoints = append(a.Endpoints[0].LbEndpoints, a.Endpoints[0].LbEndpoints[0])
		}),
		eds("an address in two localities", bad, func(a *endpointv3.ClusterLoadAssignment) {
			again(a).LbEndpoints = a.Endpoints[0].LbEndpoints[:1]
		}),
		eds("a further address twice", bad, func(a *endpointv3.ClusterLoadAssignment) {
			list := a.Endpoints[0].LbEndpoints
			list[0].GetEndpoint().AdditionalAddresses = []*endpointv3.Endpoint_AdditionalAddress{{Address: list[1].GetEndpoint().Address}}
		}),
		eds("drops of an unknown denominator", bad, func(a *endpointv3.ClusterLoadAssignment) {
			d := &endpointv3.ClusterLoadAssignment_Policy_DropOverload{Category: "c", DropPercentage: &typev3.FractionalPercent{Denominator: 77}}
			a.Policy = &endpointv3.ClusterLoadAssignment_Policy{DropOverloads: []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{d}}
		}),

		lds("as it is", good, func(*hcmv3.HttpConnectionManager) {}),
		edited("a server's listener", ListenerType, bad, func(l *listenerv3.Listener) { l.ApiListener = nil }),
		edited("not a connection manager", ListenerType, bad, func(l *listenerv3.Listener) { l.ApiListener.ApiListener.TypeUrl = ClusterType }),
		lds("trusted hops", bad, func(m *hcmv3.HttpConnectionManager) { m.XffNumTrustedHops = 1 }),
		lds("detection of the original address", bad, func(m *hcmv3.HttpConnectionManager) {
			m.OriginalIpDetectionExtensions = []*corev3.TypedExtensionConfig{{Name: "x"}}
		}),
		lds("no routes", bad, func(m *hcmv3.HttpConnectionManager) { m.RouteSpecifier = nil }),
		lds("routes without a name", bad, func(m *hcmv3.HttpConnectionManager) { m.GetRds().RouteConfigName = "" }),
		lds("routes from elsewhere", bad, func(m *hcmv3.HttpConnectionManager) { m.GetRds().ConfigSource = elsewhere }),
		lds("no filters", bad, func(m *hcmv3.HttpConnectionManager) { m.HttpFilters = nil }),
		lds("a filter without a name", bad, func(m *hcmv3.HttpConnectionManager) { m.HttpFilters[0].Name = "" }),
		lds("two routers", bad, func(m *hcmv3.HttpConnectionManager) {
			second := proto.Clone(m.HttpFilters[0]).(*hcmv3.HttpFilter)
			second.Name = "second"
			m.HttpFilters = append(m.HttpFilters, second)
		}),
		lds("an unknown filter", bad, func(m *hcmv3.HttpConnectionManager) {
			m.HttpFilters[0].GetTypedConfig().TypeUrl = "type.googleapis.com/unknown"
		}),

		rds("as it is", good, func(*routev3.Route) {}),
		rds("no match", bad, func(r *routev3.Route) { r.Match = nil }),
		rds("no path", bad, func(r *routev3.Route) { r.Match.PathSpecifier = nil }),
		rds("a bad expression", bad, func(r *routev3.Route) {
			r.Match.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "("}}
		}),
		rds("weights of nothing", bad, func(r *routev3.Route) {
			r.GetRoute().ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{}}
		}),
		rds("no retries", bad, func(r *routev3.Route) {
			r.GetRoute().RetryPolicy = &routev3.RetryPolicy{NumRetries: wrapperspb.UInt32(0)}
		}),
		rds("an unknown plugin", bad, func(r *routev3.Route) {
			r.GetRoute().ClusterSpecifier = &routev3.RouteAction_ClusterSpecifierPlugin{ClusterSpecifierPlugin: "x"}
		}),
		rds("query parameters", silent, func(r *routev3.Route) {
			r.Match.QueryParameters = []*routev3.QueryParameterMatcher{{Name: "x"}}
		}),
	}
}

// TestGRPCRules: grpc-go's own client judges the same cases, so the rules here are
// not what somebody read out of it.
func TestGRPCRules(t *testing.T) {
	w := newWorld(0)
	host := "a.default.svc.cluster.local"
	w.define(key(host), model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: model.GRPC})
	w.place(key(host), "127.20.31.1", "127.20.31.2")
	w.commit()
	v := newView(t, w.store.Load())
	*v.node = newNode(testGRPC)
	dialled, cluster := host+":80", clusterName(80, "", host)
	names := map[string]string{ListenerType: dialled, RouteType: cluster, ClusterType: cluster, EndpointType: cluster}
	for _, c := range ruleCases() {
		t.Run(ShortType(c.url)+"/"+c.what, func(t *testing.T) {
			served := map[string]*anypb.Any{}
			for url, name := range names {
				served[url] = &anypb.Any{TypeUrl: url, Value: v.get(url, name).Body()}
			}
			m, err := served[c.url].UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			c.edit(m)
			if served[c.url], err = anypb.New(m); err != nil {
				t.Fatal(err)
			}
			if err := grpcRules(c.url, names[c.url], served[c.url].Value); (err != nil) != (c.judged != good) {
				t.Errorf("the rules say: %v", err)
			}
			failure := judge(t, dialled, c.url, served)
			t.Logf("grpc-go says: %q", failure)
			if (failure != "") != (c.judged == bad) {
				t.Errorf("it does not say what is expected")
			}
		})
	}
	for _, url := range []string{ListenerType, RouteType, ClusterType, EndpointType} {
		if grpcRules(url, "another name", v.get(url, names[url]).Body()) == nil || grpcRules(url, names[url], []byte{0xff}) == nil {
			t.Errorf("%s: another name, or what is no message, is taken", url)
		}
	}
}

// judge returns why grpc-go refuses the resource of a type, "" if it does not. It
// is given the resources that it asks for on the way there.
func judge(t *testing.T, dialled, url string, served map[string]*anypb.Any) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stub := &stubADS{served: served, url: url, verdict: make(chan string, 1)}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, stub)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { s.Stop(); <-done }()
	config, err := bootstrap.GRPC(bootstrap.Client{Server: l.Addr().String(), Name: "app-1", Namespace: "default", IP: "10.9.9.7", Domain: "cluster.local"})
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grpcxds.NewXDSResolverWithConfigForTesting(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///"+dialled, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	select {
	case failure := <-stub.verdict:
		return failure
	case <-time.After(patience):
		t.Fatal("grpc-go neither took nor refused it")
	}
	return ""
}

// stubADS gives a client one resource of each type, once, and tells what it says
// to that of one type.
type stubADS struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	served  map[string]*anypb.Any
	url     string
	verdict chan string // one, "" for taken
}

func (s *stubADS) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	answered := map[string]bool{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if answered[r.TypeUrl] {
			if r.TypeUrl == s.url && r.ResponseNonce != "" {
				select {
				case s.verdict <- strings.TrimSpace(r.GetErrorDetail().GetMessage()):
				default: // it was told before
				}
			}
			continue
		}
		answered[r.TypeUrl] = true
		response := &discoveryv3.DiscoveryResponse{TypeUrl: r.TypeUrl, VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{s.served[r.TypeUrl]}}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}
