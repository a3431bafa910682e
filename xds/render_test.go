package xds

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tributary/model"
	"tributary/shards"
)

// drawService makes a service of many shards and slices, with duplicates, both
// families, workloads of both kinds and none, and every mix of flags.
func drawService(t *rapid.T) *state {
	port := model.Port{Name: "http", Number: 80, Protocol: model.HTTP}
	s := &state{definition: &model.Definition{Key: key("a"), Ports: []model.Port{port}}}
	text := rapid.SampledFrom([]string{"", "x", "app-1", "Ünï", strings.Repeat("long", 40)})
	var workloads []*model.WorkloadInstance
	for i := range rapid.IntRange(0, 4).Draw(t, "workloads") {
		w := &model.WorkloadInstance{Name: fmt.Sprintf("w%d", i)}
		if rapid.Bool().Draw(t, "identity") {
			w.Identity = &model.Identity{Cluster: "c1", Namespace: "ns", Kind: rapid.SampledFrom([]model.WorkloadKind{model.Pod, model.WorkloadEntry}).Draw(t, "kind")}
		}
		if rapid.Bool().Draw(t, "placement") {
			w.Placement = &model.Placement{
				Locality: rapid.SampledFrom([]model.Locality{"", "r1", "r1/z1", "r1/z1/s1", "/z", "r//s"}).Draw(t, "locality"),
				Network:  rapid.SampledFrom([]string{"", "n1"}).Draw(t, "network"),
			}
		}
		labels := map[string]string{}
		for _, k := range []string{"service.istio.io/canonical-name", "app.kubernetes.io/name", "app", "service.istio.io/canonical-revision", "app.kubernetes.io/version", "version", "other"} {
			if rapid.IntRange(0, 3).Draw(t, "label") == 0 {
				labels[k] = text.Draw(t, "value")
			}
		}
		w.Labels = model.NewLabels(labels)
		workloads = append(workloads, w)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "shards") {
		shard := model.Shard{Key: model.ShardKey{Provider: model.Kubernetes, Cluster: model.ClusterID(fmt.Sprintf("c%d", i))}}
		for j := range rapid.IntRange(1, 3).Draw(t, "slices") {
			slice := &model.Slice{
				Cluster: shard.Key.Cluster, Object: model.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("slice-%d", j)},
				Localities: []model.Locality{"", "r1/z2"}[:rapid.IntRange(0, 2).Draw(t, "localities")],
			}
			if rapid.IntRange(0, 5).Draw(t, "other ports") > 0 {
				slice.Ports = append(slice.Ports, model.SlicePort{Name: "http", Number: rapid.SampledFrom([]uint16{0, 1, 8080, 65535}).Draw(t, "target")})
			}
			slice.Ports = append(slice.Ports, model.SlicePort{Name: "", Number: 9})
			for range rapid.IntRange(0, 6).Draw(t, "endpoints") {
				address := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "255.255.255.255", "2001:db8::1", "::1", "::", "::ffff:10.0.0.1"}).Draw(t, "address")
				addr, _ := model.ParseAddr(address)
				e := model.Endpoint{
					Addr: addr, Locality: uint8(rapid.IntRange(0, 3).Draw(t, "slice locality")),
					Flags:  model.EndpointFlags(rapid.SampledFrom([]uint8{1, 1, 1, 3, 0, 5, 9, 32 | 1, 255}).Draw(t, "flags")),
					Weight: rapid.SampledFrom([]uint32{0, 1, 2, 1000}).Draw(t, "weight"),
				}
				if n := rapid.IntRange(0, len(workloads)).Draw(t, "workload"); n > 0 {
					e.Workload = workloads[n-1]
				}
				slice.Endpoints = append(slice.Endpoints, e)
			}
			seen, kept := map[model.Addr]bool{}, slice.Endpoints[:0]
			for _, e := range slice.Endpoints {
				if !seen[e.Addr] { // an address once
					seen[e.Addr] = true
					kept = append(kept, e)
				}
			}
			slices.SortFunc(kept, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) })
			slice.Endpoints = kept
			shard.Slices = append(shard.Slices, slice)
		}
		s.shards = append(s.shards, shard)
	}
	return s
}

func encodeAssignment(e *encoder, s *state) []byte {
	svc := &shards.Service{Key: s.definition.Key, Definition: s.definition, Shards: s.shards}
	return bytes.Clone(e.assignment("outbound|80||a", svc, s.definition.Ports[0]))
}

