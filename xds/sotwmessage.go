package xds

import (
	"github.com/cespare/xxhash/v2"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields of envoy.service.discovery.v3.DiscoveryRequest.
const (
	fieldRequestNode  = 2
	fieldRequestNames = 3
	fieldRequestType  = 4
	fieldRequestNonce = 5
	fieldRequestError = 6
)

// sotwMessage is a DiscoveryRequest as it came. In the state-of-the-world variant
// every acknowledgement repeats all names that the client is subscribed to; it is
// not decoded if they are those that came before.
type sotwMessage []byte

// request decodes the message. digest stands for the names, and is never 0.
func (m sotwMessage) request(s *session) (request, error) {
	url, nonce, node, digest, plain := m.scan()
	if w := s.watches[string(url)]; plain && s.node != nil && w != nil && w.digest == digest && (node == nil || nodeID(node) == s.node.ID) {
		return request{url: w.url, nonce: string(nonce), digest: digest, repeated: true}, nil
	}
	var d discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(m, &d); err != nil {
		return request{}, err
	}
	r := sotwRequest(&d)
	r.digest = digest
	return r, nil
}

// scan reads what an acknowledgement says. plain is false if the message says
// more, or is not to be read.
func (m sotwMessage) scan() (url, nonce, node []byte, digest uint64, plain bool) {
	h := xxhash.New()
	for b := []byte(m); len(b) > 0; {
		if n := nameRun(b); n < 0 {
			return nil, nil, nil, 0, false
		} else if n > 0 {
			_, _ = h.Write(b[:n]) // with tags and lengths; a hash never fails
			b = b[n:]
			continue
		}
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, nil, nil, 0, false
		}
		size := protowire.ConsumeFieldValue(field, kind, b[n:])
		if size < 0 || field == fieldRequestError {
			return nil, nil, nil, 0, false
		}
		value := b[n : n+size]
		switch {
		case kind != protowire.BytesType:
		case field == fieldRequestNode:
			node, _ = protowire.ConsumeBytes(value)
		case field == fieldRequestType:
			url, _ = protowire.ConsumeBytes(value)
		case field == fieldRequestNonce:
			nonce, _ = protowire.ConsumeBytes(value)
		}
		b = b[n+size:]
	}
	return url, nonce, node, max(1, h.Sum64()), true
}

// nodeID returns the id in an encoded Node; "" if there is none to read. Some
// clients say in each request who they are.
func nodeID(node []byte) (id string) {
	const fieldNodeID = 1
	for b := node; len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ""
		}
		size := protowire.ConsumeFieldValue(field, kind, b[n:])
		if size < 0 {
			return ""
		}
		if field == fieldNodeID && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[n:])
			id = string(value)
		}
		b = b[n+size:]
	}
	return id
}

// nameRun returns how many bytes at the start of b are names, one after the other:
// they come so, and are hashed at once. It is negative if one is cut short.
func nameRun(b []byte) (size int) {
	const tag = fieldRequestNames<<3 | byte(protowire.BytesType)
	for size < len(b) && b[size] == tag {
		length, n := protowire.ConsumeVarint(b[size+1:])
		if n < 0 || length > uint64(len(b)-size-1-n) {
			return -1
		}
		size += 1 + n + int(length)
	}
	return size
}
