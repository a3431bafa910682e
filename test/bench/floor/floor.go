package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"tributary/test/bench/dataset"
	"tributary/test/bench/wire"
)

// server holds the assignments of all clusters.
type server struct {
	clusters int

	mu      sync.Mutex
	groups  map[string][][]byte // encoded endpoints of an assignment, by cluster
	streams map[chan wire.Message]struct{}
}

// watch returns a server that holds what is in the clusters now, and follows it
// until ctx ends.
func watch(ctx context.Context, clusters []dataset.Cluster) (*server, error) {
	s := &server{clusters: len(clusters), groups: map[string][][]byte{}, streams: map[chan wire.Message]struct{}{}}
	for i, c := range clusters {
		factory := informers.NewSharedInformerFactory(c.Client, 0)
		informer := factory.Discovery().V1().EndpointSlices().Informer()
		registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.changed(i, o) },
			UpdateFunc: func(_, o any) { s.changed(i, o) },
		})
		if err != nil {
			return nil, fmt.Errorf("watching cluster %s: %w", c.ID, err)
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
			return nil, fmt.Errorf("watching cluster %s: %w", c.ID, context.Cause(ctx))
		}
	}
	return s, nil
}

// serve answers streams on l until ctx ends.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec{}))
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: wire.Service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: wire.DeltaMethod, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error { return s.stream(st) },
		}},
	}, nil)
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(l); err != nil {
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	}
	return nil
}

// changed takes in a slice of a cluster, and writes the assignment that it
// belongs to to all streams. Every service of the data has one slice a cluster.
func (s *server) changed(cluster int, object any) {
	o, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || !strings.HasPrefix(o.Namespace, dataset.NamespacePrefix) {
		return
	}
	encoded, err := group(o)
	if err != nil {
		slog.Error("leaving out a slice", "error", err)
		return
	}
	name := dataset.ClusterName(o.Labels[discoveryv1.LabelServiceName], o.Namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[name] == nil {
		s.groups[name] = make([][]byte, s.clusters)
	}
	s.groups[name][cluster] = encoded
	if len(s.streams) == 0 {
		return
	}
	m := s.assignments([]string{name})
	for out := range s.streams {
		out <- m
	}
}

// queueLength is how many messages may wait for a stream before it holds up all
// of them; no client of the benchmark is that slow.
const queueLength = 256

// stream answers one client. Acknowledgements come back and are not looked at.
func (s *server) stream(st grpc.ServerStream) error {
	out := make(chan wire.Message, queueLength)
	go func() { // ends with the stream
		defer close(out)
		var b []byte
		for st.RecvMsg(&b) == nil {
			var r discoveryv3.DeltaDiscoveryRequest
			if err := proto.Unmarshal(b, &r); err != nil || r.ResponseNonce != "" {
				continue
			}
			switch r.TypeUrl {
			case wire.ClusterType:
				out <- response(wire.ClusterType)
			case wire.EndpointType:
				s.mu.Lock()
				out <- s.assignments(r.ResourceNamesSubscribe)
				s.streams[out] = struct{}{}
				s.mu.Unlock()
			}
		}
		s.mu.Lock()
		delete(s.streams, out) // nobody writes to it any more
		s.mu.Unlock()
	}()
	for m := range out {
		if err := st.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// assignments returns a response with the assignments of that name. The lock is
// held.
func (s *server) assignments(names []string) wire.Message {
	var parts [][]byte
	for _, n := range names {
		parts = append(parts, resource(n, s.groups[n])...)
	}
	return response(wire.EndpointType, parts...)
}