func checkAssignment(t *rapid.T) {
	e := &encoder{} // used again, as the server does
	for range 2 {
		s := drawService(t)
		body := encodeAssignment(e, s)
		got := unmarshalAssignment(t, body)
		if want := slowAssignment("outbound|80||a", s, s.definition.Ports[0]); !proto.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("Envoy would refuse it: %v", err)
		}
		if again := encodeAssignment(&encoder{}, s); !bytes.Equal(again, body) {
			t.Fatal("another encoder made other bytes")
		}
		if n := len(got.ProtoReflect().GetUnknown()); n > 0 {
			t.Fatalf("%d bytes are of no field", n)
		}
	}
}

func TestAssignmentEqualsItsSlowTwin(t *testing.T) { rapid.Check(t, checkAssignment) }

func FuzzAssignment(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkAssignment)) }

// Weights are a client's to refuse if their sum needs more than 32 bits.
func TestAssignmentScalesWeights(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	w.place(key("a"), "10.0.0.1", "10.0.0.2", "10.0.0.3")
	s := w.services[key("a")]
	slice := s.shards[0].Slices[0]
	slice.Localities = []model.Locality{"r1", "r2"}
	slice.Endpoints[0].Weight, slice.Endpoints[1].Weight, slice.Endpoints[2].Weight = math.MaxUint32, math.MaxUint32/2, 1
	slice.Endpoints[2].Locality = 1
	got := unmarshalAssignment(t, encodeAssignment(&encoder{}, s))
	var total uint64
	for _, g := range got.Endpoints {
		var sum uint64
		for _, e := range g.LbEndpoints {
			sum += uint64(max(1, e.LoadBalancingWeight.GetValue()))
		}
		if sum != uint64(g.LoadBalancingWeight.Value) {
			t.Errorf("%v weighs %d, its endpoints %d", g.Locality, g.LoadBalancingWeight.Value, sum)
		}
		total += sum
	}
	if total > math.MaxUint32 || total < math.MaxUint32/4 {
		t.Errorf("the weights add up to %d", total)
	}
	first, second := got.Endpoints[0].LbEndpoints[0].LoadBalancingWeight.Value, got.Endpoints[0].LbEndpoints[1].LoadBalancingWeight.Value
	if ratio := float64(first) / float64(second); ratio < 1.99 || ratio > 2.01 {
		t.Errorf("weights %d and %d are no longer 2 to 1", first, second)
	}
}

// What a client is given depends on what is there, not on how it came to be.
func TestVersionsDoNotDependOnHistory(t *testing.T) {
	final := func(w *world) {
		w.defineHTTP(key("a"), 80)
		w.place(key("a"), "10.0.0.1", "2001:db8::1")
		w.define(key("b"), model.ClientSideLB, model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC})
		w.place(key("b"))
		w.commit()
	}
	short, long := newWorld(10), newWorld(10)
	final(short)
	for i := range 20 {
		long.defineHTTP(key("a"), 80, uint16(100+i))
		long.defineHTTP(key("b"), 80)
		long.place(key("b"), fmt.Sprintf("10.1.0.%d", i))
		long.defineHTTP(key("c"), 80)
		long.commit()
		long.remove(key("b"))
		long.remove(key("c"))
		long.commit()
	}
	final(long)
	a, b := newView(t, short.store.Load()), newView(t, long.store.Load())
	for _, url := range []string{ClusterType, EndpointType, ListenerType, RouteType} {
		var one, other []string
		for r := range a.all(url) {
			one = append(one, r.Name+formatVersion(r.Hash))
		}
		for r := range b.all(url) {
			other = append(other, r.Name+formatVersion(r.Hash))
		}
		if len(one) == 0 || fmt.Sprint(one) != fmt.Sprint(other) {
			t.Errorf("%s:\n%v\n%v", ShortType(url), one, other)
		}
	}
}

// nastyHosts are what a ServiceEntry or a broken source may call a service.
var nastyHosts = []string{
	"a.default.svc.cluster.local", "A.default.svc.cluster.local", "a.default.svc", "a.default", "a", "A", "a:80", "a.default:80", "*", "*.example.com", "*.",
	"a.other.svc.cluster.local", "a.other", ".svc.cluster.local", "default.svc.cluster.local", "|", "a|b", "a\nb", "a\x00", "::1", "[::1]", "ä.example.com", " ", "a b",
	strings.Repeat("x", 300), "*:80", ":80", "b.default.svc.cluster.local:80",
}

func TestNastyNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(0)
		host := rapid.OneOf(rapid.SampledFrom(nastyHosts), rapid.StringN(1, 20, 40))
		for range rapid.IntRange(0, 12).Draw(t, "services") {
			k := model.ServiceKey{Host: host.Draw(t, "host"), Namespace: rapid.SampledFrom([]string{"default", "other", ""}).Draw(t, "namespace")}
			var ports []model.Port
			for _, n := range rapid.SliceOfN(rapid.SampledFrom([]uint16{1, 80, 80, 443, 65535}), 1, 4).Draw(t, "ports") {
				ports = append(ports, model.Port{Name: fmt.Sprint("p", len(ports)), Number: n, Protocol: model.Protocol(rapid.IntRange(0, int(model.SCTP)).Draw(t, "protocol"))})
			}
			w.define(k, rapid.SampledFrom([]model.Resolution{model.ClientSideLB, model.ClientSideLB, model.ClientSideLB, model.Passthrough, model.Alias}).Draw(t, "resolution"), ports...)
			d := w.services[k].definition
			d.VIPs = []model.ClusterVIPs{{Cluster: "c1", VIPs: []model.Addr{addr("10.96.0.1"), addr(rapid.SampledFrom([]string{"10.96.0.1", "fd00::1"}).Draw(t, "address"))}}, {Cluster: "c2", VIPs: []model.Addr{addr("10.97.0.1")}}}
			if d.Resolution == model.Alias {
				d.Winner.AliasOf = host.Draw(t, "alias of")
			}
		}
		w.commit()
		v := newView(t, w.store.Load())
		v.node.Cluster = "c1"
		clusters := map[string]bool{}
		for r := range v.all(ClusterType) {
			c := &clusterv3.Cluster{}
			if err := proto.Unmarshal(r.Body(), c); err != nil {
				t.Fatal(err)
			}
			if err := c.ValidateAll(); err != nil {
				t.Fatal(err)
			}
			if clusters[c.Name] || c.Name != r.Name {
				t.Fatalf("cluster %q in resource %q is there twice", c.Name, r.Name)
			}
			clusters[c.Name] = true
		}
		if len(clusters) != len(w.slowClusters(Sidecar)) {
			t.Fatalf("%d clusters, want %d", len(clusters), len(w.slowClusters(Sidecar)))
		}
		listener := &listenerv3.Listener{}
		if err := proto.Unmarshal(v.listener().Body(), listener); err != nil {
			t.Fatal(err)
		}
		if err := listener.ValidateAll(); err != nil {
			t.Fatal(err)
		}
		for r := range v.all(RouteType) {
			checkRoutes(t, r, clusters)
		}
	})
}

// checkRoutes checks what would make Envoy refuse all routes, and that every
// route leads somewhere.
func checkRoutes(t *rapid.T, r *Resource, clusters map[string]bool) {
	routes := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(r.Body(), routes); err != nil {
		t.Fatal(err)
	}
	if err := routes.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	domains, names := map[string]bool{}, map[string]bool{}
	for _, h := range routes.VirtualHosts {
		if names[h.Name] {
			t.Fatalf("two virtual hosts are called %q", h.Name)
		}
		names[h.Name] = true
		for _, d := range h.Domains {
			if d = strings.ToLower(d); domains[d] || d == "" {
				t.Fatalf("the domain %q is there twice, or empty", d)
			}
			domains[d] = true
		}
		if c := h.Routes[0].GetRoute().GetCluster(); !clusters[c] {
			t.Fatalf("a route leads to %q, which is no cluster", c)
		}
	}
}

