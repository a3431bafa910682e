package xds

import (
	"fmt"
	"testing"

	"tributary/model"
	"tributary/shards"
)

func hundred() *state {
	w := newWorld(0)
	w.defineHTTP(key("a"), 80)
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf("10.0.0.%d", i+1))
	}
	w.place(key("a"), list...)
	s := w.services[key("a")]
	identity := &model.Identity{Cluster: "c1", Namespace: "default"}
	placement := &model.Placement{Locality: "region/zone", Network: "net"}
	slice := s.shards[0].Slices[0]
	for i := range slice.Endpoints {
		slice.Endpoints[i].Workload = &model.WorkloadInstance{
			Name: fmt.Sprintf("app-5d7c8b9f4-%05d", i), Identity: identity, Placement: placement,
			Labels: model.NewLabels(map[string]string{"app": "app", "version": "v1", "pod-template-hash": "5d7c8b9f4"}),
		}
	}
	return s
}

// BenchmarkAssignment encodes an assignment of 100 endpoints.
func BenchmarkAssignment(b *testing.B) {
	s := hundred()
	svc := &shards.Service{Key: s.definition.Key, Definition: s.definition, Shards: s.shards}
	e := &encoder{}
	b.ReportAllocs()
	for b.Loop() {
		newResource(EndpointType, "outbound|80||a", e.assignment("outbound|80||a", svc, s.definition.Ports[0]))
	}
}

// BenchmarkFanOut sends one change of endpoints to 1,000 sessions, each subscribed
// to 200 services, up to the bytes that the transport is handed, and takes in the
// acknowledgements.
func BenchmarkFanOut(b *testing.B) {
	const streams, services = 1000, 200
	for _, delta := range []bool{true, false} {
		b.Run(map[bool]string{true: "delta", false: "sotw"}[delta], func(b *testing.B) {
			w := newWorld(100)
			var names []string
			for i := range services {
				k := key(fmt.Sprintf("svc-%d.default.svc.cluster.local", i))
				w.defineHTTP(k, 80)
				w.place(k, "10.0.0.1", "10.0.0.2")
				names = append(names, clusterName(80, "", k.Host))
			}
			w.commit()
			render := newRenderer(b)
			limits := DefaultLimits()
			sessions := make([]*session, streams)
			node := newNode(testNode)
			pump := func(s *session) (sent int) {
				v := &view{renderer: render, snapshot: w.store.Load(), node: &node}
				for {
					r, err := s.next(v)
					if err != nil {
						b.Fatal(err)
					}
					if r == nil {
						return sent
					}
					if _, err := (codec{}).Marshal(encodeFrame(r, delta, "bench")); err != nil {
						b.Fatal(err)
					}
					sent++
					ack := request{url: r.url, nonce: r.nonce, repeated: !delta}
					if _, err := s.request(ack); err != nil {
						b.Fatal(err)
					}
				}
			}
			for i := range sessions {
				s := newSession(delta, &limits)
				sessions[i] = s
				for _, q := range []request{{url: ClusterType}, {url: EndpointType, names: names, subscribe: names}, {url: ListenerType}, {url: RouteType, names: proxyNames, subscribe: proxyNames}} {
					q.node = testNode
					if _, err := s.request(q); err != nil {
						b.Fatal(err)
					}
				}
				pump(s)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				w.place(key(fmt.Sprintf("svc-%d.default.svc.cluster.local", i%services)), "10.0.0.1", fmt.Sprintf("10.1.%d.%d", i>>8&255, i&255))
				w.commit()
				for _, s := range sessions {
					if n := pump(s); n != 1 {
						b.Fatalf("%d responses for one change", n)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/streams, "ns/stream")
		})
	}
}
