package xds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"tributary/model"
	"tributary/shards"
)

// world is a registry that tests change, with a plain map beside the store from
// which the expected resources are computed the slow way.
type world struct {
	store    *shards.Store
	services map[model.ServiceKey]*state
	changed  map[model.ServiceKey]model.Push // since the last commit
}

type state struct {
	definition *model.Definition
	shards     []model.Shard
}

func newWorld(tombstones int) *world {
	return &world{store: shards.NewStore(tombstones), services: map[model.ServiceKey]*state{}, changed: map[model.ServiceKey]model.Push{}}
}

// key is a service of that host in namespace "default".
func key(host string) model.ServiceKey { return model.ServiceKey{Host: host, Namespace: "default"} }

var kubernetes = model.ShardKey{Provider: model.Kubernetes, Cluster: "c1"}

// portName is the name that tests give to a port.
func portName(number uint16) string { return "p" + strconv.Itoa(int(number)) }

// define sets the ports of a service.
func (w *world) define(k model.ServiceKey, resolution model.Resolution, ports ...model.Port) {
	slices.SortFunc(ports, model.ComparePorts)
	s := w.services[k]
	if s == nil {
		s = &state{}
		w.services[k] = s
	}
	s.definition = &model.Definition{
		Key: k, Ports: ports, Resolution: resolution,
		Winner: &model.Service{Key: k, Registry: kubernetes, Name: "svc", Created: 1},
	}
	w.changed[k] = model.ServicePush
}

func (w *world) defineHTTP(k model.ServiceKey, numbers ...uint16) {
	var ports []model.Port
	for _, n := range numbers {
		ports = append(ports, model.Port{Name: portName(n), Number: n, Protocol: model.HTTP})
	}
	w.define(k, model.ClientSideLB, ports...)
}

// place sets the endpoints of a service, one slice with its ports as they are.
func (w *world) place(k model.ServiceKey, addresses ...string) {
	s := w.services[k]
	slice := &model.Slice{Cluster: "c1", Object: model.NamespacedName{Namespace: k.Namespace, Name: "slice"}}
	for _, p := range s.definition.Ports {
		slice.Ports = append(slice.Ports, model.SlicePort{Name: p.Name, Number: p.Number + 8000})
	}
	for _, a := range addresses {
		addr, ok := model.ParseAddr(a)
		if !ok {
			panic("not an address: " + a)
		}
		slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: addr, Flags: model.EndpointReady | model.EndpointServing})
	}
	w.setShards(k, model.Shard{Key: kubernetes, Slices: []*model.Slice{slice}})
}

func (w *world) setShards(k model.ServiceKey, shards ...model.Shard) {
	w.services[k].shards = shards
	w.changed[k] = max(w.changed[k], model.EndpointsPush)
}

func (w *world) remove(k model.ServiceKey) {
	delete(w.services, k)
	w.changed[k] = model.ServicePush
}

// commit publishes what was changed as one snapshot.
func (w *world) commit() *shards.Snapshot {
	var d model.Delta
	for _, k := range slices.SortedFunc(maps.Keys(w.changed), model.ServiceKey.Compare) {
		c := model.ServiceDelta{Key: k, Push: w.changed[k]}
		if s := w.services[k]; s != nil {
			c.Definition, c.Shards = s.definition, s.shards
		}
		d.Services = append(d.Services, c)
	}
	clear(w.changed)
	return w.store.Apply(d)
}

// newRenderer returns a renderer whose failures fail the test.
func newRenderer(t interface{ Errorf(string, ...any) }) *renderer {
	return &renderer{cache: newCache(DefaultCacheBytes, nil), failed: func(url, name string, err error) {
		t.Errorf("rendering %s %q: %v", ShortType(url), name, err)
	}}
}

func newView(t interface{ Errorf(string, ...any) }, s *shards.Snapshot) *view {
	n := newNode(testNode)
	return &view{renderer: newRenderer(t), snapshot: s, node: &n}
}

var testNode = &corev3.Node{Id: "sidecar~10.9.9.9~app-1.default~default.svc.cluster.local", Cluster: "app.default"}

func addr(text string) model.Addr {
	a, ok := model.ParseAddr(text)
	if !ok {
		panic("not an address: " + text)
	}
	return a
}

// testRouter is a gateway, testMeshNode a sidecar of a mesh with certificates.
var (
	testRouter   = &corev3.Node{Id: "router~10.9.9.8~gw-1.default~default.svc.cluster.local"}
	testMeshNode = &corev3.Node{Id: testNode.Id, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"ISTIO_VERSION": structpb.NewStringValue("1.30.0"), "CLUSTER_ID": structpb.NewStringValue("c1")}}}
)

// shortName writes the name of a cluster as host:port.
func shortName(name string) string {
	if port, _, host, ok := parseClusterName(name); ok {
		return fmt.Sprintf("%s:%d", host, port)
	}
	return name
}

// longName is the inverse of shortName.
func longName(short string) string {
	if host, port, ok := strings.Cut(short, ":"); ok {
		return "outbound|" + port + "||" + host
	}
	return short
}

