package xds

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// FuzzRequests gives a stream of either variant a request that is anything, between
// two that are in order, and answers what is due.
func FuzzRequests(f *testing.F) {
	seed := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	bad := &status.Status{Code: 3, Message: "outbound|80||a"}
	seed(&discoveryv3.DiscoveryRequest{Node: testNode, TypeUrl: ClusterType, ResponseNonce: "1", ErrorDetail: bad})
	seed(&discoveryv3.DiscoveryRequest{TypeUrl: EndpointType, ResourceNames: []string{"*", longName("a:80"), ""}})
	seed(&discoveryv3.DeltaDiscoveryRequest{Node: testNode, TypeUrl: ClusterType, ResponseNonce: "1", ErrorDetail: bad})
	seed(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: EndpointType, ResourceNamesSubscribe: []string{longName("a:80")}, ResourceNamesUnsubscribe: []string{"*"},
		InitialResourceVersions: map[string]string{longName("b:80"): "1"}})
	f.Add([]byte("\xff\xfe garbage"))
	w := newWorld(10)
	w.defineHTTP(key("a"), 80)
	w.defineHTTP(key("b"), 80)
	w.commit()
	limits := DefaultLimits()
	render := newRenderer(f)
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, delta := range []bool{true, false} {
			s := newSession(delta, &limits)
			decode := (*deltaMessage)(&message).request
			if !delta {
				decode = func() (request, error) { return sotwMessage(message).request(s) }
			}
			due := func() {
				v := &view{renderer: render, snapshot: w.store.Load(), node: s.node}
				for range 100 { // at most one response a type
					r, err := s.next(v)
					if err != nil {
						t.Fatalf("next: %v", err)
					}
					if r == nil {
						return
					}
					encodeFrame(r, delta, "fuzz")
				}
				t.Fatal("responses without end")
			}
			if _, err := s.request(request{node: testNode, url: ClusterType}); err != nil {
				t.Fatal(err)
			}
			due()
			for range 2 {
				r, err := decode()
				if err != nil {
					break
				}
				if _, err := s.request(r); err != nil {
					break // the stream ends
				}
				due()
			}
			if s.watches[ClusterType].response != nil {
				if _, err := s.request(request{url: ClusterType, nonce: s.watches[ClusterType].sent, repeated: !delta}); err != nil {
					continue
				}
			}
			due()
		}
	})
}
