package wire

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields of DiscoveryRequest and DeltaDiscoveryRequest.
const (
	sotwVersion = 1
	sotwNames   = 3
	sotwType    = 4
	sotwNonce   = 5

	deltaType  = 2
	deltaNonce = 6
)

// Names encodes the names that every request of the state-of-the-world variant
// repeats, to be shared by all of them.
func Names(names []string) []byte {
	var b []byte
	for _, n := range names {
		b = protowire.AppendString(protowire.AppendTag(b, sotwNames, protowire.BytesType), n)
	}
	return b
}

// Ack encodes the acknowledgement of a response. names is empty in the delta
// variant.
func Ack(h Head, delta bool, names []byte) Message {
	field := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	b := make([]byte, 0, len(h.Type)+len(h.Nonce)+len(h.Version)+12)
	if delta {
		return Message{field(field(b, deltaType, h.Type), deltaNonce, h.Nonce)}
	}
	b = field(field(field(b, sotwType, h.Type), sotwNonce, h.Nonce), sotwVersion, h.Version)
	return Message{b, names}
}

// Subscribe encodes the first request of a type: for the given names, or for all
// resources if there are none. versions is what the client still has; the
// state-of-the-world variant cannot say that.
func Subscribe(node *corev3.Node, url string, delta bool, names []string, versions map[string]string) (Message, error) {
	var request proto.Message = &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: url, ResourceNames: names}
	if delta {
		request = &discoveryv3.DeltaDiscoveryRequest{
			Node: node, TypeUrl: url, ResourceNamesSubscribe: names, InitialResourceVersions: versions,
		}
	}
	b, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding a request for %s: %w", url, err)
	}
	return Message{b}, nil
}
