package xds

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is an encoded response in parts: a head of its own and the bytes of the
// resources, which all streams share. Parts must never be written to.
type frame mem.BufferSlice

func (f frame) size() int { return mem.BufferSlice(f).Len() }

// encodeFrame encodes a response around the shared bytes of its resources.
func encodeFrame(r *response, delta bool, controlPlane string) frame {
	size := len(r.version) + len(r.url) + len(r.nonce) + len(controlPlane) + 32
	for _, n := range r.removed {
		size += sizeBytes(fieldDeltaRemoved, len(n))
	}
	head := make([]byte, 0, size)
	head = appendText(head, fieldResponseVersion, r.version)
	head = appendText(head, fieldResponseType, r.url)
	head = appendText(head, fieldResponseNonce, r.nonce)
	plane := fieldSotwControlPlane
	if delta {
		plane = fieldDeltaControlPlane
		for _, n := range r.removed {
			head = appendText(head, fieldDeltaRemoved, n)
		}
	}
	const fieldIdentifier = 1
	head = appendHead(head, protowire.Number(plane), sizeBytes(fieldIdentifier, len(controlPlane)))
	head = appendText(head, fieldIdentifier, controlPlane)

	if delta {
		f := make(frame, 1, 1+len(r.resources))
		f[0] = mem.SliceBuffer(head)
		for _, res := range r.resources {
			f = append(f, res.deltaBuffer)
		}
		return f
	}
	f := make(frame, 1, 1+2*len(r.resources))
	f[0] = mem.SliceBuffer(head)
	for _, res := range r.resources {
		f = append(f, res.sotwBuffer, res.anyBuffer)
	}
	return f
}