// addresses returns the addresses in an encoded assignment.
func addresses(t *testing.T, body []byte) []string {
	t.Helper()
	var list []string
	for _, group := range unmarshalAssignment(t, body).Endpoints {
		for _, e := range group.LbEndpoints {
			list = append(list, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	return list
}

func unmarshalAssignment(t interface{ Fatalf(string, ...any) }, body []byte) *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{}
	if err := proto.Unmarshal(body, a); err != nil {
		t.Fatalf("the bytes of an assignment are none: %v", err)
	}
	return a
}

func unmarshalCluster(t interface{ Fatalf(string, ...any) }, body []byte) *clusterv3.Cluster {
	c := &clusterv3.Cluster{}
	if err := proto.Unmarshal(body, c); err != nil {
		t.Fatalf("the bytes of a cluster are none: %v", err)
	}
	return c
}

// slowAssignment is the assignment of a port, built as protobuf objects by the
// rules in words: what is served, each address once, by locality.
func slowAssignment(name string, s *state, port model.Port) *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	if s == nil {
		return a
	}
	type candidate struct {
		slice         *model.Slice
		e             model.Endpoint
		port          uint16
		shard, number int
	}
	var all []candidate
	for i, shard := range s.shards {
		for _, slice := range shard.Slices {
			at := slices.IndexFunc(slice.Ports, func(p model.SlicePort) bool { return p.Name == port.Name })
			if at < 0 {
				continue
			}
			for _, e := range slice.Endpoints {
				usable := e.Flags&model.EndpointReady != 0 && e.Flags&(model.EndpointMissing|model.EndpointFinished|model.EndpointDrained) == 0
				if number := slice.Ports[at].Number; usable && !e.Addr.IsZero() && number != 0 {
					all = append(all, candidate{slice, e, number, i, len(all)})
				}
			}
		}
	}
	network := func(c candidate) string {
		if w := c.e.Workload; w != nil && w.Placement != nil {
			return w.Placement.Network
		}
		return ""
	}
	who := func(c candidate) (kind model.WorkloadKind, name string) {
		if w := c.e.Workload; w != nil {
			if name = w.Name; w.Identity != nil {
				kind = w.Identity.Kind
			}
		}
		return kind, name
	}
	ranked := slices.SortedStableFunc(slices.Values(all), func(a, b candidate) int {
		ka, na := who(a)
		kb, nb := who(b)
		return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(a.shard, b.shard), strings.Compare(na, nb))
	})
	winner := map[string]int{}
	place := func(c candidate) string { return fmt.Sprintf("%s|%d|%s", c.e.Addr, c.port, network(c)) }
	for _, c := range ranked {
		if _, taken := winner[place(c)]; !taken {
			winner[place(c)] = c.number
		}
	}
	groups := map[model.Locality]*endpointv3.LocalityLbEndpoints{}
	for _, c := range all {
		e := c.e
		if winner[place(c)] != c.number {
			continue
		}
		locality := model.Locality("")
		if int(e.Locality) < len(c.slice.Localities) {
			locality = c.slice.Localities[e.Locality]
		}
		if w := e.Workload; w != nil && w.Placement != nil {
			locality = cmp.Or(w.Placement.Locality, locality)
		}
		g := groups[locality]
		if g == nil {
			region, zone, subzone := locality.Split()
			g = &endpointv3.LocalityLbEndpoints{
				Locality:            &corev3.Locality{Region: region, Zone: zone, SubZone: subzone},
				LoadBalancingWeight: wrapperspb.UInt32(0),
			}
			groups[locality] = g
		}
		weight := max(1, e.Weight)
		g.LoadBalancingWeight.Value += weight
		point := &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: e.Addr.String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(c.port)},
				}}},
			}},
		}
		if weight > 1 {
			point.LoadBalancingWeight = wrapperspb.UInt32(weight)
		}
		if w := e.Workload; w != nil && w.Identity != nil {
			first := func(other string, keys ...string) string {
				for _, k := range keys {
					if v, ok := w.Labels.Map()[k]; ok {
						return v
					}
				}
				return other
			}
			text := strings.Join([]string{
				w.Name, w.Identity.Namespace,
				first(w.Name, "service.istio.io/canonical-name", "app.kubernetes.io/name", "app"),
				first("latest", "service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"),
				string(w.Identity.Cluster),
			}, ";")
			point.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
				"istio": {Fields: map[string]*structpb.Value{"workload": structpb.NewStringValue(text)}},
			}}
		}
		g.LbEndpoints = append(g.LbEndpoints, point)
	}
	for _, l := range slices.Sorted(maps.Keys(groups)) {
		a.Endpoints = append(a.Endpoints, groups[l])
	}
	return a
}

// slowClusters returns the names of all clusters of a class of clients, with the
// service and port behind each.
func (w *world) slowClusters(class Class) map[string]slowCluster {
	all := map[string]slowCluster{}
	for _, k := range slices.SortedFunc(maps.Keys(w.services), model.ServiceKey.Compare) {
		s := w.services[k]
		for _, p := range s.definition.Ports {
			if v := s.definition.Winner.Visibility; v != model.Everywhere && v != model.VisibleIn("default") {
				continue
			}
			if s.definition.Resolution == model.Alias || p.Protocol == model.UDP || p.Protocol == model.SCTP {
				continue
			}
			direct := class == Sidecar && s.definition.Resolution == model.Passthrough
			name := fmt.Sprintf("outbound|%d||%s", p.Number, k.Host)
			other, taken := all[name]
			if !taken || other.state != s && k.Namespace == "default" && other.state.definition.Key.Namespace != "default" {
				all[name] = slowCluster{s, p, direct}
			}
		}
	}
	return all
}

type slowCluster struct {
	state  *state
	port   model.Port
	direct bool // without endpoints
}

// assignment returns the endpoints of a cluster, the slow way.
func (c slowCluster) assignment(name string) *endpointv3.ClusterLoadAssignment {
	if c.direct {
		return &endpointv3.ClusterLoadAssignment{ClusterName: name}
	}
	return slowAssignment(name, c.state, c.port)
}
