package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"tributary/test/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const static = `
static_resources:
  listeners:
  - name: web
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: web}}]}]}
  clusters:
  - name: web
    connect_timeout: 1s
    load_assignment:
      cluster_name: web
      endpoints:
      - locality: {region: eu, zone: eu-a}
        lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}, load_balancing_weight: 3}]
`

func TestTrafficFlowsAndTheAdminInterfaceTellsIt(t *testing.T) {
	b := backend.Start(t, "127.0.0.1:0", "one")
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	e := Start(t, fmt.Sprintf(static, port))
	t.Logf("envoy started in %v", time.Since(begin))

	var addr string
	e.WaitFor(t, 10*time.Second, "the listener", func(ctx context.Context) error {
		listeners, err := e.Listeners(ctx)
		if addr = listeners["web"]; addr == "" && err == nil {
			err = errors.New("it does not listen")
		}
		return err
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "one" || b.Count() != 1 {
		t.Errorf("through envoy: %q, %v, %d requests at the backend", body, err, b.Count())
	}

	e.WaitHosts(t, 5*time.Second, "web", b.Addr())
	clusters, err := e.Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Host{Address: b.Addr(), Health: "HEALTHY", Weight: 3, Region: "eu", Zone: "eu-a"}
	if hosts := clusters["web"]; len(hosts) != 1 || hosts[0] != want {
		t.Errorf("hosts = %+v, want %+v", hosts, want)
	}
	stats, err := e.Stats(t.Context(), "cluster.web.upstream_rq_")
	if err != nil {
		t.Fatal(err)
	}
	if stats["cluster.web.upstream_rq_total"] != 1 {
		t.Errorf("stats = %v, want one request", stats)
	}
	if !strings.Contains(e.Log(), "starting main dispatch loop") {
		t.Errorf("log:\n%s", e.Log())
	}
}

func TestABadBootstrapSaysWhy(t *testing.T) {
	_, err := New(t.Context(), Options{Bootstrap: "static_resources: {clusters: [{no_such_field: 1}]}"})
	if err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("New = %v, want the end of envoy's log", err)
	}
}

// server answers the first request for clusters, endpoints and listeners with
// one of each, the listener one that Envoy must refuse, and all others not at
// all.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	nodes chan *corev3.Node // of the first request of each stream
}

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// resource returns what there is of a type; nil for none.
func resource(kind string) *anypb.Any {
	var a anypb.Any
	var err error
	source := &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	switch kind {
	case clusterType:
		err = a.MarshalFrom(&clusterv3.Cluster{
			Name:                 "dynamic",
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: source},
		})
	case endpointType:
		address := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "10.1.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
		}}}
		err = a.MarshalFrom(&endpointv3.ClusterLoadAssignment{
			ClusterName: "dynamic",
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HealthStatus:   corev3.HealthStatus_DEGRADED,
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
			}}}},
		})
	case listenerType:
		err = a.MarshalFrom(&listenerv3.Listener{Name: "dynamic"}) // without an address
	default:
		return nil
	}
	if err != nil {
		panic(err)
	}
	return &a
}

func (s *server) StreamAggregatedResources(stream grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.Node != nil {
			s.nodes <- request.Node
		}
		if r := resource(request.TypeUrl); r != nil && request.ResponseNonce == "" {
			err := stream.Send(&discoveryv3.DiscoveryResponse{TypeUrl: request.TypeUrl, VersionInfo: "v7", Nonce: "n", Resources: []*anypb.Any{r}})
			if err != nil {
				return err
			}
		}
	}
}

func (s *server) DeltaAggregatedResources(stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.Node != nil {
			s.nodes <- request.Node
		}
		if r := resource(request.TypeUrl); r != nil && request.ResponseNonce == "" {
			err := stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: request.TypeUrl, Nonce: "n",
				Resources: []*discoveryv3.Resource{{Name: "dynamic", Version: "v7", Resource: r}}})
			if err != nil {
				return err
			}
		}
	}
}

func TestADS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ads := &server{nodes: make(chan *corev3.Node, 16)}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, ads)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	defer func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	for _, sotw := range []bool{false, true} {
		a := ADS{
			Server: listener.Addr().String(), SotW: sotw, Router: sotw,
			IP: "10.1.0.9", Name: "n", Namespace: "y", // booleans, in YAML without quotes
			Region: "eu", Zone: "eu-a", Metadata: map[string]any{"CLUSTER_ID": "a"},
		}
		e := Start(t, a.Bootstrap())
		e.WaitHosts(t, 10*time.Second, "dynamic", "10.1.0.1:8080")
		node := <-ads.nodes
		want := "sidecar~10.1.0.9~n.y~y.svc.cluster.local"
		if sotw {
			want = "router~10.1.0.9~n.y~y.svc.cluster.local"
		}
		if node.Id != want || node.Cluster != "n.y" || node.Locality.Zone != "eu-a" || node.Metadata.Fields["CLUSTER_ID"].GetStringValue() != "a" {
			t.Errorf("node = %v, want id %s, zone eu-a and cluster a", node, want)
		}
		clusters, err := e.Clusters(t.Context())
		if err != nil || clusters["dynamic"][0].Health != "DEGRADED" {
			t.Errorf("clusters = %+v, %v", clusters, err)
		}
		var dump *Dump
		e.WaitFor(t, 10*time.Second, "the listener to be refused", func(ctx context.Context) (err error) {
			if dump, err = e.ConfigDump(ctx); err == nil && dump.Errors["dynamic"] == "" {
				err = fmt.Errorf("errors are %v", dump.Errors)
			}
			return err
		})
		if _, ok := dump.Listeners["dynamic"]; ok || !strings.Contains(dump.Errors["dynamic"], "address") {
			t.Errorf("listeners %v, errors %v; want it refused for its address", dump.Listeners, dump.Errors)
		}
		var assignment endpointJSON
		if err := json.Unmarshal(dump.Endpoints["dynamic"].JSON, &assignment); err != nil || len(assignment.Endpoints) != 1 {
			t.Errorf("assignment %s, %v", dump.Endpoints["dynamic"].JSON, err)
		}
		if v := dump.Clusters["dynamic"].Version; v != "v7" {
			t.Errorf("version of the cluster is %q, want v7", v)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if _, err := os.Stat(e.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", e.dir)
		}
	}
}

type endpointJSON struct {
	Endpoints []json.RawMessage
}
