package xds

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	grpcxds "google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"

	"tributary/model"
	"tributary/xds/bootstrap"
)

// grpcPort is the port of services in the test with grpc-go; world.place has
// their endpoints listen 8,000 above.
const grpcPort = 17080

// serveGRPC starts a server that answers health checks, at an address of
// loopback.
func serveGRPC(t *testing.T, ip string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, grpcPort+8000))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
}

// TestGRPC: grpc-go's own client finds the endpoints by the name that it dials,
// follows their changes, and refuses nothing.
func TestGRPC(t *testing.T) {
	var all []string
	for i := range 4 {
		ip := fmt.Sprintf("127.20.30.%d", i+1)
		serveGRPC(t, ip)
		all = append(all, ip)
	}
	port := model.Port{Name: portName(grpcPort), Number: grpcPort, Protocol: model.GRPC}
	cart, headless, alias := key("cart.default.svc.cluster.local"), key("db.default.svc.cluster.local"), key("basket.default.svc.cluster.local")
	r := newRig(t, rigOptions{before: func(w *world) {
		for i := range 20 { // a fleet of what gRPC is never to see
			k := key(fmt.Sprintf("s%d.default.svc.cluster.local", i))
			w.define(k, model.Resolution(i%2), port, model.Port{Name: "udp", Number: 53, Protocol: model.UDP}, model.Port{Name: "http", Number: 80, Protocol: model.HTTP})
			w.place(k, "10.0.0.1", "2001:db8::1")
		}
		w.define(cart, model.ClientSideLB, port)
		w.place(cart, all[0], all[1])
		w.define(headless, model.Passthrough, port)
		w.place(headless, all[2])
		w.define(alias, model.Alias)
		w.services[alias].definition.Winner.AliasOf = cart.Host
	}})
	config, err := bootstrap.GRPC(bootstrap.Client{Server: r.address, Name: "app-1", Namespace: "default", IP: "10.9.9.7", Domain: "cluster.local"})
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grpcxds.NewXDSResolverWithConfigForTesting(config)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(name string) healthpb.HealthClient {
		conn, err := grpc.NewClient("xds:///"+name, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return healthpb.NewHealthClient(conn)
	}
	// reaches waits until requests are answered from just these addresses.
	reaches := func(what string, c healthpb.HealthClient, want ...string) {
		t.Helper()
		var got map[string]bool
		var last error
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			got, last = map[string]bool{}, nil
			for range 3 * max(1, len(want)) { // they are taken in turn
				var p peer.Peer
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := c.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&p))
				cancel()
				if err != nil {
					last = err
					continue
				}
				host, _, _ := net.SplitHostPort(p.Addr.String())
				got[host] = true
			}
			if list := slices.Sorted(maps.Keys(got)); slices.Equal(list, want) && (last == nil || len(want) == 0) {
				return
			}
		}
		t.Fatalf("%s: answers from %v, want %v; last error %v", what, slices.Sorted(maps.Keys(got)), want, last)
	}
	full := fmt.Sprintf("%s:%d", cart.Host, grpcPort)
	c := dial(full)
	reaches("the start", c, all[0], all[1])
	for _, name := range []string{cart.Host, "cart", fmt.Sprint("cart.default:", grpcPort), "cart.default.svc", "basket", fmt.Sprint(alias.Host, ":", grpcPort)} {
		reaches(name, dial(name), all[0], all[1])
	}
	reaches("headless", dial("db"), all[2])

	r.change(func(w *world) { w.place(cart, all[1], all[2], all[3]) })
	reaches("one left and two joined", c, all[1], all[2], all[3])
	r.change(func(w *world) {
		slice := w.services[cart].shards[0].Slices[0]
		s := *slice
		s.Endpoints = slices.Clone(s.Endpoints)
		s.Localities = []model.Locality{"r/a", "r/b"}
		s.Endpoints[1].Locality = 1
		w.setShards(cart, model.Shard{Key: kubernetes, Slices: []*model.Slice{&s}})
	})
	reaches("two localities", c, all[1], all[2], all[3])
	r.change(func(w *world) { w.remove(cart) })
	reaches("the service is gone", c)
	r.change(func(w *world) { w.define(cart, model.ClientSideLB, port); w.place(cart, all[0]) })
	reaches("it is back", c, all[0])

	for _, p := range r.server.Proxies() {
		if p.Class != GRPC {
			t.Errorf("%s is taken for a %s", p.ID, p.Class)
		}
		for _, x := range p.Types {
			if x.Failure != "" {
				t.Errorf("%s was refused: %s", x.URL, x.Failure)
			}
		}
	}
	for _, url := range []string{"cds", "eds", "lds", "rds"} {
		if n := count(r.metrics.rejects.WithLabelValues(url)); n != 0 {
			t.Errorf("%v refusals of %s", n, url)
		}
	}
}

