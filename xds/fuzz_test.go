package xds

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// seedRequests are messages as clients send them, in the order of a stream.
func seedRequests(f *testing.F, delta bool) {
	node := &corev3.Node{Id: "sidecar~10.0.0.1~p.n~n.svc.cluster.local", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"NAMESPACE": structpb.NewStringValue("n"), "HTTP_PROXY_PORT": structpb.NewNumberValue(15080)}}}
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	if delta {
		f.Add(marshal(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ClusterType}),
			marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesSubscribe: []string{"outbound|80||a.n.svc.cluster.local", "*"},
				ResourceNamesUnsubscribe: []string{"b"}, InitialResourceVersions: map[string]string{"a": "1"}}))
		return
	}
	first := &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: EndpointType, ResourceNames: []string{"a", "b"}}
	f.Add(marshal(first), marshal(first))
	f.Add(marshal(first), marshal(&discoveryv3.DiscoveryRequest{TypeUrl: EndpointType, ResourceNames: []string{"a"}, ResponseNonce: "1", VersionInfo: "v"}))
}

func FuzzDeltaMessage(f *testing.F) {
	seedRequests(f, true)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		limits := Limits{Names: 100, Types: 3}
		s := newSession(true, &limits)
		for _, data := range [][]byte{first, second, second} {
			m := deltaMessage(data)
			r, err := m.request()
			if err != nil {
				return
			}
			if _, err := s.request(r); err != nil {
				return
			}
			checkWatches(t, s)
		}
	})
}

// FuzzSotwMessage: leaving out names that were repeated gives what decoding them
// would.
func FuzzSotwMessage(f *testing.F) {
	seedRequests(f, false)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		limits := Limits{Names: 100, Types: 3}
		s, slow := newSession(false, &limits), newSession(false, &limits)
		for _, data := range [][]byte{first, second, second} {
			r, err := sotwMessage(data).request(s)
			var d discoveryv3.DiscoveryRequest
			if whole := proto.Unmarshal(data, &d); (whole == nil) != (err == nil) && (err != nil || !r.repeated) {
				t.Fatalf("read with %v, decoded with %v", err, whole)
			}
			if err != nil {
				return
			}
			_, err = s.request(r)
			_, slowErr := slow.request(sotwRequest(&d))
			if (err == nil) != (slowErr == nil) {
				t.Fatalf("with digests: %v; without: %v", err, slowErr)
			}
			if err != nil {
				return
			}
			checkWatches(t, s)
			for url, w := range s.watches {
				o := slow.watches[url]
				if o == nil || len(o.names) != len(w.names) || o.wildcard != w.wildcard {
					t.Fatalf("watch of %q: %d names, wildcard %v; without digests %+v", url, len(w.names), w.wildcard, o)
				}
				for n := range w.names {
					if _, ok := o.names[n]; !ok {
						t.Fatalf("watch of %q: %q is not watched without digests", url, n)
					}
				}
			}
		}
	})
}

func checkWatches(t *testing.T, s *session) {
	t.Helper()
	if s.node == nil || s.node.ID == "" || len(s.order) != len(s.watches) || len(s.watches) > s.limits.Types {
		t.Fatalf("session of node %+v, %d watches, %d in order", s.node, len(s.watches), len(s.order))
	}
	for url, w := range s.watches {
		if url == "" || w.url != url || len(w.names) > s.limits.Names {
			t.Fatalf("watch of %q under %q with %d names", w.url, url, len(w.names))
		}
	}
}

// FuzzNode: whatever a client says it is, it is something.
func FuzzNode(f *testing.F) {
	for _, n := range []*corev3.Node{
		{Id: "router~::1~gw.istio-system~istio-system.svc.cluster.local", UserAgentName: "envoy"},
		{Id: "sidecar~~~.svc.", UserAgentName: "gRPC-Go", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"GENERATOR": structpb.NewStringValue("grpc"), "CLUSTER_ID": structpb.NewStringValue("c"), "HTTP_PROXY_PORT": structpb.NewStringValue("80"),
			"ISTIO_VERSION": structpb.NewBoolValue(true), "NODE_NAME": structpb.NewNullValue()}}},
	} {
		b, err := proto.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n corev3.Node
		if proto.Unmarshal(data, &n) != nil {
			return
		}
		node := newNode(&n)
		if node.ProxyPort == 0 || node.Domain == "" || node.ID != n.GetId() || node != newNode(&n) {
			t.Errorf("node %+v", node)
		}
		if !utf8.ValidString(node.Namespace + string(node.Cluster) + node.NodeName + node.IstioVersion) {
			t.Errorf("node %+v says what is no text", node)
		}
	})
}

func FuzzClusterName(f *testing.F) {
	for _, s := range []string{"outbound|80||a.n.svc.cluster.local", "outbound|080|v1|a", "outbound|+1||a", "outbound|1|a|b|c", "inbound|1||"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		port, subset, host, ok := parseClusterName(name)
		if !ok {
			return
		}
		again, subset2, host2, ok := parseClusterName(clusterName(port, subset, host))
		if !ok || again != port || subset2 != subset || host2 != host || host == "" || strings.Contains(subset, "|") {
			t.Errorf("%q is %d %q %q, which is %d %q %q", name, port, subset, host, again, subset2, host2)
		}
		_ = parseVersion(name)
	})
}
