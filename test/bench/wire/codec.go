package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Names of the protocol.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

	Service     = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	DeltaMethod = "DeltaAggregatedResources"
	SotwMethod  = "StreamAggregatedResources"
)

// Message is an encoded message in parts, which may be shared and are never
// written to.
type Message [][]byte

// Codec sends Messages and receives into byte slices, which it uses again: the
// bytes are good until the next message is received into the same slice.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name implements encoding.CodecV2.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(Message)
	if !ok {
		return nil, fmt.Errorf("sending a %T, which is no wire.Message", v)
	}
	parts := make(mem.BufferSlice, 0, len(m))
	for _, p := range m {
		if len(p) > 0 {
			parts = append(parts, mem.SliceBuffer(p))
		}
	}
	return parts, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("receiving into a %T, which is no *[]byte", v)
	}
	n := data.Len()
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	data.CopyTo(*b)
	return nil
}
