package main

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary/test/bench/wire"
)

// Fields of DeltaDiscoveryResponse, Resource, Any and ClusterLoadAssignment. The
// outer messages are written by hand around bytes that are shared.
const (
	responseResources = 2
	responseType      = 4
	responseNonce     = 5

	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3

	anyType  = 1
	anyValue = 2

	assignmentName   = 1
	assignmentGroups = 2
)

// group encodes the endpoints of a slice as one field of an assignment.
func group(o *discoveryv1.EndpointSlice) ([]byte, error) {
	l := &endpointv3.LocalityLbEndpoints{}
	for _, e := range o.Endpoints {
		l.LbEndpoints = append(l.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
				Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: e.Addresses[0], PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(*o.Ports[0].Port)},
				}},
			}}},
		})
	}
	b, err := proto.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encoding the endpoints of %s: %w", o.Name, err)
	}
	return appendBytes(nil, assignmentGroups, b), nil
}

// resource returns the parts of an assignment as a field of a response.
func resource(name string, groups [][]byte) wire.Message {
	size := protowire.SizeTag(assignmentName) + protowire.SizeBytes(len(name))
	for _, g := range groups {
		size += len(g)
	}
	head := appendString(nil, resourceName, name)
	head = appendString(head, resourceVersion, "v")
	inner := appendString(nil, anyType, wire.EndpointType)
	inner = appendHead(inner, anyValue, size)
	head = appendHead(head, resourceAny, len(inner)+size)
	head = append(head, inner...)
	outer := appendHead(nil, responseResources, len(head)+size)
	outer = append(outer, head...)
	outer = appendString(outer, assignmentName, name)
	return append(wire.Message{outer}, groups...)
}

// response returns the parts of a response of a type around its resources.
func response(url string, resources ...[]byte) wire.Message {
	head := appendString(appendString(nil, responseType, url), responseNonce, "n")
	return append(wire.Message{head}, resources...)
}

func appendHead(b []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return append(appendHead(b, field, len(v)), v...)
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	return append(appendHead(b, field, len(v)), v...)
}
