package xds

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// frame is an encoded response in parts: a head of its own and the bytes of the
// resources, which all streams share. Parts must never be written to.
type frame [][]byte

func (f frame) size() int {
	n := 0
	for _, p := range f {
		n += len(p)
	}
	return n
}

// codec hands frames to the transport by reference. Compression must stay off:
// it would copy every response for every stream.
type codec struct{}

var _ encoding.CodecV2 = codec{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case frame:
		bufs := make(mem.BufferSlice, 0, len(v))
		for _, p := range v {
			if len(p) > 0 {
				bufs = append(bufs, mem.SliceBuffer(p))
			}
		}
		return bufs, nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("encoding a message of type %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*sotwMessage); ok {
		*raw = data.Materialize()
		return nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("decoding a message of type %T", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}
