package xds

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec hands frames to the transport by reference. Compression must stay off:
// it would copy every response for every stream.
type codec struct{}

var _ encoding.CodecV2 = codec{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case frame:
		return mem.BufferSlice(v), nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("encoding a message of type %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *sotwMessage:
		*v = data.Materialize()
	case *deltaMessage:
		*v = data.Materialize()
	case proto.Message:
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		return proto.Unmarshal(buf.ReadOnlyData(), v)
	default:
		return fmt.Errorf("decoding a message of type %T", v)
	}
	return nil
}