// Routes of a port: by address in the client's own cluster, and by the names of
// aliases, whatever ports those have.
func TestPortRoutes(t *testing.T) {
	w := newWorld(0)
	a, b := key("a.default.svc.cluster.local"), model.ServiceKey{Host: "b.other.svc.cluster.local", Namespace: "other"}
	alias := func(host, of string, v model.Visibility) {
		k := model.ServiceKey{Host: host, Namespace: "other"}
		w.define(k, model.Alias)
		w.services[k].definition.Winner.AliasOf, w.services[k].definition.Winner.Visibility = of, v
	}
	w.defineHTTP(a, 80, 81)
	w.services[a].definition.VIPs = []model.ClusterVIPs{{Cluster: "c1", VIPs: []model.Addr{addr("10.96.0.1"), addr("fd00::1")}}, {Cluster: "c2", VIPs: []model.Addr{addr("10.97.0.1")}}}
	w.define(b, model.Passthrough, model.Port{Name: "http", Number: 80, Protocol: model.HTTP}, model.Port{Name: "tcp", Number: 81, Protocol: model.TCP})
	alias("door.other.svc.cluster.local", a.Host, model.Everywhere)
	alias("gate.other.svc.cluster.local", "door.other.svc.cluster.local", model.Everywhere)
	alias("hidden.other.svc.cluster.local", a.Host, model.VisibleIn("other"))
	alias("nothing.other.svc.cluster.local", "nowhere", model.Everywhere)
	alias("x.other.svc.cluster.local", "y.other.svc.cluster.local", model.Everywhere)
	alias("y.other.svc.cluster.local", "x.other.svc.cluster.local", model.Everywhere)
	w.commit()
	v := newView(t, w.store.Load())
	v.node.Cluster = "c1"
	hosts := func(name string) map[string]string {
		routes := &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(v.get(RouteType, name).Body(), routes); err != nil || routes.Name != name {
			t.Fatalf("%s: %v, %v", name, routes, err)
		}
		list := map[string]string{}
		for _, h := range routes.VirtualHosts {
			list[h.Name] = strings.Join(h.Domains, " ")
		}
		return list
	}
	forms := func(port string, names ...string) string {
		var list []string
		for _, n := range names {
			list = append(list, n, n+":"+port)
		}
		return strings.Join(list, " ")
	}
	others := func(port string) string {
		return forms(port, "door.other.svc.cluster.local", "door.other.svc", "door.other", "gate.other.svc.cluster.local", "gate.other.svc", "gate.other")
	}
	own := []string{"a.default.svc.cluster.local", "a.default.svc", "a.default", "a"}
	for name, want := range map[string]map[string]string{
		"80": {
			"a.default.svc.cluster.local:80": forms("80", own...) + " " + others("80") + " " + forms("80", "10.96.0.1", "[fd00::1]"),
			"b.other.svc.cluster.local:80":   forms("80", "b.other.svc.cluster.local", "b.other.svc", "b.other"),
		},
		"81": {"a.default.svc.cluster.local:81": forms("81", own...) + " " + others("81") + " " + forms("81", "10.96.0.1", "[fd00::1]")},
		"82": {},
	} {
		if diff := cmp.Diff(want, hosts(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := hosts(proxyName)["a.default.svc.cluster.local:81"]; !strings.Contains(got, "gate.other:81") || strings.Contains(got, "gate.other ") || strings.Contains(got, "10.96") {
		t.Errorf("the proxy's route has %s", got)
	}
}

// What another port's routes depend on does not touch them.
func TestRoutesOfAnotherPort(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	w.defineHTTP(key("b"), 81)
	before := newView(t, w.commit())
	alias := model.ServiceKey{Host: "alias", Namespace: "default"}
	w.define(alias, model.Alias)
	w.services[alias].definition.Winner.AliasOf = "b"
	after := &view{renderer: before.renderer, snapshot: w.commit(), node: before.node}
	if got := after.changed(RouteType, before.snapshot.Revision); fmt.Sprint(got) != "[81 http_proxy]" {
		t.Errorf("changed: %v", got)
	}
	if before.get(RouteType, "80") != after.get(RouteType, "80") || before.get(RouteType, "81") == after.get(RouteType, "81") {
		t.Error("port 80 was rendered again, or 81 was not")
	}
}

func TestRouteDomains(t *testing.T) {
	w := newWorld(0)
	other := model.ServiceKey{Host: "b.other.svc.cluster.local", Namespace: "other"}
	w.defineHTTP(key("a.default.svc.cluster.local"), 80, 81)
	w.defineHTTP(other, 8080)
	w.defineHTTP(key("ext.example.com"), 80)
	w.define(key("db.default.svc.cluster.local"), model.ClientSideLB, model.Port{Name: "tcp", Number: 5432, Protocol: model.TCP})
	w.commit()
	routes := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(newView(t, w.store.Load()).routes().Body(), routes); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a.default.svc.cluster.local:80": "a.default.svc.cluster.local a.default.svc.cluster.local:80 a.default.svc a.default.svc:80 a.default a.default:80 a a:80",
		"a.default.svc.cluster.local:81": "a.default.svc.cluster.local:81 a.default.svc:81 a.default:81 a:81",
		"b.other.svc.cluster.local:8080": "b.other.svc.cluster.local b.other.svc.cluster.local:8080 b.other.svc b.other.svc:8080 b.other b.other:8080",
		"ext.example.com:80":             "ext.example.com ext.example.com:80",
	}
	for _, h := range routes.VirtualHosts {
		if got := strings.Join(h.Domains, " "); got != want[h.Name] {
			t.Errorf("%s:\n got %s\nwant %s", h.Name, got, want[h.Name])
		}
		delete(want, h.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestClusterNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		port, subset := rapid.Uint16().Draw(t, "port"), rapid.StringMatching("[a-z0-9-]*").Draw(t, "subset")
		host := rapid.StringN(1, 30, -1).Draw(t, "host")
		p, s, h, ok := parseClusterName(clusterName(port, subset, host))
		if !ok || p != port || s != subset || h != host {
			t.Fatalf("%q is read as %d %q %q %v", clusterName(port, subset, host), p, s, h, ok)
		}
	})
	for _, name := range []string{"", "outbound", "outbound|80||", "outbound|x||a", "outbound|70000||a", "inbound|80||a", "outbound|80|a", "outbound|-1||a"} {
		if _, _, _, ok := parseClusterName(name); ok {
			t.Errorf("%q is taken for a cluster's name", name)
		}
	}
}

// Bytes that are put together by hand must be the messages they stand for.
func TestFramesAreResponses(t *testing.T) {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	w.commit()
	v := newView(t, w.store.Load())
	res := v.get(ClusterType, "outbound|80||a")
	r := &response{url: ClusterType, nonce: "7", version: "v1", resources: []*Resource{res, res}, removed: []string{"x", "y"}}
	join := func(f frame) []byte { return mem.BufferSlice(f).Materialize() }

	delta := &discoveryv3.DeltaDiscoveryResponse{}
	if err := proto.Unmarshal(join(encodeFrame(r, true, "me")), delta); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(delta.SystemVersionInfo, delta.TypeUrl, delta.Nonce, delta.RemovedResources, delta.ControlPlane.GetIdentifier(), len(delta.Resources)); got != fmt.Sprint("v1", ClusterType, "7", []string{"x", "y"}, "me", 2) {
		t.Error(got)
	}
	got := delta.Resources[1]
	if got.Name != res.Name || got.Version != formatVersion(res.Hash) || got.Resource.TypeUrl != ClusterType || !bytes.Equal(got.Resource.Value, res.Body()) {
		t.Errorf("resource %v", got)
	}
	sotw := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(join(encodeFrame(r, false, "me")), sotw); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sotw.VersionInfo, sotw.TypeUrl, sotw.Nonce, sotw.ControlPlane.GetIdentifier(), len(sotw.Resources)); got != fmt.Sprint("v1", ClusterType, "7", "me", 2) {
		t.Error(got)
	}
	if sotw.Resources[1].TypeUrl != ClusterType || !bytes.Equal(sotw.Resources[1].Value, res.Body()) {
		t.Errorf("resource %v", sotw.Resources[1])
	}
	if len(delta.ProtoReflect().GetUnknown())+len(sotw.ProtoReflect().GetUnknown()) > 0 {
		t.Error("bytes of no field")
	}
}

func TestCache(t *testing.T) {
	resource := func(n int) *Resource { return &Resource{delta: make([]byte, n)} }
	t.Run("is bounded and keeps what is used", func(t *testing.T) {
		c := newCache(100_000, nil)
		renders := 0
		for i := range 2000 {
			c.get(cacheKey{owner: i}, func() *Resource { return resource(1000) })
			c.get(cacheKey{url: "hot"}, func() *Resource { renders++; return resource(1000) })
			if got := c.size(); got > 102_000 {
				t.Fatalf("%d bytes are kept", got)
			}
		}
		if renders != 1 {
			t.Errorf("what is used all the time was rendered %d times", renders)
		}
	})
	t.Run("renders once for all who ask, failures too", func(t *testing.T) {
		for range 200 {
			c := newCache(1<<20, nil)
			renders, done := 0, make(chan *Resource, 8)
			want := resource(1)
			if rand.IntN(2) == 0 {
				want = nil
			}
			for range cap(done) {
				go func() { done <- c.get(cacheKey{url: "x"}, func() *Resource { renders++; return want }) }()
			}
			for range cap(done) {
				if got := <-done; got != want {
					t.Fatalf("got %v, want %v", got, want)
				}
			}
			if renders != 1 {
				t.Fatalf("rendered %d times", renders)
			}
		}
	})
	t.Run("counts its bytes exactly", func(t *testing.T) {
		c := newCache(10_000, nil)
		rapid.Check(t, func(t *rapid.T) {
			for _, k := range rapid.SliceOf(rapid.IntRange(0, 30)).Draw(t, "keys") {
				c.get(cacheKey{owner: k}, func() *Resource { return resource(k * 50) })
			}
			sum := 0
			for _, m := range []map[cacheKey]*cacheEntry{c.young, c.old} {
				for _, e := range m {
					sum += e.size
				}
			}
			if c.size() != sum {
				t.Fatalf("says %d bytes and has %d", c.size(), sum)
			}
		})
	})
}
