package model

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestAddr(t *testing.T) {
	for s, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "0.0.0.0": "0.0.0.0",
		"": "", "x": "", "10.0.0": "", "10.0.0.1:80": "", "fe80::1%eth0": "", "010.0.0.1": "",
	} {
		a, ok := ParseAddr(s)
		if ok != (want != "") || a.String() != want || string(a.AppendTo(nil)) != want || a.IsZero() != (want == "") {
			t.Errorf("%q: %q, %v", s, a, ok)
		}
	}
	err := quick.Check(func(a, b [4]byte, c [16]byte) bool {
		ip := netip.AddrFrom4(a)
		x, ok := ParseAddr(ip.String())
		y, _ := ParseAddr(netip.AddrFrom4(b).String())
		return ok && x.Netip() == ip && x.Compare(y) == ip.Compare(netip.AddrFrom4(b)) && Addr(c).Netip() == netip.AddrFrom16(c).Unmap()
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestParseUID(t *testing.T) {
	const uuid = "01234567-89ab-cdef-0123-456789abcdef"
	if got := ParseUID(uuid); got != (UID{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) {
		t.Errorf("%x", got)
	}
	if ParseUID("") != (UID{}) {
		t.Error("no text is a uid")
	}
	// Whatever stands in a slice: no panic, never "not given", equal only for
	// equal texts.
	texts := []string{"x", "0", strings.Repeat("0", 36), strings.Repeat("a", 36), strings.Repeat("-", 36), uuid[:35], uuid + "0",
		strings.Repeat("a", 34) + "--", strings.Repeat("g", 32) + "----", "00000000-0000-0000-0000-000000000000"}
	for i, s := range texts {
		if ParseUID(s) == (UID{}) {
			t.Errorf("%q is taken for none", s)
		}
		for _, o := range texts[:i] {
			if ParseUID(s) == ParseUID(o) {
				t.Errorf("%q and %q are one", s, o)
			}
		}
	}
	if err := quick.Check(func(s string) bool { return s == "" || ParseUID(s) != UID{} }, nil); err != nil {
		t.Error(err)
	}
}

func TestLocality(t *testing.T) {
	for _, tc := range []struct {
		region, zone, subzone string
		want                  Locality
	}{
		{"", "", "", ""}, {"r", "", "", "r"}, {"r", "z", "", "r/z"}, {"r", "z", "s", "r/z/s"}, {"", "z", "", "/z"}, {"r", "", "s", "r//s"},
	} {
		l := NewLocality(tc.region, tc.zone, tc.subzone)
		if r, z, s := l.Split(); l != tc.want || r != tc.region || z != tc.zone || s != tc.subzone {
			t.Errorf("%+v: %q is %q %q %q", tc, l, r, z, s)
		}
	}
}

func TestOrderOfShards(t *testing.T) {
	want := []ShardKey{{Kubernetes, "a"}, {Kubernetes, "b"}, {External, "a"}, {External, "c"}}
	got := []ShardKey{want[3], want[1], want[2], want[0]}
	slices.SortFunc(got, ShardKey.Compare)
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestServed(t *testing.T) {
	for flags, want := range map[EndpointFlags]bool{
		EndpointReady: true, EndpointReady | EndpointServing: true, EndpointReady | EndpointMoving: true, EndpointReady | EndpointAnyUID: true,
		EndpointReady | EndpointTerminating: true, 0: false, EndpointServing: false, EndpointServing | EndpointTerminating: false,
		EndpointReady | EndpointMissing: false, EndpointReady | EndpointFinished: false, EndpointReady | EndpointDrained: false,
	} {
		if flags.Served() != want {
			t.Errorf("%b", flags)
		}
	}
	for state, want := range map[WorkloadState]bool{Ready: true, Ready | HostNetwork: true, 0: false, Ready | Terminating: false, Ready | Finished: false} {
		if state.Serving() != want {
			t.Errorf("%b", state)
		}
	}
}

// Slices are equal if they mean the same, wherever their parts are stored.
func TestSliceEqual(t *testing.T) {
	pod := func() *WorkloadInstance {
		return &WorkloadInstance{Name: "p", UID: UID{1}, Identity: &Identity{Cluster: "a"}, Placement: &Placement{Node: "n"}}
	}
	missing := func() *WorkloadInstance { return &WorkloadInstance{Name: "q", UID: UID{2}} }
	build := func(change func(*Slice)) *Slice {
		s := &Slice{Cluster: "a", Object: NamespacedName{"n", "s"}, Ports: []SlicePort{{"http", 80}}, Accounts: []string{"n/sa"}, Localities: []Locality{"/x", "/y"},
			Endpoints: []Endpoint{{Addr: Addr{1}, Workload: pod(), Flags: EndpointReady}, {Addr: Addr{2}, Workload: missing(), Locality: 1, Flags: EndpointMissing}, {Addr: Addr{3}, Locality: 255}}}
		change(s)
		return s
	}
	base := build(func(*Slice) {})
	for what, change := range map[string]func(*Slice){
		"nothing": func(*Slice) {},
		"version": func(s *Slice) { s.Version++ },
		"order of localities": func(s *Slice) {
			s.Localities = []Locality{"/unused", "/y", "/x"}
			s.Endpoints[0].Locality, s.Endpoints[1].Locality = 2, 1
		},
		"spelling of no locality": func(s *Slice) { s.Endpoints[2].Locality = 254 },
	} {
		if s := build(change); !base.Equal(s) || !s.Equal(base) {
			t.Errorf("not equal: %s", what)
		}
	}
	for what, change := range map[string]func(*Slice){
		"object":   func(s *Slice) { s.Object.Name = "x" },
		"cluster":  func(s *Slice) { s.Cluster = "b" },
		"ports":    func(s *Slice) { s.Ports[0].Number++ },
		"accounts": func(s *Slice) { s.Accounts = nil },
		"locality": func(s *Slice) { s.Localities[0] = "/z" },
		"fewer":    func(s *Slice) { s.Endpoints = s.Endpoints[:2] },
		"address":  func(s *Slice) { s.Endpoints[2].Addr[0]++ },
		"weight":   func(s *Slice) { s.Endpoints[2].Weight++ },
		"flags":    func(s *Slice) { s.Endpoints[0].Flags = 0 },
		"uid":      func(s *Slice) { s.Endpoints[0].Workload.UID[0]++ },
		"node":     func(s *Slice) { s.Endpoints[0].Workload.Placement.Node = "" },
		"identity": func(s *Slice) { s.Endpoints[0].Workload.Identity.ServiceAccount = "x" },
		"unknown":  func(s *Slice) { s.Endpoints[0].Workload = missing() },
		"known":    func(s *Slice) { s.Endpoints[1].Workload = pod() },
		"none":     func(s *Slice) { s.Endpoints[1].Workload = nil },
		"some":     func(s *Slice) { s.Endpoints[2].Workload = missing() },
	} {
		if s := build(change); base.Equal(s) || s.Equal(base) {
			t.Errorf("equal: %s", what)
		}
	}
}

func TestServiceEqual(t *testing.T) {
	base := Service{Key: ServiceKey{"h", "n"}, Name: "s", Ports: []Port{{"http", 80, HTTP, "8080"}}, VIPs: []Addr{{1}}, Selector: NewLabels(map[string]string{"a": "b"})}
	same := base
	same.Version, same.Ports, same.VIPs = 7, slices.Clone(base.Ports), slices.Clone(base.VIPs)
	var none *Service
	if !base.Equal(&same) || none.Equal(&base) || base.Equal(nil) || !none.Equal(nil) {
		t.Error("Equal of versions and of nil")
	}
	for i, change := range []func(*Service){
		func(s *Service) { s.Key.Host = "" }, func(s *Service) { s.Registry.Cluster = "x" }, func(s *Service) { s.Name = "" }, func(s *Service) { s.Created++ },
		func(s *Service) { s.Ports[0].TargetPort = "" }, func(s *Service) { s.VIPs = nil }, func(s *Service) { s.Resolution++ }, func(s *Service) { s.Selector = Labels{} },
		func(s *Service) { s.External = s.VIPs }, func(s *Service) { s.AliasOf = "x" }, func(s *Service) { s.Visibility = Nowhere },
		func(s *Service) { s.NodeLocal = true }, func(s *Service) { s.DualStack = true }, func(s *Service) { s.Accounts = []string{"n/a"} },
	} {
		other := base
		other.Ports = slices.Clone(base.Ports)
		change(&other)
		if base.Equal(&other) {
			t.Errorf("change %d is none", i)
		}
	}
}

func TestVisibility(t *testing.T) {
	for v, shown := range map[Visibility]string{
		Everywhere: "a b ~ -", VisibleIn(): "a b ~ -", Nowhere: "", VisibleIn("b", "a", "b"): "a b", VisibleIn("ab"): "", VisibleIn("b"): "b", VisibleIn("~"): "",
	} {
		var got []string
		for _, ns := range []string{"a", "b", "~", "-"} {
			if v.To(ns) {
				got = append(got, ns)
			}
		}
		if strings.Join(got, " ") != shown || v.String() == "" {
			t.Errorf("%v is shown to %v, want %s", v, got, shown)
		}
		if v != Everywhere && v.To("") {
			t.Errorf("%v is shown to a client that is in no namespace", v)
		}
	}
	if VisibleIn("b", "a") != VisibleIn("a", "b", "a") {
		t.Error("equal sets differ")
	}
}

func TestPlacementOr(t *testing.T) {
	said := Placement{Node: "n", Locality: "own", Network: "own"}
	if said.Or("node", "net") != said || (Placement{Node: "n"}).Or("node", "net") != (Placement{"n", "node", "net"}) {
		t.Error("what a workload says itself comes first, then what it is in")
	}
}
