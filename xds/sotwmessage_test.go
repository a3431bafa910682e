package xds

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Names that a request repeats are not decoded, and all else is: other names,
// the same in another order, none, refusals.
func TestRepeatedNamesAreNotDecoded(t *testing.T) {
	limits := DefaultLimits()
	s := newSession(false, &limits)
	take := func(m *discoveryv3.DiscoveryRequest) request {
		t.Helper()
		m.TypeUrl = EndpointType
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sotwMessage(b).request(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.request(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	node := &corev3.Node{Id: "a"}
	for _, step := range []struct {
		what     string
		m        *discoveryv3.DiscoveryRequest
		repeated bool
		watched  []string
	}{
		{"first", &discoveryv3.DiscoveryRequest{Node: node, ResourceNames: []string{"a", "b"}}, false, []string{"a", "b"}},
		{"repeated", &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a", "b"}}, true, []string{"a", "b"}},
		{"repeated with a node", &discoveryv3.DiscoveryRequest{Node: node, ResourceNames: []string{"a", "b"}}, true, []string{"a", "b"}},
		{"repeated with a node without an id", &discoveryv3.DiscoveryRequest{Node: &corev3.Node{Cluster: "c"}, ResourceNames: []string{"a", "b"}}, false, []string{"a", "b"}},
		{"stale", &discoveryv3.DiscoveryRequest{ResponseNonce: "9", ResourceNames: []string{"c"}}, false, []string{"a", "b"}},
		{"repeated after a stale one", &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a", "b"}}, true, []string{"a", "b"}},
		{"joined", &discoveryv3.DiscoveryRequest{ResourceNames: []string{"ab"}}, false, []string{"ab"}},
		{"refused", &discoveryv3.DiscoveryRequest{ResourceNames: []string{"ab"}, ErrorDetail: &statuspb.Status{}}, false, []string{"ab"}},
		{"none", &discoveryv3.DiscoveryRequest{}, false, nil},
		{"none again", &discoveryv3.DiscoveryRequest{}, true, nil},
		{"one", &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a"}}, false, []string{"a"}},
	} {
		r := take(step.m)
		var watched []string
		for n := range s.watches[EndpointType].names {
			watched = append(watched, n)
		}
		slices.Sort(watched)
		if r.repeated != step.repeated || !slices.Equal(watched, step.watched) {
			t.Errorf("%s: repeated %v, watched %v; want %v, %v", step.what, r.repeated, watched, step.repeated, step.watched)
		}
	}
	if b, err := proto.Marshal(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "b"}, TypeUrl: EndpointType, ResourceNames: []string{"a"}}); err != nil {
		t.Fatal(err)
	} else if r, err := sotwMessage(b).request(s); err != nil || r.repeated {
		t.Errorf("another node's request is taken for a repeated one (%v)", err)
	} else if _, err := s.request(r); err == nil {
		t.Error("another node's request is accepted")
	}
	for _, garbage := range [][]byte{{0xff}, {0x1a, 0x7f}, {0x1a, 0x01, 0xff}} {
		if _, err := sotwMessage(garbage).request(s); err == nil {
			t.Errorf("%x is decoded", garbage)
		}
	}
}
