package xds

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"pgregory.net/rapid"

	"tributary/model"
)

// Assignments are encoded by hand, so nothing validates them before they are
// sent: whatever there may be in the tables, they keep the rules by which Envoy,
// and grpc-go (package xdsresource), would refuse them.
func TestAssignmentsKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(0)
		k := key("a")
		w.define(k, rapid.SampledFrom([]model.Resolution{model.ClientSideLB, model.Passthrough}).Draw(t, "resolution"),
			model.Port{Name: "http", Number: 80, Protocol: model.HTTP}, model.Port{Name: "other", Number: 81, Protocol: model.HTTP})
		w.services[k].definition.Sources = []*model.Service{{Key: k, Registry: kubernetes, DualStack: true}}
		addrs := []string{"", "10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1", "2001:db8::2"}
		drawAddr := func(what string) model.Addr {
			if text := rapid.SampledFrom(addrs).Draw(t, what); text != "" {
				return addr(text)
			}
			return model.Addr{}
		}
		var list []*model.Slice
		for i := range rapid.IntRange(0, 4).Draw(t, "slices") {
			s := &model.Slice{Cluster: "c1", Object: model.NamespacedName{Namespace: "default", Name: fmt.Sprint("s", i)}, Localities: []model.Locality{"r/z", "r", ""},
				Ports: []model.SlicePort{{Name: "http", Number: rapid.SampledFrom([]uint16{0, 8080, 8080, 65535}).Draw(t, "port")}, {Name: "other", Number: 8080}}}
			for range rapid.IntRange(0, 5).Draw(t, "endpoints") {
				e := model.Endpoint{
					Addr: drawAddr("address"), Weight: rapid.SampledFrom([]uint32{0, 1, 7, math.MaxUint32, math.MaxUint32 - 1}).Draw(t, "weight"),
					Locality: rapid.SampledFrom([]uint8{0, 1, 2, 255}).Draw(t, "locality"), Flags: model.EndpointFlags(rapid.Uint8().Draw(t, "flags")) | rapid.SampledFrom([]model.EndpointFlags{0, model.EndpointReady}).Draw(t, "ready"),
				}
				if rapid.Bool().Draw(t, "pod") || e.Flags&model.EndpointMissing != 0 {
					e.Workload = &model.WorkloadInstance{Name: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "name"), Addr: drawAddr("of the pod"), Identity: &model.Identity{Cluster: "c1", Namespace: "default"},
						Labels:    model.NewLabels(map[string]string{tlsModeLabel: rapid.SampledFrom([]string{"istio", "no"}).Draw(t, "tls"), "app": "\"\n"}),
						Placement: &model.Placement{Network: rapid.SampledFrom([]string{"", "n"}).Draw(t, "network"), Locality: rapid.SampledFrom([]model.Locality{"", "x/y/z"}).Draw(t, "where")}}
					if rapid.Bool().Draw(t, "several") {
						e.Workload.Details = &model.WorkloadDetails{More: []model.Addr{drawAddr("more"), drawAddr("more")}}
					}
				}
				s.Endpoints = append(s.Endpoints, e)
			}
			list = append(list, s)
		}
		w.setShards(k, model.Shard{Key: kubernetes, Slices: list})
		w.commit()
		for _, node := range []*corev3.Node{testNode, testRouter, testMeshNode, testGRPC} {
			v := newView(t, w.store.Load())
			*v.node = newNode(node)
			for _, name := range []string{longName("a:80"), longName("a:81"), longName("a:82")} {
				a := unmarshalAssignment(t, v.get(EndpointType, name).Body())
				if err := assignmentRules(name, a, v.node.Class); err != nil {
					t.Fatalf("a %s: %v\n%v", v.node.Class, err, a)
				}
			}
		}
	})
}

func assignmentRules(name string, a *endpointv3.ClusterLoadAssignment, class Class) error {
	if err := a.ValidateAll(); err != nil {
		return err
	}
	if a.ClusterName != name {
		return fmt.Errorf("it is of %q", a.ClusterName)
	}
	total := uint64(0)
	seen, localities := map[string]bool{}, map[string]bool{}
	for _, g := range a.Endpoints {
		if g.Locality == nil || g.Priority != 0 || g.LoadBalancingWeight.GetValue() == 0 || len(g.LbEndpoints) == 0 {
			return fmt.Errorf("a group without a locality, a weight or endpoints, or of another priority")
		}
		if l := g.Locality.String(); localities[l] {
			return fmt.Errorf("locality %s is there twice", l)
		}
		localities[g.Locality.String()] = true
		total += uint64(g.LoadBalancingWeight.Value)
		sum := uint64(0)
		for _, e := range g.LbEndpoints {
			if e.LoadBalancingWeight != nil && e.LoadBalancingWeight.Value == 0 {
				return fmt.Errorf("an endpoint weighs nothing")
			}
			sum += uint64(max(1, e.LoadBalancingWeight.GetValue()))
			at := []*corev3.Address{e.GetEndpoint().GetAddress()}
			for _, more := range e.GetEndpoint().GetAdditionalAddresses() {
				at = append(at, more.GetAddress())
			}
			for _, x := range at {
				s := x.GetSocketAddress()
				if ip, err := netip.ParseAddr(s.GetAddress()); err != nil || ip.IsUnspecified() || s.GetPortValue() == 0 {
					return fmt.Errorf("%v cannot be connected to: %v", s, err)
				}
				if id := s.String(); class == GRPC && seen[id] {
					return fmt.Errorf("%v is there twice", id)
				}
				seen[s.String()] = true
			}
		}
		if sum != uint64(g.LoadBalancingWeight.Value) {
			return fmt.Errorf("a group weighs %d, its endpoints %d", g.LoadBalancingWeight.Value, sum)
		}
	}
	if total > math.MaxUint32 {
		return fmt.Errorf("all weigh %d", total)
	}
	return nil
}
