package xds

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"tributary/model"
)

// TestMutualTLS: a client of a mesh is told how to connect to endpoints with a
// sidecar, and whom to expect there; others are told nothing of it.
func TestMutualTLS(t *testing.T) {
	w := newWorld(0)
	a, headless := key("a.default.svc.cluster.local"), key("db.default.svc.cluster.local")
	w.define(a, model.ClientSideLB, model.Port{Name: portName(80), Number: 80, Protocol: model.HTTP}, model.Port{Name: portName(90), Number: 90, Protocol: model.GRPC})
	w.place(a, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	pods := w.services[a].shards[0].Slices[0].Endpoints
	for i, labels := range []map[string]string{{tlsModeLabel: "istio", "app": "a"}, {tlsModeLabel: "disabled"}, nil} {
		pods[i].Workload = &model.WorkloadInstance{Name: "p", Identity: &model.Identity{Cluster: "c1", Namespace: "default"}, Labels: model.NewLabels(labels)}
	}
	w.define(headless, model.Passthrough, model.Port{Name: portName(80), Number: 80, Protocol: model.HTTP})
	w.commit()
	accounts := func(list ...string) {
		d := *w.services[a].definition
		d.Accounts = list
		w.services[a].definition = &d
		w.changed[a] = model.ServicePush
		w.commit()
	}
	cluster := func(node *Node, k model.ServiceKey, port uint16) *clusterv3.Cluster {
		v := newView(t, w.store.Load())
		v.node = node
		c := &clusterv3.Cluster{}
		if err := proto.Unmarshal(v.get(ClusterType, clusterName(port, "", k.Host)).Body(), c); err != nil {
			t.Fatal(err)
		}
		if err := c.ValidateAll(); err != nil {
			t.Error(err)
		}
		return c
	}
	plain, router, mesh, rpc := newNode(testNode), newNode(testRouter), newNode(testMeshNode), newNode(testGRPC)
	hash := func(node *Node) uint64 {
		v := newView(t, w.store.Load())
		v.node = node
		return v.get(ClusterType, clusterName(80, "", a.Host)).Hash
	}
	before := map[*Node]uint64{}
	for _, n := range []*Node{&plain, &router, &mesh, &rpc} {
		before[n] = hash(n)
	}
	accounts("default/a", "other/b", "spiffe://elsewhere/ns/x/sa/y")
	for n, h := range before {
		if changed := hash(n) != h; changed != n.TLS {
			t.Errorf("accounts concern a %s with TLS %v: %v", n.Class, n.TLS, changed)
		}
		if got := cluster(n, a, 80).TransportSocketMatches; len(got) > 0 != n.TLS {
			t.Errorf("a %s with TLS %v has %v", n.Class, n.TLS, got)
		}
	}
	for port, alpn := range map[uint16]string{80: "istio-peer-exchange istio", 90: "istio-peer-exchange istio h2"} {
		matches := cluster(&mesh, a, port).TransportSocketMatches
		if len(matches) != 2 || matches[0].Name != "tlsMode-istio" || matches[0].Match.Fields["tlsMode"].GetStringValue() != "istio" || matches[0].TransportSocket.Name != "envoy.transport_sockets.tls" ||
			matches[1].Name != "tlsMode-disabled" || len(matches[1].Match.Fields) != 0 || matches[1].TransportSocket.Name != "envoy.transport_sockets.raw_buffer" {
			t.Fatalf("%v", matches)
		}
		tls := &tlsv3.UpstreamTlsContext{}
		if err := matches[0].TransportSocket.GetTypedConfig().UnmarshalTo(tls); err != nil {
			t.Fatal(err)
		}
		common := tls.CommonTlsContext
		combined := common.GetCombinedValidationContext()
		var names []string
		//nolint:staticcheck // see tls.go
		for _, m := range combined.DefaultValidationContext.MatchSubjectAltNames {
			names = append(names, m.GetExact())
		}
		if got, want := strings.Join(names, " "), "spiffe://cluster.local/ns/default/sa/a spiffe://cluster.local/ns/other/sa/b spiffe://elsewhere/ns/x/sa/y"; got != want {
			t.Errorf("the server may be %s, want %s", got, want)
		}
		if got := strings.Join(common.AlpnProtocols, " "); got != alpn {
			t.Errorf("ALPN %s, want %s", got, alpn)
		}
		if want := "outbound_." + routeName(port) + "_._.a.default.svc.cluster.local"; tls.Sni != want {
			t.Errorf("SNI %s, want %s", tls.Sni, want)
		}
		for secret, want := range map[*tlsv3.SdsSecretConfig]string{common.TlsCertificateSdsSecretConfigs[0]: "default", combined.ValidationContextSdsSecretConfig: "ROOTCA"} {
			if from := secret.SdsConfig.GetApiConfigSource().GrpcServices[0].GetEnvoyGrpc().ClusterName; secret.Name != want || from != "sds-grpc" {
				t.Errorf("secret %s from %s, want %s from the proxy's own agent", secret.Name, from, want)
			}
		}
	}
	if c := cluster(&mesh, headless, 80); c.GetType() != clusterv3.Cluster_ORIGINAL_DST || c.LbPolicy != clusterv3.Cluster_CLUSTER_PROVIDED || c.EdsClusterConfig != nil || c.TransportSocketMatches != nil {
		t.Errorf("headless: %v", c)
	}
	for n, want := range map[*Node][]string{&plain: {"", "", ""}, &mesh: {"istio", "", ""}} {
		v := newView(t, w.store.Load())
		v.node = n
		for i, e := range unmarshalAssignment(t, v.get(EndpointType, clusterName(80, "", a.Host)).Body()).Endpoints[0].LbEndpoints {
			if got := e.Metadata.FilterMetadata["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue(); got != want[i] || e.Metadata.FilterMetadata["istio"] == nil {
				t.Errorf("TLS %v: endpoint %d says %q, want %q; %v", n.TLS, i, got, want[i], e.Metadata)
			}
		}
	}
}
