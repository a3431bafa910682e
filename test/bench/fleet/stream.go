package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"tributary/test/bench/wire"
)

// maxMessage is more than any response has: some servers send everything in one.
const maxMessage = 1 << 30

// window is large enough that the client never makes a server wait for it to
// read; being fixed, it also saves gRPC's estimator and its pings.
const window = 1 << 20

// stream is one client. Only its goroutine uses it.
type stream struct {
	fleet  *Fleet
	number int
	node   *corev3.Node

	// What it holds, by type and name, with versions. Delta only.
	clusters, endpoints map[string]string

	// Of the current connection.
	buffer  []byte
	asked   bool // for endpoints
	full    bool // it has everything
	has     []bool
	missing int
}

// node describes client i as a sidecar of Istio's does: istiod serves no other.
func node(i int, cluster, namespace string) *corev3.Node {
	ip := fmt.Sprintf("172.%d.%d.%d", 16+i/62500, i/250%250, i%250+1)
	text := structpb.NewStringValue
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~client-%d.%s~%s.svc.cluster.local", ip, i, namespace, namespace),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"CLUSTER_ID": text(cluster), "NAMESPACE": text(namespace), "INSTANCE_IPS": text(ip), "ISTIO_VERSION": text("1.30.0"),
			"LABELS": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": text("client")}}),
		}},
	}
}

// retryAfter is how long a client waits after it was turned away.
const retryAfter = 250 * time.Millisecond

// run keeps the stream open until ctx ends. A client that is turned away before
// it was served comes again, as a proxy does; one that loses its stream later
// fails the run.
func (s *stream) run(ctx context.Context, resume bool) error {
	for {
		err := s.connect(ctx, resume)
		code := status.Code(errors.Unwrap(err))
		if s.full || code != codes.ResourceExhausted && code != codes.Unavailable {
			return err
		}
		s.fleet.refused.Add(1)
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connect opens the stream and keeps it open until ctx ends.
func (s *stream) connect(ctx context.Context, resume bool) error {
	if !resume {
		s.clusters, s.endpoints = map[string]string{}, map[string]string{}
	}
	s.asked, s.full, s.has, s.missing = false, false, make([]bool, len(s.fleet.o.Names)), len(s.fleet.o.Names)
	conn, err := grpc.NewClient(s.fleet.o.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", s.fleet.o.Address, err)
	}
	defer func() { _ = conn.Close() }() // it has nothing left to say
	method := wire.SotwMethod
	if s.fleet.o.Delta {
		method = wire.DeltaMethod
	}
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+wire.Service+"/"+method)
	if err != nil {
		return fmt.Errorf("opening a stream: %w", err)
	}
	if err := s.subscribe(st, wire.ClusterType, nil, s.clusters); err != nil {
		return err
	}
	if resume {
		// It has its clusters and may not be told of them again.
		if err := s.askForEndpoints(st); err != nil {
			return err
		}
	}
	for {
		if err := st.RecvMsg(&s.buffer); err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		now := time.Now()
		s.fleet.messages.Add(1)
		s.fleet.bytes.Add(int64(len(s.buffer)))
		if err := s.take(st, now, resume); err != nil {
			return err
		}
	}
}

func (s *stream) subscribe(st grpc.ClientStream, url string, names []string, versions map[string]string) error {
	m, err := wire.Subscribe(s.node, url, s.fleet.o.Delta, names, versions)
	if err != nil {
		return err
	}
	return st.SendMsg(m)
}

// take handles the response in the buffer, which came at time now.
func (s *stream) take(st grpc.ClientStream, now time.Time, resumed bool) error {
	delta := s.fleet.o.Delta
	h, err := wire.Response(s.buffer, delta, nil)
	if err != nil {
		return err
	}
	switch string(h.Type) {
	case wire.ClusterType:
		if delta {
			if _, err := wire.Response(s.buffer, delta, func(_ wire.Head, r wire.Resource) { hold(s.clusters, r) }); err != nil {
				return err
			}
		}
		if err := st.SendMsg(wire.Ack(h, delta, nil)); err != nil {
			return err
		}
		return s.askForEndpoints(st)
	case wire.EndpointType:
		if _, err := wire.Response(s.buffer, delta, func(_ wire.Head, r wire.Resource) { s.assignment(r, now) }); err != nil {
			return err
		}
		if !s.full && (s.missing == 0 || resumed && s.holdsAll()) {
			s.full = true
			s.fleet.served <- now
		}
		return st.SendMsg(wire.Ack(h, delta, s.fleet.names))
	}
	return nil
}

// askForEndpoints subscribes to all assignments, once: a client asks when it
// knows the clusters.
func (s *stream) askForEndpoints(st grpc.ClientStream) error {
	if s.asked {
		return nil
	}
	s.asked = true
	return s.subscribe(st, wire.EndpointType, s.fleet.o.Names, s.endpoints)
}

// assignment takes in one assignment.
func (s *stream) assignment(r wire.Resource, now time.Time) {
	i, ok := s.fleet.numbers[string(r.Name)]
	if !ok {
		return
	}
	if s.fleet.o.Delta {
		hold(s.endpoints, r)
	}
	if !s.has[i] && bytes.Contains(r.Body, []byte("10.")) { // it has an endpoint
		s.has[i] = true
		s.missing--
	}
	if p := s.fleet.pending[i].Load(); p != nil {
		note(*p, r.Body, s.number, now)
	}
}

// hold notes the version of a resource that the client holds.
func hold(versions map[string]string, r wire.Resource) {
	if versions[string(r.Name)] != string(r.Version) {
		versions[string(r.Name)] = string(r.Version)
	}
}

func (s *stream) holdsAll() bool { return len(s.endpoints) == len(s.fleet.o.Names) }
