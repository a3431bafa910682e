package wire

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestResponsesOfBothVariants(t *testing.T) {
	var bodies []*anypb.Any
	for _, name := range []string{"a", "b"} {
		body, err := anypb.New(&endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: &endpointv3.ClusterLoadAssignment_Policy{}})
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	for delta, m := range map[bool]proto.Message{
		false: &discoveryv3.DiscoveryResponse{TypeUrl: EndpointType, Nonce: "7", VersionInfo: "v", Resources: bodies},
		true: &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: EndpointType, Nonce: "7", SystemVersionInfo: "v", RemovedResources: []string{"gone"},
			Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Resource: bodies[0]}, {Name: "b", Version: "2", Resource: bodies[1]}},
		},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		h, err := Response(b, delta, func(_ Head, r Resource) {
			got = append(got, string(r.Name)+string(r.Version))
			if !bytes.Equal(r.Body, bodies[len(got)-1].Value) {
				t.Errorf("delta %v: the body of %s differs", delta, r.Name)
			}
		})
		want := []string{"a", "b"}
		if delta {
			want = []string{"a1", "b2"}
		}
		if err != nil || !slices.Equal(got, want) || string(h.Type)+string(h.Nonce)+string(h.Version) != EndpointType+"7v" {
			t.Errorf("delta %v: %s, %s, %v; want resources %s", delta, got, fmt.Sprintf("%s", h), err, want)
		}
		for n := range b { // whatever is cut off: an error or less, no panic
			_, _ = Response(b[:n], delta, func(Head, Resource) {})
		}
	}
}

func TestAcknowledgements(t *testing.T) {
	h := Head{Type: []byte(EndpointType), Nonce: []byte("7"), Version: []byte("v")}
	var sotw discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(slices.Concat(Ack(h, false, Names([]string{"a", "b"}))...), &sotw); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DiscoveryRequest{TypeUrl: EndpointType, ResponseNonce: "7", VersionInfo: "v", ResourceNames: []string{"a", "b"}}
	if !proto.Equal(&sotw, want) {
		t.Errorf("state of the world: %v", &sotw)
	}
	var delta discoveryv3.DeltaDiscoveryRequest
	if err := proto.Unmarshal(slices.Concat(Ack(h, true, nil)...), &delta); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&delta, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResponseNonce: "7"}) {
		t.Errorf("delta: %v", &delta)
	}
}