var testGRPC = &corev3.Node{Id: "sidecar~10.9.9.7~app-1.default~default.svc.cluster.local", UserAgentName: "gRPC Go"}

// What a dialled name means.
func TestGRPCNames(t *testing.T) {
	w := newWorld(0)
	web := model.Port{Name: "http", Number: 80, Protocol: model.HTTP}
	dns := model.Port{Name: "dns", Number: 53, Protocol: model.UDP}
	rpc := model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC}
	w.define(key("a.default.svc.cluster.local"), model.ClientSideLB, dns, web, rpc)
	w.define(model.ServiceKey{Host: "b.other.svc.cluster.local", Namespace: "other"}, model.Passthrough, rpc)
	w.define(model.ServiceKey{Host: "c.other.svc.cluster.local", Namespace: "other"}, model.ClientSideLB, rpc)
	w.services[model.ServiceKey{Host: "c.other.svc.cluster.local", Namespace: "other"}].definition.Winner.Visibility = model.VisibleIn("other")
	w.define(key("ext.example.com"), model.ClientSideLB, web)
	for from, to := range map[string]string{"x.default.svc.cluster.local": "y", "y": "a.default.svc.cluster.local", "l": "m", "m": "l", "n": "nowhere"} {
		w.define(key(from), model.Alias)
		w.services[key(from)].definition.Winner.AliasOf = to
	}
	w.define(key("udp.default.svc.cluster.local"), model.ClientSideLB, dns)
	w.commit()
	v := newView(t, w.store.Load())
	*v.node = newNode(testGRPC)
	for name, want := range map[string]string{
		"a.default.svc.cluster.local": "a:80", "a": "a:80", "a.default": "a:80", "a.default.svc": "a:80", "a:90": "a:90", "a.default.svc.cluster.local:80": "a:80",
		"a:53": "", "a:81": "", "a:0": "", "a:x": "", "a.default.svc.": "", "": "", ":80": "", "b": "", "b.other": "b:90", "b.other.svc:90": "b:90",
		"c.other": "", "ext.example.com": "ext.example.com:80", "ext": "", "x": "a:80", "x:90": "a:90", "y": "a:80", "l": "", "n": "", "udp": "",
		"grpc/server?xds.resource.listening_address=0.0.0.0:80": "", "xds.istio.io/grpc/lds/inbound/0.0.0.0:80": "",
	} {
		got := ""
		if s, p, ok := v.grpcTarget(name); ok {
			host, _, _ := strings.Cut(s.Key.Host, ".default.svc")
			host, _, _ = strings.Cut(host, ".other.svc")
			got = fmt.Sprintf("%s:%d", host, p.Number)
		}
		if got != want {
			t.Errorf("%q means %q, want %q", name, got, want)
		}
		r := v.get(ListenerType, name)
		if (r != nil) != (want != "") {
			t.Errorf("%q: listener %v", name, r)
		}
		if r == nil {
			continue
		}
		l := &listenerv3.Listener{}
		if err := proto.Unmarshal(r.Body(), l); err != nil || l.ValidateAll() != nil || l.Name != name || l.ApiListener == nil {
			t.Errorf("%q: %v, %v", name, l, cmp.Or(err, l.ValidateAll()))
		}
	}
	c := &clusterv3.Cluster{}
	if err := proto.Unmarshal(v.get(ClusterType, "outbound|90||b.other.svc.cluster.local").Body(), c); err != nil || c.GetType() != clusterv3.Cluster_EDS ||
		c.LbPolicy != clusterv3.Cluster_ROUND_ROBIN || c.TransportSocketMatches != nil {
		t.Errorf("%v, %v", c, err)
	}
}

// An address that is in two networks, or belongs to two endpoints, is there once.
func TestGRPCAddressesAreThereOnce(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	w.place(key("a"), "10.0.0.1", "10.0.0.2")
	list := w.services[key("a")].shards[0].Slices
	again := *list[0]
	again.Object.Name = "again"
	again.Endpoints = slices.Clone(again.Endpoints)
	for i := range again.Endpoints {
		again.Endpoints[i].Workload = &model.WorkloadInstance{Name: "p", Identity: &model.Identity{}, Placement: &model.Placement{Network: "elsewhere"}}
	}
	w.setShards(key("a"), model.Shard{Key: kubernetes, Slices: append(list, &again)})
	w.commit()
	for node, want := range map[*corev3.Node]int{testNode: 4, testGRPC: 2} {
		v := newView(t, w.store.Load())
		*v.node = newNode(node)
		n := 0
		for _, g := range unmarshalAssignment(t, v.get(EndpointType, longName("a:80")).Body()).Endpoints {
			n += len(g.LbEndpoints)
		}
		if n != want {
			t.Errorf("a %s is given %d endpoints, want %d", v.node.Class, n, want)
		}
	}
}
